//! Open activities that this process has seen, for joins during an outage.

use std::{sync::Arc, time::Duration};

use moka::{future::Cache, ops::compute::Op, policy::EvictionPolicy};

use super::{ActivityDetail, Status, hot_copy::Known};
use crate::kernel::ActivityId;

/// What was seen last of an activity that was opened.
#[derive(Clone)]
enum Seen {
    Open(Arc<ActivityDetail>),
    /// It takes no joins any more, as this version of it says.
    Over(u32),
}

impl Seen {
    /// `None` for what was not opened so far.
    fn of(detail: &Arc<ActivityDetail>) -> Option<Self> {
        match detail.status {
            Status::Open => Some(Self::Open(Arc::clone(detail))),
            Status::Drawing | Status::Drawn | Status::Cancelled => Some(Self::Over(detail.version)),
            Status::Draft | Status::InReview | Status::Rejected | Status::Ready => None,
        }
    }

    fn version(&self) -> u32 {
        match self {
            Self::Open(detail) => detail.version,
            Self::Over(version) => *version,
        }
    }
}

/// Decides for joins only: that they trust it does not make it any younger for other readers.
pub(super) struct SeenOpen {
    seen: Cache<ActivityId, Seen>,
    /// A look has failed or taken too long a moment ago.
    trusted: Cache<ActivityId, ()>,
}

impl SeenOpen {
    const CAPACITY: u64 = 10_000;
    /// The longest countdown.
    const LIFE: Duration = Duration::from_hours(30 * 24);
    /// How long joins trust it without another look.
    const TRUST: Duration = Duration::from_secs(1);

    pub(super) fn new() -> Self {
        Self {
            seen: Cache::builder()
                .max_capacity(Self::CAPACITY)
                .eviction_policy(EvictionPolicy::lru())
                .time_to_live(Self::LIFE)
                .build(),
            trusted: Cache::builder()
                .max_capacity(Self::CAPACITY)
                .time_to_live(Self::TRUST)
                .build(),
        }
    }

    /// The activity as it was when this process last saw it, if it was open then.
    pub(super) async fn get(&self, id: ActivityId) -> Option<Arc<ActivityDetail>> {
        match self.seen.get(&id).await? {
            Seen::Open(detail) => Some(detail),
            Seen::Over(_) => None,
        }
    }

    /// Notes what was seen, unless something newer was.
    pub(super) async fn note(&self, id: ActivityId, known: &Known) {
        let Known::Found(detail) = known else {
            return;
        };
        let Some(seen) = Seen::of(detail) else {
            return;
        };
        let noting = self.seen.entry(id).and_compute_with(|held| {
            let is_newest = held.is_none_or(|held| held.value().version() <= seen.version());
            std::future::ready(if is_newest { Op::Put(seen) } else { Op::Nop })
        });
        drop(noting.await);
    }

    /// Spares joins another look for a moment.
    pub(super) async fn trust(&self, id: ActivityId) {
        self.trusted.insert(id, ()).await;
    }

    pub(super) async fn is_trusted(&self, id: ActivityId) -> bool {
        self.trusted.get(&id).await.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::detail;
    use super::*;

    #[tokio::test]
    async fn an_activity_that_is_over_does_not_open_again() {
        let seen_open = SeenOpen::new();
        let id = ActivityId(7);
        for (version, status, is_open) in [
            (1, Status::Ready, false),
            (2, Status::Open, true),
            (1, Status::Ready, true),
            (4, Status::Drawing, false),
            (3, Status::Open, false),
        ] {
            let mut detail = detail();
            (detail.version, detail.status) = (version, status);
            seen_open.note(id, &Known::Found(Arc::new(detail))).await;
            let found = seen_open.get(id).await.is_some();
            assert_eq!(found, is_open, "{status:?} of version {version}");
        }
        seen_open.note(id, &Known::Unknown).await;
        assert!(seen_open.get(id).await.is_none());
    }
}
