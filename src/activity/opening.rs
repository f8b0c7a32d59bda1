//! Opening, cancelling, and what the sweeper does about both.

use std::{sync::Arc, time::Duration};

use rand::{TryRng, rngs::SysRng};
use sea_orm::{ConnectionTrait, DbErr, SqlErr};
use serde_json::json;

use super::{
    Activity, ActivityDetail, ActivityError, ActivityService, Actor, Seed, Status, Transition,
    changes::{self, Opening},
    check,
    draft::SHORTEST_RUN,
    error::db_error,
    events,
    rules::{canonical_rules, commitment, rules_hash},
    service::{lock, retrying},
    stock, store,
};
use crate::kernel::{ActivityId, Timestamp, format_timestamp};

/// How many activities one sweep opens or arms at most.
const SWEEP_LIMIT: u64 = 50;

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

    /// Opens ready activities whose scheduled start has come; answers how many. One that cannot
    /// open keeps the reason and is tried again until 5 s before its drawAt, then cancelled.
    pub async fn open_scheduled(&self) -> Result<usize, ActivityError> {
        let due = store::list_to_open(&self.inner.db, SWEEP_LIMIT).await;
        let mut opened_count = 0;
        for id in due.map_err(db_error("list scheduled activities"))? {
            match self.open_or_note(id).await {
                Ok(count) => opened_count += count,
                Err(error) if error.is_unavailable() => return Err(error),
                // One that cannot even be read must not keep the others from opening.
                Err(error) => tracing::error!(
                    activity.id = %id,
                    error = &error as &dyn std::error::Error,
                    "a scheduled opening failed"
                ),
            }
        }
        Ok(opened_count)
    }

    async fn open_or_note(&self, id: ActivityId) -> Result<usize, ActivityError> {
        match self.open(id, &Actor::service("sweeper")).await {
            Ok(_) => Ok(1),
            Err(error) => self.note_failed_opening(id, error).await.map(|()| 0),
        }
    }

    async fn note_failed_opening(
        &self,
        id: ActivityId,
        error: ActivityError,
    ) -> Result<(), ActivityError> {
        match &error {
            ActivityError::RoomBusy(_)
            | ActivityError::StockShort(_)
            | ActivityError::DrawTooSoon(_) => (),
            // Somebody else was faster.
            ActivityError::IllegalTransition(_)
            | ActivityError::Conflict(_)
            | ActivityError::NotFound(_) => return Ok(()),
            ActivityError::PrizeNotFound(_)
            | ActivityError::Unreadable(_)
            | ActivityError::Invalid(_)
            | ActivityError::NotADraft(_)
            | ActivityError::DrawDue(_)
            | ActivityError::ClockUncertain(_)
            | ActivityError::Randomness(_)
            | ActivityError::Json { .. }
            | ActivityError::Database { .. } => return Err(error),
        }
        let reason: String = error
            .to_string()
            .chars()
            .take(check::REASON_MAX_CHARS)
            .collect();
        if self.keep_reason(id, &reason).await? == Patience::Left {
            return Ok(());
        }
        tracing::warn!(activity.id = %id, reason, "a scheduled opening failed to the end");
        let sweeper = Actor::service("sweeper");
        match self.cancel(id, Some(&reason), &sweeper).await {
            Ok(_) | Err(ActivityError::IllegalTransition(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Keeps why the opening failed; tells whether there is time for another try.
    async fn keep_reason(&self, id: ActivityId, reason: &str) -> Result<Patience, ActivityError> {
        let tx = self.begin().await?;
        let activity = lock(&tx, id).await?;
        let now = store::now(&tx).await.map_err(db_error("read the time"))?;
        let planned = activity.start_at.and_then(|at| planned_draw(&activity, at));
        if planned.is_none_or(|draw_at| now + SHORTEST_RUN >= draw_at) {
            return Ok(Patience::Over);
        }
        let is_known = activity.status_reason.as_deref() == Some(reason);
        if activity.status == Status::Ready && !is_known {
            let kept = changes::mark_reason(&tx, &activity, reason).await;
            kept.map_err(db_error("keep why an opening failed"))?;
            let done = Actor::service("sweeper").did(
                "activity.open_failed",
                id,
                Some(json!({ "reason": reason })),
            );
            self.commit(tx, id, &done, |activity| vec![events::project(activity)])
                .await?;
        }
        Ok(Patience::Left)
    }

    /// Sends the delayed draw of open activities whose drawAt has come near; answers how many.
    pub async fn arm_draws(&self) -> Result<usize, ActivityError> {
        let settings = &self.inner.draw;
        if !settings.messages_enabled {
            return Ok(0);
        }
        let ahead_secs = settings.arm_ahead_secs.get();
        let near = store::list_to_arm(&self.inner.db, ahead_secs, SWEEP_LIMIT).await;
        let mut armed_count = 0;
        for id in near.map_err(db_error("list draws to arm"))? {
            match retrying(|| self.try_arm(id)).await {
                Ok(was_armed) => armed_count += usize::from(was_armed),
                Err(error) if error.is_unavailable() => return Err(error),
                Err(error) => tracing::error!(
                    activity.id = %id,
                    error = &error as &dyn std::error::Error,
                    "a draw could not be armed"
                ),
            }
        }
        Ok(armed_count)
    }

    async fn try_arm(&self, id: ActivityId) -> Result<bool, ActivityError> {
        let tx = self.begin().await?;
        let activity = lock(&tx, id).await?;
        if activity.status != Status::Open {
            return Ok(false);
        }
        let was_unarmed = changes::mark_armed(&tx, &activity).await;
        if !was_unarmed.map_err(db_error("arm a draw"))? {
            return Ok(false);
        }
        let done = Actor::service("sweeper").did("activity.arm", id, None);
        self.commit(tx, id, &done, |activity| {
            let mut entries = vec![events::project(activity)];
            entries.extend(events::draw(activity));
            entries
        })
        .await?;
        Ok(true)
    }
}

/// Whether a failed opening is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Left,
    Over,
}

/// drawAt of an activity that opens at `start_at`.
fn planned_draw(activity: &Activity, start_at: Timestamp) -> Option<Timestamp> {
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
