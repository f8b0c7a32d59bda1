//! The service over activities: reading them, and how every change of one is committed.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, TransactionTrait};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    Activity, ActivityDetail, ActivityError, ActivityFilter, AuditEntry, AuditRecord, Status,
    audit,
    detail_cache::DetailCache,
    error::db_error,
    hot_copy::{HotCopy, Known},
    room_list::RoomList,
    store::{self, Scheduled},
};
use crate::{
    infra::{
        idempotency,
        mysql::{DatabaseClock, TransactionRetry, read_in_turn},
        outbox::{Entry, Outbox, Project, ProjectError},
        redis::Redis,
    },
    kernel::{ActivityId, RoomId, Timestamp, truncate_to_millis},
    settings::{ActivitySettings, CandidateSettings, DrawSettings},
};

/// What [`ActivityService`] works with.
pub struct ActivityDeps {
    pub db: DatabaseConnection,
    pub redis: Redis,
    pub outbox: Outbox,
    pub clock: Arc<DatabaseClock>,
    pub settings: ActivitySettings,
    pub candidate: CandidateSettings,
    pub draw: DrawSettings,
    /// The turns in which callers read from `MySQL` what neither memory nor Redis has.
    pub mysql_reads: Arc<Semaphore>,
}

/// Reads and changes activities. Cheap to clone.
#[derive(Clone)]
pub struct ActivityService {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) db: DatabaseConnection,
    outbox: Outbox,
    clock: Arc<DatabaseClock>,
    pub(super) settings: ActivitySettings,
    pub(super) candidate: CandidateSettings,
    pub(super) draw: DrawSettings,
    pub(super) cache: DetailCache,
    rooms: RoomList,
    mysql_reads: Arc<Semaphore>,
    /// Where the next sweep for scheduled openings goes on.
    pub(super) last_tried: Mutex<Option<Scheduled>>,
}

/// Runs a transaction again when it lost against another one.
pub(super) async fn retrying<T, Attempt>(
    mut attempt: impl FnMut() -> Attempt,
) -> Result<T, ActivityError>
where
    Attempt: Future<Output = Result<T, ActivityError>>,
{
    let mut retry = TransactionRetry::new();
    loop {
        match attempt().await {
            Err(ActivityError::Database { action, source }) => {
                if !retry.again(&source).await {
                    return Err(ActivityError::Database { action, source });
                }
            }
            outcome => return outcome,
        }
    }
}

impl ActivityService {
    pub fn new(deps: ActivityDeps) -> Self {
        let memory_life = deps.settings.detail_memory_ms.duration();
        let hot = HotCopy::new(deps.redis, Arc::clone(&deps.clock));
        let db = deps.db;
        Self {
            inner: Arc::new(Inner {
                cache: DetailCache::new(
                    db.clone(),
                    hot,
                    memory_life,
                    Arc::clone(&deps.mysql_reads),
                ),
                rooms: RoomList::new(db.clone(), Arc::clone(&deps.mysql_reads), memory_life),
                mysql_reads: deps.mysql_reads,
                last_tried: Mutex::default(),
                db,
                outbox: deps.outbox,
                clock: deps.clock,
                settings: deps.settings,
                candidate: deps.candidate,
                draw: deps.draw,
            }),
        }
    }

    /// The detail, at most `activity.detail_memory_ms` older than what Redis has; a little longer
    /// while it is renewed, up to a minute when neither Redis nor `MySQL` answers.
    pub async fn detail(&self, id: ActivityId) -> Result<Arc<ActivityDetail>, ActivityError> {
        found(id, self.inner.cache.get(id).await?)
    }

    /// The detail as `MySQL` has it at some time after this call.
    pub async fn fresh_detail(&self, id: ActivityId) -> Result<Arc<ActivityDetail>, ActivityError> {
        found(id, self.inner.cache.get_fresh(id).await?)
    }

    /// Renews in the background what is asked for all the time, until `stop`; the first caller does.
    pub async fn renew_hot_details(&self, stop: CancellationToken) {
        self.inner.cache.renew_hot(stop).await;
    }

    /// The detail for a join: with Redis and `MySQL` down, an activity that this process knows as
    /// open is served from memory; one that may yet open is read afresh. Whether drawAt has passed
    /// is the caller's to check.
    pub async fn for_join(&self, id: ActivityId) -> Result<Arc<ActivityDetail>, ActivityError> {
        found(id, self.inner.cache.get_for_join(id).await?)
    }

    /// What the database's clock shows, as far as is known without asking it.
    pub fn now_estimate(&self) -> Option<Timestamp> {
        self.inner.clock.estimate().map(|time| time.at)
    }

    /// The open activities of a room, at most as old as a detail may be.
    pub async fn open_in_room(
        &self,
        room_id: RoomId,
    ) -> Result<Vec<Arc<ActivityDetail>>, ActivityError> {
        let mut open = Vec::new();
        for id in self.inner.rooms.running(room_id).await? {
            let detail = self.detail(id).await?;
            if detail.status == Status::Open {
                open.push(detail);
            }
        }
        Ok(open)
    }

    /// Activities, newest first, older than `before`.
    pub async fn list(
        &self,
        filter: &ActivityFilter,
        before: Option<ActivityId>,
        limit: u64,
    ) -> Result<Vec<ActivityDetail>, ActivityError> {
        let listed = self.in_turn(store::list(&self.inner.db, filter, before, limit));
        let activities = listed.await.map_err(db_error("list activities"))?;
        Ok(activities.into_iter().map(ActivityDetail::from).collect())
    }

    /// What was done to an activity, oldest first, after the record with the id `after`.
    pub async fn audit(
        &self,
        id: ActivityId,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<AuditRecord>, ActivityError> {
        self.detail(id).await?;
        self.in_turn(audit::list(&self.inner.db, id, after, limit))
            .await
            .map_err(db_error("list an activity's audit"))
    }

    /// Reads on behalf of a caller, when its turn has come.
    pub(super) async fn in_turn<T>(
        &self,
        read: impl Future<Output = Result<T, DbErr>>,
    ) -> Result<T, DbErr> {
        read_in_turn(&self.inner.mysql_reads, read).await
    }

    /// What the database's clock shows, asking it when need be.
    pub(super) async fn now(&self) -> Result<Timestamp, ActivityError> {
        Ok(truncate_to_millis(self.inner.clock.now().await?.at))
    }

    pub(super) async fn begin(&self) -> Result<DatabaseTransaction, ActivityError> {
        let tx = self.inner.db.begin().await;
        tx.map_err(db_error("begin a transaction"))
    }

    /// Ends a change: what it owes, who did it, the commit, and the caches of this process.
    pub(super) async fn commit(
        &self,
        tx: DatabaseTransaction,
        id: ActivityId,
        done: &AuditEntry,
        owed: impl FnOnce(&Activity) -> Vec<Entry>,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        let activity = store::find(&tx, id)
            .await
            .map_err(db_error("read an activity"))?
            .ok_or(ActivityError::NotFound(id))?;
        let entries = owed(&activity);
        let outbox = &self.inner.outbox;
        let appended = outbox.append(&tx, &entries).await;
        appended.map_err(db_error("add outbox rows"))?;
        let recorded = audit::record(&tx, done).await;
        recorded.map_err(db_error("record an audit entry"))?;
        let detail = Arc::new(ActivityDetail::from(activity));
        let settled = idempotency::settle(&tx, &*detail).await;
        settled.map_err(db_error("keep the answer about an activity"))?;
        let committed = tx.commit().await;
        committed.map_err(db_error("commit a change of an activity"))?;

        outbox.wake();
        self.inner.cache.publish(&detail).await;
        self.inner.rooms.forget(detail.room_id).await;
        tracing::info!(
            activity.id = %id,
            activity.status = detail.status.as_str(),
            action = done.action,
            "activity changed"
        );
        Ok(detail)
    }
}

fn found(id: ActivityId, known: Known) -> Result<Arc<ActivityDetail>, ActivityError> {
    match known {
        Known::Found(detail) => Ok(detail),
        Known::Unknown => Err(ActivityError::NotFound(id)),
    }
}

/// The activity with its row locked.
pub(super) async fn lock(
    tx: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<Activity, ActivityError> {
    store::find_for_update(tx, id)
        .await
        .map_err(db_error("lock an activity"))?
        .ok_or(ActivityError::NotFound(id))
}

/// Brings `lb:activity`, `lb:prize` and `lb:room` up to date, as the outbox asks.
pub struct DetailProjection(pub ActivityService);

impl Project for DetailProjection {
    fn project(&self, activity_id: ActivityId) -> BoxFuture<'_, Result<(), ProjectError>> {
        Box::pin(async move {
            self.0.inner.cache.project(activity_id).await?;
            Ok(())
        })
    }
}
