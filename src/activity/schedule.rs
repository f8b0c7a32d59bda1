//! What the sweeper does for activities: opens those whose time has come, sends draws on their way.

use serde_json::json;

use super::{
    ActivityError, ActivityService, Actor, Status, changes, check,
    draft::SHORTEST_RUN,
    error::db_error,
    events,
    opening::planned_draw,
    service::{lock, retrying},
    store::{self, Scheduled},
};
use crate::kernel::ActivityId;

/// How many activities one sweep opens or arms at most.
const SWEEP_LIMIT: u64 = 50;

impl ActivityService {
    /// Opens ready activities whose scheduled start has come; answers how many. One that cannot
    /// open keeps the reason and is tried again until 5 s before its drawAt, then cancelled.
    ///
    /// A sweep goes on behind the last one while there is more, so that those which cannot open do
    /// not stand in the way of the others.
    pub async fn open_scheduled(&self) -> Result<usize, ActivityError> {
        let after = self.inner.last_tried.lock().take();
        let due = store::list_to_open(&self.inner.db, after, SWEEP_LIMIT)
            .await
            .map_err(db_error("list scheduled activities"))?;
        let is_full = u64::try_from(due.len()).is_ok_and(|count| count == SWEEP_LIMIT);
        // Noted first: a sweep that is cut short must not begin with the same ones again.
        *self.inner.last_tried.lock() = due.last().copied().filter(|_| is_full);
        let mut opened_count = 0;
        for Scheduled { id, .. } in due {
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
