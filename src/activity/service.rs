//! What can be done with activities: reading them, and their way to the opening.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::BoxFuture;
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, TransactionTrait};

use super::{
    Activity, ActivityDetail, ActivityError, ActivityFilter, ActivityPrize, Actor, AuditEntry,
    AuditRecord, LibraryPrize, Status, Transition, audit, changes,
    detail_cache::DetailCache,
    draft::{self, Circumstances, Draft, DraftPrize},
    error::db_error,
    events,
    form::ActivityForm,
    hot_copy::{HotCopy, Known},
    library::{self, Ownership, PrizeDraft},
    new_id::new_id,
    room_list::RoomList,
    store,
};
use crate::{
    infra::{
        mysql::{DatabaseClock, TransactionRetry},
        outbox::{Entry, Outbox, Project, ProjectError},
        redis::Redis,
    },
    kernel::{ActivityId, PrizeId, RoomId, Timestamp, UserId, truncate_to_millis},
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
    /// Reads of `MySQL` that may run at the same time while Redis does not answer.
    pub mysql_concurrency: usize,
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
    settings: ActivitySettings,
    candidate: CandidateSettings,
    pub(super) draw: DrawSettings,
    pub(super) cache: DetailCache,
    rooms: RoomList,
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
                cache: DetailCache::new(db.clone(), hot, memory_life, deps.mysql_concurrency),
                rooms: RoomList::new(db.clone(), memory_life),
                db,
                outbox: deps.outbox,
                clock: deps.clock,
                settings: deps.settings,
                candidate: deps.candidate,
                draw: deps.draw,
            }),
        }
    }

    /// The detail, at most `activity.detail_memory_ms` older than what Redis has.
    pub async fn detail(&self, id: ActivityId) -> Result<Arc<ActivityDetail>, ActivityError> {
        found(id, self.inner.cache.get(id).await?)
    }

    /// The detail for a join: with Redis and `MySQL` down, an activity that this process knows as
    /// open is served from memory until its drawAt; one that may yet open is read afresh.
    pub async fn for_join(&self, id: ActivityId) -> Result<Arc<ActivityDetail>, ActivityError> {
        let now = self.now_estimate();
        found(id, self.inner.cache.get_for_join(id, now).await?)
    }

    /// The detail as `MySQL` has it at some time after this call.
    pub async fn fresh_detail(&self, id: ActivityId) -> Result<Arc<ActivityDetail>, ActivityError> {
        found(id, self.inner.cache.get_fresh(id).await?)
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
        let listed = store::list(&self.inner.db, filter, before, limit).await;
        let activities = listed.map_err(db_error("list activities"))?;
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
        audit::list(&self.inner.db, id, after, limit)
            .await
            .map_err(db_error("list an activity's audit"))
    }

    /// Adds a draft.
    ///
    /// # Errors
    ///
    /// [`ActivityError::Invalid`] with every fault of the form.
    #[tracing::instrument(name = "activity.create", skip_all)]
    pub async fn create(
        &self,
        form: &ActivityForm,
        host_id: UserId,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        let library = self.asked_of_library(form).await?;
        let now = self.now().await?;
        let draft = draft::validate(form, &self.circumstances(None, &library, now))
            .map_err(ActivityError::Invalid)?;
        retrying(|| self.try_create(&draft, host_id, actor, now)).await
    }

    async fn try_create(
        &self,
        draft: &Draft,
        host_id: UserId,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        let id = ActivityId(new_id(now));
        let prizes = draft.prizes.as_deref().unwrap_or_default();
        let tx = self.begin().await?;
        changes::insert(&tx, id, host_id, draft, &self.inner.candidate)
            .await
            .map_err(db_error("add an activity"))?;
        insert_prizes(&tx, id, prizes, now)
            .await
            .map_err(db_error("add an activity's prizes"))?;
        let done = actor.did("activity.create", id, None);
        self.commit(tx, id, &done, |activity| vec![events::project(activity)])
            .await
    }

    /// Changes a draft; what the form leaves out stays as it is.
    ///
    /// # Errors
    ///
    /// [`ActivityError::NotADraft`], or [`ActivityError::Invalid`] with every fault of the form.
    #[tracing::instrument(name = "activity.update", skip_all, fields(activity.id = %id))]
    pub async fn update(
        &self,
        id: ActivityId,
        form: &ActivityForm,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        let library = self.asked_of_library(form).await?;
        let now = self.now().await?;
        retrying(|| self.try_update(id, form, actor, &library, now)).await
    }

    async fn try_update(
        &self,
        id: ActivityId,
        form: &ActivityForm,
        actor: &Actor,
        library: &HashMap<PrizeId, LibraryPrize>,
        now: Timestamp,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        let tx = self.begin().await?;
        let activity = lock(&tx, id).await?;
        if activity.status != Status::Draft {
            return Err(ActivityError::NotADraft(id));
        }
        let draft = draft::validate(form, &self.circumstances(Some(&activity), library, now))
            .map_err(ActivityError::Invalid)?;
        let was_current = changes::mark_edited(&tx, &activity, &draft).await;
        if !was_current.map_err(db_error("edit an activity"))? {
            return Err(ActivityError::Conflict(id));
        }
        if let Some(prizes) = &draft.prizes {
            replace_prizes(&tx, id, prizes, now)
                .await
                .map_err(db_error("replace an activity's prizes"))?;
        }
        let done = actor.did("activity.update", id, None);
        self.commit(tx, id, &done, |activity| vec![events::project(activity)])
            .await
    }

    /// Hands a draft to the review, or past it when its host needs none.
    #[tracing::instrument(name = "activity.submit", skip_all, fields(activity.id = %id))]
    pub async fn submit(
        &self,
        id: ActivityId,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        retrying(|| self.try_move_on(id, Transition::Submit, None, actor)).await
    }

    /// Lets a reviewed activity open.
    #[tracing::instrument(name = "activity.approve", skip_all, fields(activity.id = %id))]
    pub async fn approve(
        &self,
        id: ActivityId,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        retrying(|| self.try_move_on(id, Transition::Approve, None, actor)).await
    }

    /// Ends an activity in its review.
    #[tracing::instrument(name = "activity.reject", skip_all, fields(activity.id = %id))]
    pub async fn reject(
        &self,
        id: ActivityId,
        reason: &str,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        retrying(|| self.try_move_on(id, Transition::Reject, Some(reason), actor)).await
    }

    async fn try_move_on(
        &self,
        id: ActivityId,
        transition: Transition,
        reason: Option<&str>,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        let tx = self.begin().await?;
        let activity = lock(&tx, id).await?;
        let mut status = activity.status.after(transition)?;
        if transition == Transition::Submit && self.needs_no_review(activity.host_id) {
            status = status.after(Transition::Approve)?;
        }
        let was_current = changes::mark_status(&tx, &activity, status, reason).await;
        if !was_current.map_err(db_error("move an activity on"))? {
            return Err(ActivityError::Conflict(id));
        }
        let detail = reason.map(|reason| serde_json::json!({ "reason": reason }));
        let done = actor.did(audited_as(transition), id, detail);
        self.commit(tx, id, &done, |activity| vec![events::project(activity)])
            .await
    }

    fn needs_no_review(&self, host_id: UserId) -> bool {
        let settings = &self.inner.settings;
        !settings.review_required || settings.review_exempt_hosts.contains(&host_id)
    }

    async fn asked_of_library(
        &self,
        form: &ActivityForm,
    ) -> Result<HashMap<PrizeId, LibraryPrize>, ActivityError> {
        library::find_all(&self.inner.db, &form.library_prizes())
            .await
            .map_err(db_error("read the prize library"))
    }

    fn circumstances<'a>(
        &self,
        base: Option<&'a Activity>,
        library: &'a HashMap<PrizeId, LibraryPrize>,
        now: Timestamp,
    ) -> Circumstances<'a> {
        Circumstances {
            base,
            library,
            default_cooldown: self.inner.candidate.cooldown(),
            now,
        }
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
        let committed = tx.commit().await;
        committed.map_err(db_error("commit a change of an activity"))?;

        outbox.wake();
        let detail = Arc::new(ActivityDetail::from(activity));
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

fn audited_as(transition: Transition) -> &'static str {
    match transition {
        Transition::Submit => "activity.submit",
        Transition::Approve => "activity.approve",
        Transition::Reject => "activity.reject",
        Transition::Open => "activity.open",
        Transition::Cancel => "activity.cancel",
        Transition::Freeze => "activity.freeze",
        Transition::Commit => "activity.draw",
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

async fn replace_prizes(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    prizes: &[DraftPrize],
    now: Timestamp,
) -> Result<(), DbErr> {
    library::delete_private(tx, id).await?;
    changes::delete_prizes(tx, id).await?;
    insert_prizes(tx, id, prizes, now).await
}

/// Adds the prizes of a draft, and a row of its own for each private one.
async fn insert_prizes(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    prizes: &[DraftPrize],
    now: Timestamp,
) -> Result<(), DbErr> {
    let mut rows = Vec::with_capacity(prizes.len());
    for (rank, prize) in (1..).zip(prizes) {
        let prize_id = match prize.library_id {
            Some(prize_id) => prize_id,
            None => insert_private(tx, prize, now).await?,
        };
        rows.push(ActivityPrize {
            rank,
            prize_id,
            name: prize.name.clone(),
            kind: prize.kind,
            image: prize.image.clone(),
            quantity: prize.quantity,
        });
    }
    changes::insert_prizes(tx, id, &rows).await
}

async fn insert_private(
    tx: &impl ConnectionTrait,
    prize: &DraftPrize,
    now: Timestamp,
) -> Result<PrizeId, DbErr> {
    let prize_id = PrizeId(new_id(now));
    let row = PrizeDraft {
        name: prize.name.clone(),
        kind: prize.kind,
        image: prize.image.clone(),
        value_cents: None,
        stock_total: Some(prize.quantity.into()),
    };
    library::insert(tx, prize_id, &row, Ownership::OneActivity).await?;
    Ok(prize_id)
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
