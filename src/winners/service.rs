//! Results and lists of winners, from this process's memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use moka::future::Cache;
use rand::RngExt;
use sea_orm::DatabaseConnection;
use tokio::sync::Semaphore;

use super::{
    ResultKind, UserResult, WinnerError, WinnerList,
    hot_list::HotList,
    list_memory::{Flight, ListMemory},
    poll,
    result::{Crowd, time_left},
    store,
};
use crate::{
    activity::{self, ActivityDetail, ActivityError, ActivityService, Status},
    infra::{
        mysql::{DatabaseClock, read_in_turn},
        outbox::Outbox,
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
    pub outbox: Outbox,
    /// How many readers may be in `MySQL` at once, shared with other readers.
    pub mysql_reads: Arc<Semaphore>,
}

/// Tells who won. Cheap to clone.
#[derive(Clone)]
pub struct WinnerService {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) deps: WinnerDeps,
    hot: HotList,
    lists: ListMemory,
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
    const CROWDS_KEPT: u64 = 10_000;
    const CROWD_IDLE: Duration = Duration::from_mins(10);

    pub fn new(deps: WinnerDeps) -> Self {
        let waits = Cache::builder()
            .max_capacity(Self::CROWDS_KEPT)
            .time_to_idle(Self::CROWD_IDLE)
            .build();
        let hot = HotList::new(deps.redis.clone());
        Self {
            shared: Arc::new(Shared {
                deps,
                hot,
                lists: ListMemory::new(),
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
        let wait = wait.await;
        Ok(self.before_draw(&detail, &wait, chance))
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
        let lists = &self.shared.lists;
        let flight = lists.flight(detail.id, detail.round).await;
        if let Some(list) = lists.get(detail.id, flight.round()).await {
            metrics::cache_read(CACHE, "memory");
            return Ok(list);
        }
        self.read(detail, &flight).await
    }

    /// Reads the list from Redis or `MySQL`, one caller at a time. Should it be cancelled, the next
    /// one does; should it fail, it fails for all who wait for it.
    async fn read(
        &self,
        detail: &ActivityDetail,
        flight: &Flight,
    ) -> Result<Arc<WinnerList>, WinnerError> {
        let id = detail.id;
        let lists = &self.shared.lists;
        let arrived_at = Instant::now();
        let mut failed_at = flight.failed_at.lock().await;
        let round = flight.round();
        if let Some(list) = lists.get(id, round).await {
            metrics::cache_read(CACHE, "memory");
            return Ok(list);
        }
        if failed_at.is_some_and(|failed_at| failed_at >= arrived_at) {
            return Err(WinnerError::Unreadable(id));
        }
        let refill = match self.shared.hot.ask(id, round).await {
            Asked::Found(list) => {
                metrics::cache_read(CACHE, "redis");
                return Ok(lists.keep(id, list).await);
            }
            Asked::Missing(refill) => Some(refill),
            Asked::Silent => None,
        };
        let list = match self.read_mysql(id, round).await {
            Ok(list) => lists.keep(id, list).await,
            Err(error) => {
                // Whoever waited finds for itself that the rows are gone for good.
                if !matches!(error, WinnerError::Expired(_)) {
                    *failed_at = Some(Instant::now());
                }
                return Err(error);
            }
        };
        // Who waits for the list need not wait for the copy.
        drop(failed_at);
        if let Some(refill) = refill {
            let hot = &self.shared.hot;
            hot.fill(id, &detail.prizes, &list, refill).await;
        }
        Ok(list)
    }

    async fn read_mysql(&self, id: ActivityId, round: u32) -> Result<WinnerList, WinnerError> {
        let deps = &self.shared.deps;
        metrics::cache_read(CACHE, "mysql");
        let read = async {
            let wins = store::list_all(&deps.db, id).await?;
            // Rows that were missing went after their removal had begun.
            let activity = activity::find(&deps.db, id).await?;
            Ok((wins, activity))
        };
        let (wins, activity) = read_in_turn(&deps.mysql_reads, read)
            .await
            .map_err(|source| WinnerError::Database {
                action: "list the winners",
                id,
                source,
            })?;
        if activity.is_none_or(|activity| activity.wins_removed_at.is_some()) {
            return Err(WinnerError::Expired(id));
        }
        Ok(WinnerList::new(round, wins))
    }
}
