//! Results and lists of winners, from this process's memory.

use std::{sync::Arc, time::Duration};

use moka::{Entry, future::Cache};
use rand::RngExt;
use sea_orm::DatabaseConnection;
use tokio::sync::{OnceCell, Semaphore};

use super::{UserResult, WinnerError, WinnerList, store};
use crate::{
    activity::{ActivityDetail, ActivityError, ActivityService, Status},
    infra::{
        mysql::{DatabaseClock, read_in_turn},
        outbox::Outbox,
    },
    kernel::{ActivityId, UserId},
};

/// What [`WinnerService`] stands on.
pub struct WinnerDeps {
    pub db: DatabaseConnection,
    pub activities: ActivityService,
    pub clock: Arc<DatabaseClock>,
    pub outbox: Outbox,
    /// How many readers may be in `MySQL` at once, shared with other readers.
    pub mysql_reads: Arc<Semaphore>,
}

/// Tells who won. Cheap to clone.
#[derive(Clone)]
pub struct WinnerService {
    pub(super) shared: Arc<Shared>,
}

/// The list of at least one round, read once, by whoever comes first.
#[derive(Clone)]
struct Slot {
    round: u32,
    list: Arc<OnceCell<Arc<WinnerList>>>,
}

pub(super) struct Shared {
    pub(super) deps: WinnerDeps,
    /// Of the highest round that this process has heard of: a copy of the detail that is older than
    /// a redraw does not bring the old list back.
    lists: Cache<ActivityId, Slot>,
}

impl WinnerService {
    /// Of up to 10,000 rows each.
    const LISTS_KEPT: u64 = 100;
    const LIST_IDLE: Duration = Duration::from_mins(10);
    /// Spreads the next questions of everybody who asks at the same moment.
    const JITTER_MS: u64 = 1_000;

    pub fn new(deps: WinnerDeps) -> Self {
        let lists = Cache::builder()
            .max_capacity(Self::LISTS_KEPT)
            .time_to_idle(Self::LIST_IDLE)
            .build();
        Self {
            shared: Arc::new(Shared { deps, lists }),
        }
    }

    /// What became of a user; "won" and "not won" come from committed data only.
    pub async fn result(&self, id: ActivityId, user: UserId) -> Result<UserResult, WinnerError> {
        let detail = self.public_detail(id).await?;
        let jitter = Duration::from_millis(rand::rng().random_range(0..Self::JITTER_MS));
        if detail.status != Status::Drawn {
            let now = self.shared.deps.clock.estimate().map(|time| time.at);
            return Ok(UserResult::before_draw(&detail, now, jitter));
        }
        let winners = self.list_of(&detail).await?;
        Ok(UserResult::after_draw(&detail, &winners, user, jitter))
    }

    /// The activity and its winners; an empty list with round 0 before the draw.
    pub async fn list(
        &self,
        id: ActivityId,
    ) -> Result<(Arc<ActivityDetail>, Arc<WinnerList>), WinnerError> {
        let detail = self.public_detail(id).await?;
        let winners = match detail.status {
            Status::Drawn => self.list_of(&detail).await?,
            Status::Draft
            | Status::InReview
            | Status::Rejected
            | Status::Ready
            | Status::Open
            | Status::Drawing
            | Status::Cancelled => Arc::default(),
        };
        Ok((detail, winners))
    }

    async fn public_detail(&self, id: ActivityId) -> Result<Arc<ActivityDetail>, WinnerError> {
        let detail = self.shared.deps.activities.detail(id).await?;
        if detail.is_public() {
            Ok(detail)
        } else {
            Err(ActivityError::NotFound(id).into())
        }
    }

    /// The list of a drawn activity, with at least the detail's round.
    async fn list_of(&self, detail: &ActivityDetail) -> Result<Arc<WinnerList>, WinnerError> {
        // Whose records are gone did not lose.
        if detail.wins_removed_at.is_some() {
            return Err(WinnerError::Expired(detail.id));
        }
        let slot = self.slot(detail.id, detail.round).await;
        // Whoever comes first reads; should it be cancelled or fail, the next one does.
        let list = slot
            .list
            .get_or_try_init(|| self.read(detail.id, slot.round))
            .await?;
        Ok(Arc::clone(list))
    }

    /// The slot of this round or of a later one.
    async fn slot(&self, id: ActivityId, round: u32) -> Slot {
        let lists = &self.shared.lists;
        if let Some(slot) = lists.get(&id).await
            && slot.round >= round
        {
            return slot;
        }
        let newest = |held: Option<Entry<ActivityId, Slot>>| {
            let held = held.map(Entry::into_value);
            let slot = held.filter(|slot| slot.round >= round);
            std::future::ready(slot.unwrap_or_else(|| Slot {
                round,
                list: Arc::default(),
            }))
        };
        lists.entry(id).and_upsert_with(newest).await.into_value()
    }

    async fn read(&self, id: ActivityId, round: u32) -> Result<Arc<WinnerList>, WinnerError> {
        let deps = &self.shared.deps;
        let wins = read_in_turn(&deps.mysql_reads, store::list_all(&deps.db, id))
            .await
            .map_err(|source| WinnerError::Database {
                action: "list the winners",
                id,
                source,
            })?;
        Ok(Arc::new(WinnerList::new(round, wins)))
    }
}
