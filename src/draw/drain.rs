//! How long a draw waits for the stream: a pure account of what was seen, and when.

use std::time::{Duration, Instant};

/// What one look at the stream showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sighting {
    pub(super) broker: BrokerState,
    /// Anything that moves when a partition commits something.
    pub(super) progress: u64,
}

/// Whether the broker can deliver at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokerState {
    Answers,
    Silent,
}

/// Whether to wait on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    Left,
    /// Nothing has moved for the limit although the broker answers, or the outer limit is reached.
    Exhausted,
}

/// Counts the time in which the stream stands still although the broker answers.
#[derive(Debug)]
pub(super) struct DrainTimer {
    limit: Duration,
    max: Duration,
    started_at: Instant,
    looked_at: Instant,
    still_for: Duration,
    progress: Option<u64>,
}

impl DrainTimer {
    pub(super) fn start(limit: Duration, max: Duration, now: Instant) -> Self {
        Self {
            limit,
            max,
            started_at: now,
            looked_at: now,
            still_for: Duration::ZERO,
            progress: None,
        }
    }

    /// Takes note of a look at the stream. A backlog that moves and a broker that is down extend
    /// the wait up to the outer limit.
    pub(super) fn look(&mut self, now: Instant, seen: Sighting) -> Patience {
        let since_last = now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
        let moved = self.progress.replace(seen.progress) != Some(seen.progress);
        if moved {
            self.still_for = Duration::ZERO;
        } else if seen.broker == BrokerState::Answers {
            self.still_for += since_last;
        }
        let waited = now.saturating_duration_since(self.started_at);
        if self.still_for >= self.limit || waited >= self.max {
            Patience::Exhausted
        } else {
            Patience::Left
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        now: Instant,
        timer: DrainTimer,
    }

    impl Scene {
        fn new() -> Self {
            let now = Instant::now();
            let timer = DrainTimer::start(Duration::from_secs(30), Duration::from_mins(5), now);
            Self { now, timer }
        }

        fn after(&mut self, secs: u64, broker: BrokerState, progress: u64) -> Patience {
            self.now += Duration::from_secs(secs);
            self.timer.look(self.now, Sighting { broker, progress })
        }
    }

    #[test]
    fn a_stream_that_stands_still_is_given_the_limit() {
        let mut scene = Scene::new();

        assert_eq!(scene.after(0, BrokerState::Answers, 5), Patience::Left);
        assert_eq!(scene.after(29, BrokerState::Answers, 5), Patience::Left);
        assert_eq!(scene.after(1, BrokerState::Answers, 5), Patience::Exhausted);
    }

    #[test]
    fn a_backlog_that_moves_extends_the_wait_to_the_outer_limit() {
        let mut scene = Scene::new();

        for progress in 1..15 {
            assert_eq!(
                scene.after(20, BrokerState::Answers, progress),
                Patience::Left
            );
        }
        assert_eq!(
            scene.after(20, BrokerState::Answers, 15),
            Patience::Exhausted
        );
    }

    #[test]
    fn the_time_of_a_broker_outage_does_not_count() {
        let mut scene = Scene::new();

        assert_eq!(scene.after(0, BrokerState::Answers, 5), Patience::Left);
        assert_eq!(scene.after(20, BrokerState::Answers, 5), Patience::Left);
        assert_eq!(scene.after(60, BrokerState::Silent, 5), Patience::Left);
        assert_eq!(scene.after(9, BrokerState::Answers, 5), Patience::Left);
        assert_eq!(scene.after(1, BrokerState::Answers, 5), Patience::Exhausted);
    }
}
