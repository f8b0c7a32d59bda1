//! When to ask for a result again: soon enough to see it, and not all at once.

use std::time::Duration;

use super::ResultKind;

/// The longest pause before there is a result.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// What a draw needs.
const ALLOWANCE: Duration = Duration::from_millis(500);
const DRAWING: Duration = Duration::from_secs(1);
const FINAL: Duration = Duration::from_mins(1);

/// Over how long those who wait for a draw are spread: the more wait, the longer.
const LEAST_SPREAD: Duration = Duration::from_secs(1);
const MOST_SPREAD: Duration = Duration::from_secs(4);
/// How many may come back to one process in a second.
const BACK_A_SECOND: u64 = 10_000;

/// Whether somebody who hears that nothing is drawn yet is to come back for the draw itself;
/// `until_draw` is the time to drawAt.
pub(super) fn waits_for_draw(until_draw: Option<Duration>) -> bool {
    until_draw.is_some_and(|left| left + ALLOWANCE <= LONGEST_WAIT)
}

/// The pause of somebody who was told `result`; `chance`, from 0 to 1, is its place in the crowd of
/// `waiting` who were told to come back for the draw.
pub(super) fn pause(
    result: ResultKind,
    until_draw: Option<Duration>,
    waiting: u64,
    chance: f64,
) -> Duration {
    match (result, until_draw) {
        (ResultKind::NotDrawn, Some(left)) if waits_for_draw(until_draw) => {
            left + ALLOWANCE + spread(waiting).mul_f64(chance)
        }
        (ResultKind::NotDrawn, Some(_) | None) => LONGEST_WAIT.mul_f64(0.5 + chance / 2.0),
        (ResultKind::Drawing, _) => DRAWING + spread(waiting).mul_f64(chance),
        (ResultKind::Won | ResultKind::NotWon | ResultKind::Revoked, _) => {
            FINAL.mul_f64(1.0 + chance / 2.0)
        }
    }
}

fn spread(waiting: u64) -> Duration {
    let wanted_ms = waiting.saturating_mul(1_000) / BACK_A_SECOND;
    Duration::from_millis(wanted_ms).clamp(LEAST_SPREAD, MOST_SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: u64 = 200;

    /// The shortest and the longest pause, in milliseconds.
    fn range(result: ResultKind, left_ms: Option<u64>, waiting: u64) -> [u128; 2] {
        let left = left_ms.map(Duration::from_millis);
        [0.0, 1.0].map(|chance| pause(result, left, waiting, chance).as_millis())
    }

    #[test]
    fn who_waits_comes_back_shortly_after_the_draw() {
        let waiting = ResultKind::NotDrawn;
        assert_eq!(range(waiting, Some(4_000), SMALL), [4_500, 5_500]);
        assert_eq!(range(waiting, Some(0), SMALL), [500, 1_500]);
        assert_eq!(range(waiting, Some(29_500), SMALL), [30_000, 31_000]);
    }

    #[test]
    fn who_is_early_looks_again_and_never_passes_over_the_draw() {
        for left in [Some(29_501), Some(3_600_000), None] {
            assert_eq!(range(ResultKind::NotDrawn, left, SMALL), [15_000, 30_000]);
        }
    }

    #[test]
    fn a_larger_crowd_is_spread_over_a_longer_time_but_for_a_few_seconds_at_most() {
        let widest = |waiting| range(ResultKind::NotDrawn, Some(0), waiting)[1] - 500;
        assert_eq!([0, 10_000].map(widest), [1_000, 1_000]);
        assert_eq!(widest(25_000), 2_500);
        assert_eq!([40_000, 1_000_000, u64::MAX].map(widest), [4_000; 3]);
        assert_eq!(range(ResultKind::Drawing, Some(0), 25_000), [1_000, 3_500]);
    }

    #[test]
    fn who_knows_the_result_hardly_asks_again() {
        for known in [ResultKind::Won, ResultKind::NotWon, ResultKind::Revoked] {
            assert_eq!(range(known, None, u64::MAX), [60_000, 90_000]);
        }
    }
}
