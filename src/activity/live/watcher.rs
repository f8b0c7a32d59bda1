//! Looks for what is new in one activity, for all who listen in this process.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::{
    super::ActivityError,
    moment::{Look, Moment},
    service::Shared,
};
use crate::kernel::ActivityId;

/// Lasts as long as somebody listens.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    id: ActivityId,
    moments: watch::Sender<Arc<Moment>>,
}

impl Watcher {
    /// Between two looks at the detail, which is in memory for most of them.
    const PAUSE: Duration = Duration::from_millis(250);
    /// The participants are counted, and told, with each second look: at most twice a second.
    const LOOKS_A_COUNT: u64 = 2;

    pub(super) fn new(
        shared: Arc<Shared>,
        id: ActivityId,
        moments: watch::Sender<Arc<Moment>>,
    ) -> Self {
        Self {
            shared,
            id,
            moments,
        }
    }

    pub(super) async fn run(self) {
        let mut pauses = interval(Self::PAUSE);
        // Looks that were late are not made up for, so the pause is the least there is.
        pauses.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut look_no = 0;
        loop {
            tokio::select! {
                () = self.shared.stop.cancelled() => return,
                () = self.moments.closed() => {
                    if self.shared.forget_if_unheard(self.id, &self.moments) {
                        return;
                    }
                }
                _ = pauses.tick() => {
                    let look = self.look(look_no % Self::LOOKS_A_COUNT == 0);
                    let Some(look) = self.shared.stop.run_until_cancelled(look).await else {
                        return;
                    };
                    look_no += 1;
                    self.tell(&look);
                }
            }
        }
    }

    async fn look(&self, is_counting: bool) -> Look {
        let activities = &self.shared.activities;
        let count = async {
            if is_counting {
                self.count().await
            } else {
                None
            }
        };
        // Side by side: a count that is slow to come must not hold up a draw.
        let (detail, count) = tokio::join!(activities.detail(self.id), count);
        Look {
            detail: detail.inspect_err(|error| self.log(error)).ok(),
            count,
            now: activities.now_estimate(),
        }
    }

    /// How many take part, by what the last look has found.
    async fn count(&self) -> Option<u64> {
        let detail = Arc::clone(&self.moments.borrow().detail);
        if detail.joined_count.is_some() {
            detail.joined_count
        } else if detail.was_opened() {
            self.shared.participants.count_participants(self.id).await
        } else {
            Some(0)
        }
    }

    fn tell(&self, look: &Look) {
        let linger = self.shared.settings.linger_secs.duration();
        self.moments.send_if_modified(|held| {
            let next = held.after(look, linger);
            let is_new = next.is_some();
            if let Some(next) = next {
                *held = Arc::new(next);
            }
            is_new
        });
    }

    /// An outage is told once by who watches the server that is away.
    fn log(&self, error: &ActivityError) {
        tracing::debug!(
            activity.id = %self.id,
            error = error as &dyn std::error::Error,
            "listeners go on with what is known"
        );
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.forget(self.id, &self.moments);
    }
}
