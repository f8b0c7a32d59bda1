//! Looks for what is new in one activity, for all who listen in this process.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::{
    super::{ActivityDetail, ActivityError},
    moment::{Look, Moment},
    service::Shared,
};
use crate::kernel::ActivityId;

/// Between two looks at the detail, which is in memory for most of them.
const PAUSE: Duration = Duration::from_millis(250);
/// The participants are counted, and told, with each second look: at most twice a second.
const LOOKS_A_COUNT: u64 = 2;

/// Lasts as long as somebody listens.
pub(super) struct Watcher {
    shared: Arc<Shared>,
    id: ActivityId,
    moments: watch::Sender<Arc<Moment>>,
}

impl Watcher {
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
        let activities = &self.shared.activities;
        let detail = || Box::pin(activities.detail(self.id)) as BoxFuture<'_, _>;
        let count = || Box::pin(self.count()) as BoxFuture<'_, _>;
        let looks = looks(detail, count, |seen| self.tell(&self.look(seen)));
        tokio::pin!(looks);
        loop {
            tokio::select! {
                () = self.shared.stop.cancelled() => return,
                () = self.moments.closed() => {
                    if self.shared.forget_if_unheard(self.id, &self.moments) {
                        return;
                    }
                }
                () = &mut looks => return,
            }
        }
    }

    fn look(&self, seen: Seen<Result<Arc<ActivityDetail>, ActivityError>>) -> Look {
        let (detail, count) = match seen {
            Seen::Detail(detail) => (detail.inspect_err(|error| self.log(error)).ok(), None),
            Seen::Count(count) => (None, count),
        };
        Look {
            detail,
            count,
            now: self.shared.activities.now_estimate(),
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

/// What was looked for.
enum Seen<D> {
    Detail(D),
    Count(Option<u64>),
}

/// Looks again and again, for ever. Each of the two is asked for once at a time, and told as soon as it
/// is there: a count that is slow to come must not hold up a draw.
async fn looks<'a, D>(
    ask_detail: impl Fn() -> BoxFuture<'a, D>,
    ask_count: impl Fn() -> BoxFuture<'a, Option<u64>>,
    tell: impl Fn(Seen<D>),
) {
    let mut pauses = interval(PAUSE);
    // Looks that were late are not made up for, so the pause is the least there is.
    pauses.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut detail, mut count) = (Asked::default(), Asked::default());
    let mut look_no: u64 = 0;
    loop {
        tokio::select! {
            _ = pauses.tick() => {
                detail.ask(&ask_detail);
                if look_no.is_multiple_of(LOOKS_A_COUNT) {
                    count.ask(&ask_count);
                }
                look_no += 1;
            }
            detail = detail.answer() => tell(Seen::Detail(detail)),
            count = count.answer() => tell(Seen::Count(count)),
        }
    }
}

/// A question, while its answer is on its way.
struct Asked<'a, T>(Option<BoxFuture<'a, T>>);

impl<T> Default for Asked<'_, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'a, T> Asked<'a, T> {
    /// Asks, unless that was asked and is not answered.
    fn ask(&mut self, question: &impl Fn() -> BoxFuture<'a, T>) {
        if self.0.is_none() {
            self.0 = Some(question());
        }
    }

    /// The answer, once; while nothing was asked none comes. May be dropped and called again.
    async fn answer(&mut self) -> T {
        let Some(pending) = &mut self.0 else {
            return std::future::pending().await;
        };
        let answer = pending.await;
        self.0 = None;
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::pending};

    use super::*;

    /// Looks until `enough` of what is counted has been told.
    async fn until_told(enough: u32, looks: impl Future<Output = ()>, told: &Cell<u32>) {
        let told_enough = async {
            while told.get() < enough {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let both = async {
            tokio::select! {
                () = looks => (),
                () = told_enough => (),
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), both).await;
        assert!(waited.is_ok(), "{} were told", told.get());
    }

    #[tokio::test]
    async fn a_count_that_never_comes_holds_up_no_detail_and_is_asked_for_once() {
        let (told, asked) = (Cell::new(0), std::sync::atomic::AtomicU32::new(0));
        let looks = looks(
            || Box::pin(async {}),
            || {
                asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                Box::pin(pending())
            },
            |seen| match seen {
                Seen::Detail(()) => told.set(told.get() + 1),
                Seen::Count(count) => panic!("{count:?} was counted"),
            },
        );

        until_told(4, looks, &told).await;

        assert_eq!(asked.into_inner(), 1);
    }

    #[tokio::test]
    async fn a_detail_that_never_comes_holds_up_no_count() {
        let told = Cell::new(0);
        let looks = looks(
            || Box::pin(pending::<()>()),
            || Box::pin(async { Some(7) }),
            |seen| match seen {
                Seen::Detail(()) => panic!("a detail was told"),
                Seen::Count(count) => {
                    assert_eq!(count, Some(7));
                    told.set(told.get() + 1);
                }
            },
        );

        until_told(2, looks, &told).await;
    }
}
