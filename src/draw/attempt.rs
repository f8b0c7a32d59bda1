//! One attempt to draw an activity, from the claim to the commit.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sea_orm::{DatabaseConnection, DbErr, TransactionTrait};
use tokio::sync::Semaphore;
use tracing::Instrument;

use super::{
    DrawError, DrawOutcome,
    barriers::{Barriers, Drained},
    commit::Settlement,
    error::db_error,
    lease::DrawLease,
    observers::ObserverMark,
    proof::Publisher,
};
use crate::{
    activity::{self, Activity, Status, drawing},
    candidate::{CandidateService, PoolCount, Selection, SelectionPath},
    infra::{
        mysql::{TransactionRetry, within_limit},
        outbox::Outbox,
    },
    kernel::{self, ActivityId, Supervisor, Timestamp},
    settings::DrawSettings,
    telemetry::{metrics, state},
};

/// What every attempt of this process works with.
pub(super) struct Drawer {
    pub(super) db: DatabaseConnection,
    pub(super) outbox: Outbox,
    pub(super) candidates: CandidateService,
    pub(super) supervisor: Supervisor,
    pub(super) settings: DrawSettings,
    pub(super) barriers: Barriers,
    pub(super) mark: ObserverMark,
    pub(super) publisher: Publisher,
    pub(super) permits: Arc<Semaphore>,
}

/// An activity about which nothing changes any more, and what follows from its rows.
struct Frozen {
    activity: Activity,
    selection: Selection,
    counts: PoolCount,
}

/// What became of a claim.
pub(super) enum Claim {
    Granted(DrawLease),
    Refused(DrawOutcome),
}

/// What is settled once the activity is frozen.
enum Prepared {
    Selected(Box<Frozen>),
    Ended(DrawOutcome),
}

impl Drawer {
    /// Claims the draw in a transaction of its own.
    #[tracing::instrument(name = "draw.claim", level = "debug", skip_all)]
    pub(super) async fn claim(&self, id: ActivityId) -> Result<Claim, DrawError> {
        let mut retry = TransactionRetry::new();
        let granted = loop {
            match within_limit(self.try_claim(id)).await {
                Err(error) if retry.again(&error).await => metrics::db_retries(),
                outcome => break outcome.map_err(db_error("claim the draw", id))?,
            }
        };
        match granted {
            Some(lease) => {
                kernel::step("draw.claimed");
                Ok(Claim::Granted(lease))
            }
            None => self.why_refused(id).await.map(Claim::Refused),
        }
    }

    async fn try_claim(&self, id: ActivityId) -> Result<Option<DrawLease>, DbErr> {
        let length = self.settings.lease_secs.duration();
        let asked_at = Instant::now();
        let tx = self.db.begin().await?;
        let token = drawing::claim(&tx, id, length).await?;
        tx.commit().await?;
        Ok(token.map(|token| DrawLease::granted(id, token, asked_at, length)))
    }

    async fn why_refused(&self, id: ActivityId) -> Result<DrawOutcome, DrawError> {
        let state = within_limit(drawing::find_state(&self.db, id))
            .await
            .map_err(db_error("look at the draw", id))?
            .ok_or(DrawError::NotFound(id))?;
        Ok(match state.status {
            Status::Drawn => DrawOutcome::AlreadyDrawn,
            Status::Cancelled => DrawOutcome::Cancelled,
            Status::Open | Status::Drawing => {
                if state.is_held && state.draw_at.is_some_and(|draw_at| draw_at <= state.now) {
                    DrawOutcome::HeldByAnother
                } else {
                    DrawOutcome::NotDue
                }
            }
            Status::Draft | Status::InReview | Status::Rejected | Status::Ready => {
                DrawOutcome::NotDue
            }
        })
    }

    /// Draws what was claimed, and gives the lease back when it is not drawn.
    pub(super) async fn run(&self, lease: DrawLease) -> Result<DrawOutcome, DrawError> {
        let (outcome, ()) = tokio::join!(self.draw_claimed(&lease), self.mark.set(&lease));
        self.mark.clear(&lease).await;
        match outcome {
            Ok(DrawOutcome::Drawn | DrawOutcome::LostLease) => (),
            Ok(_) | Err(_) => self.release(&lease).await,
        }
        outcome
    }

    async fn draw_claimed(&self, lease: &DrawLease) -> Result<DrawOutcome, DrawError> {
        // Without the lease's guard from here on: the commit's own row lock and token decide.
        match self.while_held(lease, self.prepare(lease)).await {
            None => Ok(DrawOutcome::LostLease),
            Some(Err(error)) => Err(error),
            Some(Ok(Prepared::Ended(outcome))) => Ok(outcome),
            Some(Ok(Prepared::Selected(frozen))) => self.settle(lease, &frozen).await,
        }
    }

    /// Drains, freezes and selects. From the freeze on the result is fixed.
    async fn prepare(&self, lease: &DrawLease) -> Result<Prepared, DrawError> {
        let id = lease.activity_id();
        let state = drawing::find_state(&self.db, id)
            .await
            .map_err(db_error("look at the draw", id))?
            .ok_or(DrawError::NotFound(id))?;
        if state.status == Status::Open && self.drain(lease).await == Drained::Stopped {
            return Ok(Prepared::Ended(DrawOutcome::Stopped));
        }
        if !self.freeze(lease).await? {
            return Ok(Prepared::Ended(DrawOutcome::LostLease));
        }
        kernel::step("draw.frozen");
        let activity = activity::find(&self.db, id)
            .await
            .map_err(db_error("read", id))?
            .ok_or(DrawError::NotFound(id))?;
        let selection = self
            .candidates
            .select(&activity, activity.winner_count)
            .instrument(tracing::debug_span!("draw.select"))
            .await
            .map_err(DrawError::Selection)?;
        let counts = self
            .candidates
            .pool_count(id)
            .await
            .map_err(DrawError::Selection)?;
        Ok(Prepared::Selected(Box::new(Frozen {
            activity,
            selection,
            counts,
        })))
    }

    #[tracing::instrument(name = "draw.drain", level = "debug", skip_all)]
    async fn drain(&self, lease: &DrawLease) -> Drained {
        let started_at = Instant::now();
        let stop = self.supervisor.stop_token();
        let drained = self.barriers.wait(lease, &stop).await;
        match drained {
            Drained::Completely => metrics::draw_drained(started_at.elapsed()),
            Drained::CutShort => {
                metrics::draw_drained(started_at.elapsed());
                metrics::drain_cut_short();
                let id = lease.activity_id();
                tracing::error!(activity.id = %id, "the stream did not drain, drawing without it");
            }
            Drained::Stopped => (),
        }
        drained
    }

    #[tracing::instrument(name = "draw.freeze", level = "debug", skip_all)]
    async fn freeze(&self, lease: &DrawLease) -> Result<bool, DrawError> {
        let (id, token) = (lease.activity_id(), lease.token());
        let mut retry = TransactionRetry::new();
        loop {
            match within_limit(drawing::freeze(&self.db, id, token)).await {
                Err(error) if retry.again(&error).await => metrics::db_retries(),
                outcome => return outcome.map_err(db_error("freeze the draw", id)),
            }
        }
    }

    async fn settle(&self, lease: &DrawLease, frozen: &Frozen) -> Result<DrawOutcome, DrawError> {
        let Frozen {
            activity,
            selection,
            counts,
        } = frozen;
        let id = activity.id;
        let due_at = activity.draw_at.ok_or(DrawError::Unscheduled(id))?;
        let settlement = Settlement::of(lease, activity, selection, counts);
        if settlement.winner_count() < selection.ranked.len() {
            return Err(DrawError::PrizesMissing(id));
        }
        let committed = settlement
            .commit(&self.db, &self.outbox)
            .instrument(tracing::debug_span!("draw.commit"))
            .await
            .map_err(db_error("commit the draw", id))?;
        let Some(drawn_at) = committed else {
            return Ok(DrawOutcome::LostLease);
        };
        kernel::step("draw.committed");
        self.outbox.wake();
        self.publisher.begin(id);
        report(lease, &settlement, selection.path, drawn_at, due_at);
        Ok(DrawOutcome::Drawn)
    }

    /// Runs `work` while the lease is renewed; `None` when the lease was lost first.
    async fn while_held<T>(&self, lease: &DrawLease, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.keep(lease) => None,
        }
    }

    /// Renews the lease until it is lost.
    async fn keep(&self, lease: &DrawLease) {
        const RETRY_PAUSE: Duration = Duration::from_secs(1);

        let (id, token) = (lease.activity_id(), lease.token());
        let mut held_until = lease.claimed_at() + lease.length();
        let mut pause = self.settings.lease_renew_secs.duration();
        loop {
            tokio::time::sleep(pause).await;
            let asked_at = Instant::now();
            let renewal = drawing::renew(&self.db, id, token, lease.length());
            pause = match tokio::time::timeout_at(held_until.into(), renewal).await {
                Ok(Ok(true)) => {
                    held_until = asked_at + lease.length();
                    self.settings.lease_renew_secs.duration()
                }
                Ok(Err(error)) if asked_at + RETRY_PAUSE < held_until => {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(error, activity.id = %id, "lease not renewed yet");
                    RETRY_PAUSE
                }
                Ok(Ok(false) | Err(_)) | Err(_) => {
                    state::draw_lease_lost();
                    tracing::warn!(activity.id = %id, "the lease of a draw was lost");
                    return;
                }
            };
        }
    }

    async fn release(&self, lease: &DrawLease) {
        let id = lease.activity_id();
        let release = drawing::release(&self.db, id, lease.token());
        if let Err(error) = within_limit(release).await {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, activity.id = %id, "lease not released, it runs out by itself");
        }
    }
}

/// Records a committed draw.
fn report(
    lease: &DrawLease,
    settlement: &Settlement<'_>,
    path: SelectionPath,
    drawn_at: Timestamp,
    due_at: Timestamp,
) {
    let path = path.as_str();
    let lateness = (drawn_at - due_at).to_std().unwrap_or_default();
    let duration = lease.claimed_at().elapsed();
    metrics::draw_lateness(lateness);
    metrics::draw_committed(path, duration);
    tracing::info!(
        activity.id = %lease.activity_id(),
        draw.winner_count = settlement.winner_count(),
        draw.path = path,
        draw.lateness_ms = u64::try_from(lateness.as_millis()).unwrap_or(u64::MAX),
        draw.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        "activity drawn"
    );
}
