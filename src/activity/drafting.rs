//! The way of an activity to its opening: drafts and their review.

use std::{collections::HashMap, sync::Arc};

use sea_orm::{ConnectionTrait, DbErr};

use super::{
    Activity, ActivityDetail, ActivityError, ActivityPrize, ActivityService, Actor, LibraryPrize,
    Status, Transition, changes,
    draft::{self, Circumstances, Draft, DraftPrize, PrizeList},
    error::db_error,
    events,
    form::ActivityForm,
    library::{self, Ownership, PrizeDraft},
    service::{lock, retrying},
};
use crate::kernel::{ActivityId, PrizeId, Timestamp, UserId, random_id};

impl ActivityService {
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
        let id = ActivityId(random_id(now));
        let tx = self.begin().await?;
        changes::insert(&tx, id, host_id, draft, &self.inner.candidate)
            .await
            .map_err(db_error("add an activity"))?;
        if let PrizeList::New(prizes) = &draft.prizes {
            insert_prizes(&tx, id, prizes, now)
                .await
                .map_err(db_error("add an activity's prizes"))?;
        }
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
        if let PrizeList::New(prizes) = &draft.prizes {
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
    let prize_id = PrizeId(random_id(now));
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
