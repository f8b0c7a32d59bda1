//! Activity details: process memory, then Redis, then `MySQL`, one flight for each id.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use moka::{future::Cache, ops::compute::Op};
use sea_orm::DatabaseConnection;
use tokio::sync::{Mutex, MutexGuard, Semaphore};

use super::{
    ActivityDetail, ActivityError, Status,
    error::db_error,
    hot_copy::{HotCopy, HotCopyError, Known},
    store,
};
use crate::{infra::mysql::read_in_turn, kernel::ActivityId};

/// What the last read of an id gave.
enum LastRead {
    Done { started_at: Instant, known: Known },
    Failed { ended_at: Instant },
}

/// The one reader of an id at a time, and what it found.
type Flight = Mutex<Option<LastRead>>;

/// See the module. Every failure of Redis falls through to `MySQL`.
pub(super) struct DetailCache {
    db: DatabaseConnection,
    hot: HotCopy,
    reads: Arc<Semaphore>,
    memory: Cache<ActivityId, Known>,
    /// Open activities this process has seen, for joins during an outage.
    seen_open: Cache<ActivityId, Arc<ActivityDetail>>,
    flights: Cache<ActivityId, Arc<Flight>>,
}

impl DetailCache {
    const CAPACITY: u64 = 10_000;
    /// The longest countdown.
    const SEEN_OPEN_LIFE: Duration = Duration::from_hours(30 * 24);
    const FLIGHT_IDLE: Duration = Duration::from_mins(1);
    /// How long a join waits for a look at an activity that was open a moment ago.
    const JOIN_PATIENCE: Duration = Duration::from_millis(300);
    /// How often, and how many times, to look for what another process is refilling.
    const REFILL_PAUSE: Duration = Duration::from_millis(30);
    const REFILL_LOOKS: u32 = 10;

    pub(super) fn new(
        db: DatabaseConnection,
        hot: HotCopy,
        memory_life: Duration,
        reads: Arc<Semaphore>,
    ) -> Self {
        let builder = || Cache::builder().max_capacity(Self::CAPACITY);
        Self {
            db,
            hot,
            reads,
            memory: builder().time_to_live(memory_life).build(),
            seen_open: Cache::builder()
                .max_capacity(Self::CAPACITY)
                .time_to_live(Self::SEEN_OPEN_LIFE)
                .build(),
            flights: Cache::builder()
                .max_capacity(Self::CAPACITY)
                .time_to_idle(Self::FLIGHT_IDLE)
                .build(),
        }
    }

    /// The detail, at most the memory's life old.
    pub(super) async fn get(&self, id: ActivityId) -> Result<Known, ActivityError> {
        if let Some(known) = self.memory.get(&id).await {
            return Ok(known);
        }
        let arrived_at = Instant::now();
        let flight = self.flight(id).await;
        let mut last_read = flight.lock().await;
        if let Some(known) = self.memory.get(&id).await {
            return Ok(known);
        }
        fail_with_the_others(id, last_read.as_ref(), arrived_at)?;
        if let Some(known) = self.ask_redis(id).await {
            self.remember(id, &known).await;
            return Ok(known);
        }
        let known = self.read_mysql(id, &mut last_read).await?;
        self.fill_redis(id, &known).await;
        Ok(known)
    }

    /// The detail as `MySQL` has it at some time after this call.
    pub(super) async fn get_fresh(&self, id: ActivityId) -> Result<Known, ActivityError> {
        let arrived_at = Instant::now();
        let flight = self.flight(id).await;
        let mut last_read = flight.lock().await;
        if let Some(LastRead::Done { started_at, known }) = &*last_read
            && *started_at >= arrived_at
        {
            return Ok(known.clone());
        }
        fail_with_the_others(id, last_read.as_ref(), arrived_at)?;
        let known = self.read_mysql(id, &mut last_read).await?;
        self.fill_redis(id, &known).await;
        Ok(known)
    }

    /// The detail for a join: an activity that this process has seen open stays so when nothing else
    /// can be learned in time (its drawAt is fixed, so the caller knows when that ends), and "not
    /// open" is never told from a copy that may be too old.
    pub(super) async fn get_for_join(&self, id: ActivityId) -> Result<Known, ActivityError> {
        let seen_open = self.seen_open.get(&id).await;
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
        if let Some(known) = self.memory.get(&id).await {
            return known;
        }
        // Somebody else is looking; one waiting join a second is enough.
        if self.flight(id).await.try_lock().is_err() {
            return Known::Found(seen_open);
        }
        if let Ok(Ok(known)) = tokio::time::timeout(Self::JOIN_PATIENCE, self.get(id)).await {
            return known;
        }
        tracing::debug!(activity.id = %id, "served from memory, nothing else answers");
        let known = Known::Found(seen_open);
        self.remember(id, &known).await;
        known
    }

    /// Keeps what was read, unless something newer is known.
    pub(super) async fn remember(&self, id: ActivityId, known: &Known) {
        self.note_if_open(id, known).await;
        self.memory
            .entry(id)
            .and_compute_with(|held| {
                let is_newer = held.is_none_or(|held| is_at_least(known, held.value()));
                std::future::ready(if is_newer {
                    Op::Put(known.clone())
                } else {
                    Op::Nop
                })
            })
            .await;
    }

    /// The same, but keeps nothing that nobody has asked this process for: it would only grow old
    /// until somebody does.
    async fn renew(&self, id: ActivityId, known: &Known) {
        if self.memory.contains_key(&id) {
            self.remember(id, known).await;
        } else {
            self.note_if_open(id, known).await;
        }
    }

    async fn note_if_open(&self, id: ActivityId, known: &Known) {
        match known {
            Known::Found(detail) if detail.status == Status::Open => {
                self.seen_open.insert(id, Arc::clone(detail)).await;
            }
            Known::Found(_) => self.seen_open.invalidate(&id).await,
            Known::Unknown => (),
        }
    }

    /// Makes what this process has just committed known at once; the outbox makes sure of it.
    pub(super) async fn publish(&self, detail: &Arc<ActivityDetail>) {
        let known = Known::Found(Arc::clone(detail));
        self.remember(detail.id, &known).await;
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
            self.renew(id, &Known::Found(Arc::clone(&detail))).await;
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

    /// What Redis has, or what another process puts there in a moment.
    async fn ask_redis(&self, id: ActivityId) -> Option<Known> {
        if !self.hot.is_reachable() {
            return None;
        }
        let answer = async {
            if let Some(known) = self.hot.read(id).await? {
                return Ok(Some(known));
            }
            if self.hot.may_refill(id).await? {
                return Ok(None);
            }
            for _ in 0..Self::REFILL_LOOKS {
                tokio::time::sleep(Self::REFILL_PAUSE).await;
                if let Some(known) = self.hot.read(id).await? {
                    return Ok(Some(known));
                }
            }
            Ok::<_, HotCopyError>(None)
        };
        answer.await.unwrap_or_else(|error| {
            log_failed_copy(&error);
            None
        })
    }

    async fn read_mysql(
        &self,
        id: ActivityId,
        last_read: &mut MutexGuard<'_, Option<LastRead>>,
    ) -> Result<Known, ActivityError> {
        let started_at = Instant::now();
        let found = read_in_turn(&self.reads, store::find(&self.db, id)).await;
        let known = match found {
            Ok(Some(activity)) => Known::Found(Arc::new(activity.into())),
            Ok(None) => Known::Unknown,
            Err(error) => {
                **last_read = Some(LastRead::Failed {
                    ended_at: Instant::now(),
                });
                return Err(db_error("read an activity")(error));
            }
        };
        let done = known.clone();
        **last_read = Some(LastRead::Done {
            started_at,
            known: done,
        });
        self.remember(id, &known).await;
        Ok(known)
    }

    async fn fill_redis(&self, id: ActivityId, known: &Known) {
        if !self.hot.is_reachable() {
            return;
        }
        let written = match known {
            Known::Found(detail) => self.hot.write(detail).await,
            Known::Unknown => self.hot.write_unknown(id).await,
        };
        let filled = match written {
            Ok(()) => self.hot.end_refill(id).await,
            Err(error) => Err(error),
        };
        if let Err(error) = filled {
            log_failed_copy(&error);
        }
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
        Some(LastRead::Failed { ended_at }) if *ended_at >= arrived_at => {
            Err(ActivityError::Unreadable(id))
        }
        Some(LastRead::Failed { .. } | LastRead::Done { .. }) | None => Ok(()),
    }
}

/// An activity is never deleted, so whoever has seen it knows more.
fn is_at_least(known: &Known, held: &Known) -> bool {
    match (known, held) {
        (Known::Found(known), Known::Found(held)) => known.version >= held.version,
        (Known::Unknown, Known::Found(_)) => false,
        (Known::Found(_) | Known::Unknown, Known::Unknown) => true,
    }
}

fn log_failed_copy(error: &HotCopyError) {
    tracing::debug!(
        error = error as &dyn std::error::Error,
        "redis did not serve a detail, MySQL does"
    );
}
