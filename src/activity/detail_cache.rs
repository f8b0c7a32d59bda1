//! Activity details: process memory, then Redis, then `MySQL`, one flight for each id.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use moka::future::Cache;
use sea_orm::DatabaseConnection;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    ActivityDetail, ActivityError,
    detail_memory::DetailMemory,
    error::db_error,
    hot_copy::{HotCopy, HotCopyError, Known},
    seen_open::SeenOpen,
    store,
};
use crate::{
    infra::{
        mysql::read_in_turn,
        redis::aside::{Asked, Refill},
    },
    kernel::ActivityId,
    telemetry::metrics,
};

/// What the metrics call this cache.
const CACHE: &str = "detail";

/// Where a read looked.
enum Reach {
    RedisAndMysql,
    MysqlAlone,
}

/// What the last read of an id gave.
enum LastRead {
    Done { started_at: Instant, known: Known },
    Failed { ended_at: Instant, reach: Reach },
}

/// The one reader of an id at a time, and what it found.
type Flight = Mutex<Option<LastRead>>;

/// See the module. Every failure of Redis falls through to `MySQL`.
pub(super) struct DetailCache {
    db: DatabaseConnection,
    hot: HotCopy,
    reads: Arc<Semaphore>,
    memory: DetailMemory,
    seen_open: SeenOpen,
    flights: Cache<ActivityId, Arc<Flight>>,
}

impl DetailCache {
    const CAPACITY: u64 = 10_000;
    const FLIGHT_IDLE: Duration = Duration::from_mins(1);
    /// How long a join waits for a look at an activity that was open a moment ago.
    const JOIN_PATIENCE: Duration = Duration::from_millis(300);
    /// Renewals under way at once.
    const RENEWALS_AT_ONCE: usize = 16;

    pub(super) fn new(
        db: DatabaseConnection,
        hot: HotCopy,
        memory_life: Duration,
        reads: Arc<Semaphore>,
    ) -> Self {
        Self {
            db,
            hot,
            reads,
            memory: DetailMemory::new(memory_life),
            seen_open: SeenOpen::new(),
            flights: Cache::builder()
                .max_capacity(Self::CAPACITY)
                .time_to_idle(Self::FLIGHT_IDLE)
                .build(),
        }
    }

    /// The detail, at most the memory's life old. What is asked for all the time may be told a little
    /// longer while it is renewed, and for a minute when nobody answers.
    pub(super) async fn get(&self, id: ActivityId) -> Result<Known, ActivityError> {
        if let Some(known) = self.memory.get(id).await {
            metrics::cache_read(CACHE, "memory");
            return Ok(known);
        }
        let past = self.memory.looked_at(id).await;
        match self.look(id, past).await {
            Ok(known) => Ok(known),
            Err(error) => {
                let known = self.memory.keep_telling(id, past).await.ok_or(error)?;
                metrics::cache_read(CACHE, "memory");
                Ok(known)
            }
        }
    }

    /// The detail as `MySQL` has it at some time after this call.
    pub(super) async fn get_fresh(&self, id: ActivityId) -> Result<Known, ActivityError> {
        let arrived_at = Instant::now();
        let flight = self.flight(id).await;
        let mut last_read = flight.lock().await;
        if let Some(LastRead::Done { started_at, known }) = &*last_read
            && *started_at >= arrived_at
        {
            return Ok(self.newest_of(id, known.clone()).await);
        }
        fail_with_the_others(id, last_read.as_ref(), arrived_at)?;
        let known = self
            .read_mysql(id, &mut last_read, Reach::MysqlAlone)
            .await?;
        drop(last_read);
        self.hot.fill(id, &known, Refill::default()).await;
        Ok(known)
    }

    /// Looks again at what is asked for all the time, before this process has to; until `stop`.
    pub(super) async fn renew_hot(&self, stop: CancellationToken) {
        let Some(asked_for) = self.memory.take_renewals() else {
            return;
        };
        let asked_for = Mutex::new(asked_for);
        let renewing = (0..Self::RENEWALS_AT_ONCE).map(|_| self.renew_each(&asked_for));
        stop.run_until_cancelled(join_all(renewing)).await;
    }

    async fn renew_each(&self, asked_for: &Mutex<mpsc::Receiver<ActivityId>>) {
        loop {
            let next = asked_for.lock().await.recv().await;
            let Some(id) = next else {
                return;
            };
            self.renew_now(id).await;
        }
    }

    async fn renew_now(&self, id: ActivityId) {
        let Some(past) = self.memory.begin_renewal(id).await else {
            return;
        };
        let past = Some(past);
        if let Err(error) = self.look(id, past).await {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(activity.id = %id, error, "a detail was not renewed");
        }
        self.memory.keep_telling(id, past).await;
    }

    /// Looks at Redis and `MySQL`, one caller at a time, unless somebody has since `past`.
    async fn look(&self, id: ActivityId, past: Option<Instant>) -> Result<Known, ActivityError> {
        let arrived_at = Instant::now();
        let flight = self.flight(id).await;
        let mut last_read = flight.lock().await;
        if let Some(known) = self.memory.get_since(id, past).await {
            metrics::cache_read(CACHE, "memory");
            return Ok(known);
        }
        // Redis may know what those who asked MySQL alone have asked in vain.
        if !matches!(
            &*last_read,
            Some(LastRead::Failed {
                reach: Reach::MysqlAlone,
                ..
            })
        ) {
            fail_with_the_others(id, last_read.as_ref(), arrived_at)?;
        }
        let refill = match self.ask_redis(id).await {
            Asked::Found(known) => {
                metrics::cache_read(CACHE, "redis");
                return Ok(known);
            }
            Asked::Missing(refill) => Some(refill),
            Asked::Silent => None,
        };
        let known = self
            .read_mysql(id, &mut last_read, Reach::RedisAndMysql)
            .await?;
        // Who waits for the detail need not wait for the copy.
        drop(last_read);
        if let Some(refill) = refill {
            self.hot.fill(id, &known, refill).await;
        }
        Ok(known)
    }

    /// What Redis has, but nothing older than what this process has told.
    async fn ask_redis(&self, id: ActivityId) -> Asked<Known> {
        let looked_at = Instant::now();
        let newest = self.memory.newest(id).await;
        let asked = self.hot.ask(id, newest.as_ref()).await;
        match asked {
            Asked::Found(known) => Asked::Found(self.remember_from(id, known, looked_at).await),
            Asked::Missing(_) | Asked::Silent => asked,
        }
    }

    /// The newer one of this and what was seen meanwhile: what was told once is not taken back.
    async fn newest_of(&self, id: ActivityId, known: Known) -> Known {
        match self.memory.newest(id).await {
            Some(newest) if newest.is_at_least(&known) => newest,
            Some(_) | None => known,
        }
    }

    /// The detail for a join: an activity that this process has seen open stays so when nothing else
    /// can be learned in time (its drawAt is fixed, so the caller knows when that ends), and "not
    /// open" is never told from a copy that may be too old.
    pub(super) async fn get_for_join(&self, id: ActivityId) -> Result<Known, ActivityError> {
        let seen_open = self.seen_open.get(id).await;
        let known = match seen_open {
            Some(detail) => self.get_or_trust(id, detail).await,
            None => self.get(id).await?,
        };
        match known {
            Known::Found(detail) if detail.may_yet_open() => self.get_fresh(id).await,
            Known::Found(_) | Known::Unknown => Ok(known),
        }
    }

    /// Looks again, and trusts `seen_open` when the look fails or takes too long.
    async fn get_or_trust(&self, id: ActivityId, seen_open: Arc<ActivityDetail>) -> Known {
        if let Some(known) = self.memory.get(id).await {
            metrics::cache_read(CACHE, "memory");
            return known;
        }
        // One waiting join a second is enough, and none while somebody else is looking.
        if self.seen_open.is_trusted(id).await || self.flight(id).await.try_lock().is_err() {
            return Known::Found(seen_open);
        }
        if let Ok(Ok(known)) = tokio::time::timeout(Self::JOIN_PATIENCE, self.get(id)).await {
            return known;
        }
        tracing::debug!(activity.id = %id, "served from memory, nothing else answers");
        self.seen_open.trust(id).await;
        Known::Found(seen_open)
    }

    /// Keeps what is known now, unless something newer is; answers the newest.
    pub(super) async fn remember(&self, id: ActivityId, known: Known) -> Known {
        self.remember_from(id, known, Instant::now()).await
    }

    async fn remember_from(&self, id: ActivityId, known: Known, looked_at: Instant) -> Known {
        self.seen_open.note(id, &known).await;
        self.memory.remember(id, &known, looked_at).await
    }

    /// The same as [`Self::remember`], but keeps nothing that nobody has asked this process for: it
    /// would only grow old until somebody does.
    async fn renew(&self, id: ActivityId, known: Known) {
        if self.memory.looked_at(id).await.is_some() {
            self.remember(id, known).await;
        } else {
            self.seen_open.note(id, &known).await;
        }
    }

    /// Makes what this process has just committed known at once; the outbox makes sure of it.
    pub(super) async fn publish(&self, detail: &Arc<ActivityDetail>) {
        let known = Known::Found(Arc::clone(detail));
        self.remember(detail.id, known).await;
        if self.hot.is_reachable()
            && let Err(error) = self.hot.write(detail).await
        {
            log_failed_copy(&error);
        }
    }

    /// Brings Redis up to date with `MySQL`; for the outbox.
    pub(super) async fn project(&self, id: ActivityId) -> Result<(), ProjectionError> {
        // Another projection may be in between its read and its write of the room's field, which
        // carries no version: so look whether anything changed meanwhile.
        let mut written_version = None;
        loop {
            let found = store::find(&self.db, id).await;
            let Some(activity) = found.map_err(db_error("read an activity"))? else {
                return Ok(());
            };
            let detail = Arc::new(ActivityDetail::from(activity));
            self.renew(id, Known::Found(Arc::clone(&detail))).await;
            if written_version == Some(detail.version) {
                return Ok(());
            }
            self.hot.write(&detail).await?;
            self.hot.write_room(&detail).await?;
            written_version = Some(detail.version);
        }
    }

    async fn flight(&self, id: ActivityId) -> Arc<Flight> {
        let empty = async { Arc::new(Mutex::new(None)) };
        self.flights.get_with(id, empty).await
    }

    async fn read_mysql(
        &self,
        id: ActivityId,
        last_read: &mut Option<LastRead>,
        reach: Reach,
    ) -> Result<Known, ActivityError> {
        let started_at = Instant::now();
        metrics::cache_read(CACHE, "mysql");
        let found = read_in_turn(&self.reads, store::find(&self.db, id)).await;
        let known = match found {
            Ok(Some(activity)) => Known::Found(Arc::new(activity.into())),
            Ok(None) => Known::Unknown,
            Err(error) => {
                let ended_at = Instant::now();
                *last_read = Some(LastRead::Failed { ended_at, reach });
                return Err(db_error("read an activity")(error));
            }
        };
        let known = self.remember_from(id, known, started_at).await;
        *last_read = Some(LastRead::Done {
            started_at,
            known: known.clone(),
        });
        Ok(known)
    }
}

/// Why Redis could not be brought up to date; the outbox tries again.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProjectionError {
    #[error(transparent)]
    Read(#[from] ActivityError),

    #[error(transparent)]
    Write(#[from] HotCopyError),
}

/// Fails when a read that this caller waited for has failed: during an outage the callers must
/// not wait out one time-out after another.
fn fail_with_the_others(
    id: ActivityId,
    last_read: Option<&LastRead>,
    arrived_at: Instant,
) -> Result<(), ActivityError> {
    match last_read {
        Some(LastRead::Failed { ended_at, .. }) if *ended_at >= arrived_at => {
            Err(ActivityError::Unreadable(format!("activity {id}")))
        }
        Some(LastRead::Failed { .. } | LastRead::Done { .. }) | None => Ok(()),
    }
}

fn log_failed_copy(error: &HotCopyError) {
    tracing::debug!(
        error = error as &dyn std::error::Error,
        "a detail was not shown in redis, the outbox does it again"
    );
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::tests::detail;
    use super::*;
    use crate::infra::{
        mysql::DatabaseClock,
        redis::{Redis, RedisOptions},
    };

    const ID: ActivityId = ActivityId(7);

    /// What the cache is where neither Redis nor `MySQL` answers.
    fn cut_off(memory_life: Duration) -> DetailCache {
        let options = RedisOptions {
            url: "redis://127.0.0.1:1",
            pool_size: 1,
            command_timeout: Duration::from_millis(100),
            namespace: "lb",
        };
        let redis = Redis::connect(&options).unwrap();
        let db = DatabaseConnection::default();
        let clock = Arc::new(DatabaseClock::new(db.clone()));
        let reads = Arc::new(Semaphore::new(1));
        DetailCache::new(db, HotCopy::new(redis, clock), memory_life, reads)
    }

    fn open() -> Known {
        let mut detail = detail();
        detail.status = super::super::Status::Open;
        Known::Found(Arc::new(detail))
    }

    #[tokio::test]
    async fn a_join_that_trusts_what_was_open_does_not_make_it_younger_for_others() {
        let cache = cut_off(Duration::ZERO);
        let long_ago = Instant::now().checked_sub(Duration::from_mins(2)).unwrap();
        cache.remember_from(ID, open(), long_ago).await;

        for _ in 0..2 {
            let joined = cache.get_for_join(ID).await.unwrap();
            assert!(matches!(joined, Known::Found(_)));
            assert!(cache.seen_open.is_trusted(ID).await);
        }
        assert_eq!(cache.memory.looked_at(ID).await, Some(long_ago));
        cache.get(ID).await.unwrap_err();
    }

    #[tokio::test]
    async fn who_waited_for_a_read_is_told_nothing_older_than_others_were_meanwhile() {
        let cache = cut_off(Duration::from_hours(1));
        let read = Known::Unknown;
        cache.remember(ID, open()).await;

        let found = cache.remember_from(ID, read.clone(), Instant::now()).await;
        assert!(matches!(found, Known::Found(_)));
        let flight = cache.flight(ID).await;
        *flight.lock().await = Some(LastRead::Done {
            started_at: Instant::now() + Duration::from_mins(1),
            known: read,
        });
        let waited = cache.get_fresh(ID).await.unwrap();
        assert!(matches!(waited, Known::Found(_)));
    }

    #[tokio::test]
    async fn who_fills_a_redis_that_is_away_does_not_wait_for_it() {
        let cache = cut_off(Duration::from_hours(1));
        let known = open();
        let filling = cache.hot.fill(ID, &known, Refill::default());
        assert!(filling.now_or_never().is_some(), "it waits");
    }
}
