//! Remembers that Redis does not answer, so that the stream is not slowed down by asking again and
//! again.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Whether Redis failed a moment ago.
#[derive(Debug, Default)]
pub(super) struct Outage {
    resting_until: Mutex<Option<Instant>>,
}

impl Outage {
    /// How long Redis is left alone after it failed.
    const REST: Duration = Duration::from_secs(5);

    /// Whether Redis is left alone at the moment; for longer when it is known to be disconnected.
    pub(super) fn is_resting(&self, is_connected: impl FnOnce() -> bool) -> bool {
        let mut resting_until = self.resting_until.lock();
        match *resting_until {
            None => false,
            Some(until) if Instant::now() < until => true,
            Some(_) if is_connected() => false,
            Some(_) => {
                *resting_until = Some(Instant::now() + Self::REST);
                true
            }
        }
    }

    /// Redis failed; warns once an outage.
    pub(super) fn begin(&self, error: &(dyn std::error::Error + 'static)) {
        let known = self
            .resting_until
            .lock()
            .replace(Instant::now() + Self::REST);
        if known.is_none() {
            tracing::warn!(
                error,
                "redis does not answer: the pool is brought up to date later"
            );
        }
    }

    /// Redis works.
    pub(super) fn end(&self) {
        if self.resting_until.lock().take().is_some() {
            tracing::info!("redis answers again");
        }
    }
}
