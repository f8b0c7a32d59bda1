//! Results and lists of winners, from this process's memory.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use moka::{Entry, future::Cache};
use rand::RngExt;
use sea_orm::DatabaseConnection;
use tokio::sync::{Mutex, Semaphore};

use super::{
    ResultKind, UserResult, WinnerError, WinnerList,
    hot_list::HotList,
    poll,
    result::{Crowd, time_left},
    store,
};
use crate::{
    activity::{ActivityDetail, ActivityError, ActivityService, Status},
    infra::{
        mysql::{DatabaseClock, read_in_turn},
        redis::{Redis, aside::Asked},
    },
    kernel::{ActivityId, UserId},
    telemetry::metrics,
};

/// What the metrics call this cache.
const CACHE: &str = "winners";

/// What [`WinnerService`] stands on.
pub struct WinnerDeps {
    pub db: DatabaseConnection,
    pub redis: Redis,
    pub activities: ActivityService,
    pub clock: Arc<DatabaseClock>,
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
    list: Arc<OnceLock<Arc<WinnerList>>>,
    /// The one reader at a time; when the last one failed.
    flight: Arc<Mutex<Option<Instant>>>,
}

impl Slot {
    fn known(&self) -> Option<Arc<WinnerList>> {
        self.list.get().cloned()
    }

    fn keep(&self, list: WinnerList) -> Arc<WinnerList> {
        Arc::clone(self.list.get_or_init(|| Arc::new(list)))
    }
}

pub(super) struct Shared {
    pub(super) deps: WinnerDeps,
    hot: HotList,
    /// Of the highest round that this process has heard of: a copy of the detail that is older than
    /// a redraw does not bring the old list back.
    lists: Cache<ActivityId, Slot>,
    waits: Cache<ActivityId, Arc<Wait>>,
}

/// What this process has told those who wait for a draw.
#[derive(Default)]
struct Wait {
    /// How many to come back for it.
    waiting: AtomicU64,
    /// That drawAt has passed: a correction of the clock does not take that back.
    is_due: AtomicBool,
}

impl WinnerService {
    /// Of up to 10,000 rows each.
    const LISTS_KEPT: u64 = 100;
    const LIST_IDLE: Duration = Duration::from_mins(10);
    const CROWDS_KEPT: u64 = 10_000;

    pub fn new(deps: WinnerDeps) -> Self {
        let lists = Cache::builder()
            .max_capacity(Self::LISTS_KEPT)
            .time_to_idle(Self::LIST_IDLE)
            .build();
        let waits = Cache::builder()
            .max_capacity(Self::CROWDS_KEPT)
            .time_to_idle(Self::LIST_IDLE)
            .build();
        let hot = HotList::new(deps.redis.clone());
        Self {
            shared: Arc::new(Shared {
                deps,
                hot,
                lists,
                waits,
            }),
        }
    }

    /// What became of a user; "won" and "not won" come from committed data only.
    pub async fn result(&self, id: ActivityId, user: UserId) -> Result<UserResult, WinnerError> {
        let detail = self.public_detail(id).await?;
        let chance = rand::rng().random();
        if detail.status == Status::Drawn {
            let winners = self.list_of(&detail).await?;
            let crowd = Crowd { waiting: 0, chance };
            return Ok(UserResult::after_draw(&detail, &winners, user, crowd));
        }
        let wait = self.shared.waits.get_with(id, async { Arc::default() });
        Ok(self.before_draw(&detail, &wait.await, chance))
    }

    fn before_draw(&self, detail: &ActivityDetail, wait: &Wait, chance: f64) -> UserResult {
        // A guess is as good as any when the database does not tell its time: a result never depends
        // on it.
        let guess = self.shared.deps.clock.guess().at;
        let now = match detail.draw_at {
            Some(draw_at) if wait.is_due.load(Ordering::Relaxed) => guess.max(draw_at),
            Some(_) | None => guess,
        };
        let crowd = Crowd {
            waiting: wait.waiting.load(Ordering::Relaxed),
            chance,
        };
        let result = UserResult::before_draw(detail, now, crowd);
        if result.result == ResultKind::Drawing {
            wait.is_due.store(true, Ordering::Relaxed);
        } else if poll::waits_for_draw(time_left(detail, now)) {
            wait.waiting.fetch_add(1, Ordering::Relaxed);
        }
        result
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
        if let Some(list) = slot.known() {
            metrics::cache_read(CACHE, "memory");
            return Ok(list);
        }
        self.read(detail, &slot).await
    }

    /// Fills the slot from Redis or `MySQL`, one caller at a time. Should it be cancelled, the next
    /// one does; should it fail, it fails for all who wait for it.
    async fn read(
        &self,
        detail: &ActivityDetail,
        slot: &Slot,
    ) -> Result<Arc<WinnerList>, WinnerError> {
        let id = detail.id;
        let arrived_at = Instant::now();
        let mut failed_at = slot.flight.lock().await;
        if let Some(list) = slot.known() {
            metrics::cache_read(CACHE, "memory");
            return Ok(list);
        }
        if failed_at.is_some_and(|failed_at| failed_at >= arrived_at) {
            return Err(WinnerError::Unreadable(id));
        }
        let asked = match self.shared.hot.ask(id, slot.round).await {
            Asked::Found(list) => {
                metrics::cache_read(CACHE, "redis");
                return Ok(slot.keep(list));
            }
            asked @ (Asked::Missing | Asked::Silent) => asked,
        };
        let list = match self.read_mysql(id, slot.round).await {
            Ok(list) => slot.keep(list),
            Err(error) => {
                *failed_at = Some(Instant::now());
                return Err(error);
            }
        };
        // Who waits for the list need not wait for the copy.
        drop(failed_at);
        if matches!(asked, Asked::Missing) {
            self.shared.hot.fill(id, &detail.prizes, &list).await;
        }
        Ok(list)
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
                flight: Arc::default(),
            }))
        };
        lists.entry(id).and_upsert_with(newest).await.into_value()
    }

    async fn read_mysql(&self, id: ActivityId, round: u32) -> Result<WinnerList, WinnerError> {
        let deps = &self.shared.deps;
        metrics::cache_read(CACHE, "mysql");
        let wins = read_in_turn(&deps.mysql_reads, store::list_all(&deps.db, id))
            .await
            .map_err(|source| WinnerError::Database {
                action: "list the winners",
                id,
                source,
            })?;
        Ok(WinnerList::new(round, wins))
    }
}
