//! The database's clock, read without asking the database each time.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use chrono::TimeDelta;
use parking_lot::Mutex;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr};
use tokio_util::sync::CancellationToken;

use super::sql;
use crate::kernel::{Clock, SystemClock, Timestamp};

/// What the database's clock shows: `at`, give or take `uncertainty`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseTime {
    pub at: Timestamp,
    pub uncertainty: Duration,
}

impl DatabaseTime {
    /// The latest time the database's clock can show.
    pub fn latest(&self) -> Timestamp {
        self.at + self.uncertainty
    }
}

/// The database's clock is not known to within a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database's time is not known to within a second")]
pub struct ClockUncertain;

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// What the database showed somewhere within `half_width` around `taken_at`.
    database_at: Timestamp,
    taken_at: Instant,
    half_width: Duration,
}

impl Sample {
    /// Two quartz clocks part by less than 200 µs a second.
    const DRIFT: f64 = 200e-6;

    fn uncertainty(&self, now: Instant) -> Duration {
        self.half_width
            + now
                .saturating_duration_since(self.taken_at)
                .mul_f64(Self::DRIFT)
    }

    /// Whether both can be true: not so once a clock was set, or the machine was suspended, between
    /// the two.
    fn agrees_with(&self, newer: &Self) -> bool {
        let expected = self.read(newer.taken_at);
        let apart = (newer.database_at - expected.at).abs();
        apart
            .to_std()
            .is_ok_and(|apart| apart <= expected.uncertainty + newer.half_width)
    }

    fn read(&self, now: Instant) -> DatabaseTime {
        let elapsed = now.saturating_duration_since(self.taken_at);
        DatabaseTime {
            at: self.database_at + elapsed,
            uncertainty: self.uncertainty(now),
        }
    }
}

/// The offset between this process's monotonic clock and `NOW(3)`, kept by sampling.
///
/// The best of the last ten samples counts, so one slow answer does no harm; a sample that
/// contradicts older ones, because a clock was set, drops them.
pub struct DatabaseClock {
    db: DatabaseConnection,
    samples: Mutex<VecDeque<Sample>>,
}

impl DatabaseClock {
    const KEPT: usize = 10;
    const SAMPLE_EVERY: Duration = Duration::from_secs(1);
    const SAMPLE_TIMEOUT: Duration = Duration::from_millis(1_500);
    /// Above this there is no answer.
    const USABLE: Duration = Duration::from_secs(1);

    pub fn new(db: DatabaseConnection) -> Self {
        Self {
            db,
            samples: Mutex::new(VecDeque::with_capacity(Self::KEPT)),
        }
    }

    /// What the database's clock shows now; asks the database only when nothing usable is known.
    pub async fn now(&self) -> Result<DatabaseTime, ClockUncertain> {
        if let Some(time) = self.estimate() {
            return Ok(time);
        }
        if let Err(error) = self.sample().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot read the database's clock");
        }
        self.estimate().ok_or(ClockUncertain)
    }

    /// The best estimate at hand, without I/O; `None` when it is more than a second wide.
    pub fn estimate(&self) -> Option<DatabaseTime> {
        let now = Instant::now();
        let samples = self.samples.lock();
        let best = samples
            .iter()
            .min_by_key(|sample| sample.uncertainty(now))?;
        Some(best.read(now)).filter(|time| time.uncertainty <= Self::USABLE)
    }

    /// The best guess at hand, without I/O, however old the last sample is; what this machine's clock
    /// shows when the database has not answered yet. For what must not wait for the database.
    pub fn guess(&self) -> DatabaseTime {
        let now = Instant::now();
        let samples = self.samples.lock();
        let best = samples.iter().min_by_key(|sample| sample.uncertainty(now));
        best.map_or_else(
            || DatabaseTime {
                at: SystemClock.now(),
                uncertainty: Duration::ZERO,
            },
            |best| best.read(now),
        )
    }

    /// Takes a sample each second until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let mut every = tokio::time::interval(Self::SAMPLE_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(every.tick()).await.is_some() {
            if let Err(error) = self.sample().await {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "clock sample failed"
                );
            }
        }
    }

    /// Asks the database for its time and remembers the answer.
    pub async fn sample(&self) -> Result<(), DbErr> {
        let asked_at = Instant::now();
        let query = self.db.query_one_raw(sql("SELECT NOW(3) AS now", []));
        let row = tokio::time::timeout(Self::SAMPLE_TIMEOUT, query)
            .await
            .map_err(|_| DbErr::Custom("the clock query timed out".to_owned()))??
            .ok_or_else(|| DbErr::RecordNotFound("NOW(3)".to_owned()))?;
        let shown: Timestamp = row.try_get("", "now")?;
        let round_trip = asked_at.elapsed();

        // NOW(3) is cut to a millisecond: the true value lies within the one after it.
        let half_millisecond = Duration::from_micros(500);
        let sample = Sample {
            database_at: shown + TimeDelta::microseconds(500),
            taken_at: asked_at + round_trip / 2,
            half_width: round_trip / 2 + half_millisecond,
        };
        let mut samples = self.samples.lock();
        samples.retain(|older| older.agrees_with(&sample));
        if samples.len() == Self::KEPT {
            samples.pop_front();
        }
        samples.push_back(sample);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_contradicts_those_from_before_a_clock_was_set() {
        let taken_at = Instant::now();
        let sample = |secs: u64, shown_ms: i64| Sample {
            database_at: Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(shown_ms),
            taken_at: taken_at + Duration::from_secs(secs),
            half_width: Duration::from_millis(2),
        };

        assert!(sample(0, 0).agrees_with(&sample(1, 1_004)));
        assert!(!sample(0, 0).agrees_with(&sample(1, 1_100)));
        assert!(!sample(0, 0).agrees_with(&sample(1, 900)));
    }

    #[test]
    fn an_old_sample_grows_uncertain_with_its_age() {
        let taken_at = Instant::now();
        let sample = Sample {
            database_at: Timestamp::UNIX_EPOCH,
            taken_at,
            half_width: Duration::from_millis(2),
        };

        let read = sample.read(taken_at + Duration::from_secs(100));

        assert_eq!(read.at, Timestamp::UNIX_EPOCH + TimeDelta::seconds(100));
        assert_eq!(read.uncertainty, Duration::from_millis(22));
        assert_eq!(
            read.latest(),
            Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(100_022)
        );
    }
}
