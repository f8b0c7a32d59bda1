//! Opening and cancelling.

use std::{sync::Arc, time::Duration};

use rand::{TryRng, rngs::SysRng};
use sea_orm::{ConnectionTrait, DbErr, SqlErr};
use serde_json::json;

use super::{
    Activity, ActivityDetail, ActivityError, ActivityService, Actor, Seed, Status, Transition,
    changes::{self, Opening},
    draft::SHORTEST_RUN,
    error::db_error,
    events,
    rules::{canonical_rules, commitment, rules_hash},
    service::{lock, retrying},
    stock, store,
};
use crate::kernel::{ActivityId, Timestamp, format_timestamp};

impl ActivityService {
    /// Opens a ready activity: reserves the stock, claims the room, fixes startAt and drawAt, makes
    /// the seed and publishes its commitment; all of it or nothing.
    ///
    /// # Errors
    ///
    /// [`ActivityError::RoomBusy`], [`ActivityError::StockShort`], [`ActivityError::DrawTooSoon`].
    #[tracing::instrument(name = "activity.open", skip_all, fields(activity.id = %id))]
    pub async fn open(
        &self,
        id: ActivityId,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        retrying(|| self.try_open(id, actor)).await
    }

    async fn try_open(
        &self,
        id: ActivityId,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        let tx = self.begin().await?;
        let activity = lock(&tx, id).await?;
        activity.status.after(Transition::Open)?;
        let now = store::now(&tx).await.map_err(db_error("read the time"))?;
        let opening = self.opening(&activity, now)?;
        claim(&tx, &activity, &opening).await?;
        reserve(&tx, &activity).await?;
        let detail = json!({ "drawAt": format_timestamp(opening.draw_at) });
        let done = actor.did("activity.open", id, Some(detail));
        self.commit(tx, id, &done, |activity| {
            let draw = opening.is_armed.then(|| events::draw(activity)).flatten();
            let mut entries = vec![events::project(activity), events::opened(activity)];
            entries.extend(draw);
            entries
        })
        .await
    }

    fn opening(&self, activity: &Activity, now: Timestamp) -> Result<Opening, ActivityError> {
        let draw_at = planned_draw(activity, now)
            .filter(|draw_at| *draw_at >= now + SHORTEST_RUN)
            .ok_or(ActivityError::DrawTooSoon(activity.id))?;
        let rules = canonical_rules(activity, draw_at).map_err(|source| ActivityError::Json {
            what: "an activity's rules",
            source,
        })?;
        let seed = random_bytes()?;
        let rules_hash = rules_hash(&rules);
        let settings = &self.inner.draw;
        let is_near = draw_at <= now + settings.arm_ahead_secs.duration();
        Ok(Opening {
            start_at: now,
            draw_at,
            seed,
            commitment: commitment(activity.id, &Seed::new(seed), &rules_hash),
            rules,
            rules_hash,
            leaf_key: random_bytes()?,
            is_armed: settings.messages_enabled && is_near,
        })
    }

    /// Cancels an activity that is not being drawn; an open one only before its drawAt.
    ///
    /// # Errors
    ///
    /// [`ActivityError::IllegalTransition`], [`ActivityError::DrawDue`].
    #[tracing::instrument(name = "activity.cancel", skip_all, fields(activity.id = %id))]
    pub async fn cancel(
        &self,
        id: ActivityId,
        reason: Option<&str>,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        retrying(|| self.try_cancel(id, reason, actor)).await
    }

    async fn try_cancel(
        &self,
        id: ActivityId,
        reason: Option<&str>,
        actor: &Actor,
    ) -> Result<Arc<ActivityDetail>, ActivityError> {
        let tx = self.begin().await?;
        let activity = lock(&tx, id).await?;
        activity.status.after(Transition::Cancel)?;
        let was_open = activity.status == Status::Open;
        let was_in_time = changes::mark_cancelled(&tx, &activity, reason).await;
        if !was_in_time.map_err(db_error("cancel an activity"))? {
            // The row is locked, so only its drawAt can have been in the way.
            return Err(ActivityError::DrawDue(id));
        }
        if was_open {
            let all_back: Vec<_> = activity
                .prizes
                .iter()
                .map(|prize| (prize.prize_id, prize.quantity, 0))
                .collect();
            let settled = stock::settle_stock(&tx, &all_back).await;
            settled.map_err(db_error("give stock back"))?;
        }
        let now = store::now(&tx).await.map_err(db_error("read the time"))?;
        let detail = json!({ "from": activity.status.as_str(), "reason": reason });
        let done = actor.did("activity.cancel", id, Some(detail));
        self.commit(tx, id, &done, |activity| {
            vec![events::project(activity), events::cancelled(activity, now)]
        })
        .await
    }
}

/// drawAt of an activity that opens at `start_at`.
pub(super) fn planned_draw(activity: &Activity, start_at: Timestamp) -> Option<Timestamp> {
    let counted = |countdown: Duration| start_at + countdown;
    activity.draw_at.or(activity.countdown.map(counted))
}

async fn claim(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    opening: &Opening,
) -> Result<(), ActivityError> {
    match changes::mark_open(tx, activity, opening).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(ActivityError::Conflict(activity.id)),
        // The row's only unique key besides its own id is that of the room.
        Err(error) if is_duplicate(&error) => Err(ActivityError::RoomBusy(activity.room_id)),
        Err(error) => Err(db_error("open an activity")(error)),
    }
}

fn is_duplicate(error: &DbErr) -> bool {
    matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_)))
}

async fn reserve(tx: &impl ConnectionTrait, activity: &Activity) -> Result<(), ActivityError> {
    let short = stock::reserve(tx, &activity.prizes)
        .await
        .map_err(db_error("reserve stock"))?;
    if short.is_empty() {
        return Ok(());
    }
    let names = short.iter().map(|prize| prize.name.clone()).collect();
    Err(ActivityError::StockShort(names))
}

fn random_bytes() -> Result<[u8; 32], ActivityError> {
    let mut bytes = [0; 32];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(ActivityError::Randomness)?;
    Ok(bytes)
}
