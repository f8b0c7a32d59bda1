//! Draws activities whose time has come.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sea_orm::{DatabaseConnection, DbErr, TransactionTrait};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    DrawError,
    barriers::{Barriers, Drained},
    commit::Settlement,
    error::db_error,
    lease::DrawLease,
    observers::ObserverMark,
};
use crate::{
    activity::{
        self, Activity, Actor, Status, audit,
        drawing::{self, DrawState},
    },
    candidate::{CandidateService, PoolCount, Selection, SelectionPath},
    infra::{broker::Broker, mysql::TransactionRetry, outbox::Outbox, redis::Redis},
    kernel::{self, ActivityId, Supervisor, Timestamp},
    settings::DrawSettings,
    telemetry::metrics,
};

/// What [`DrawService`] stands on.
pub struct DrawDeps {
    pub db: DatabaseConnection,
    pub redis: Redis,
    pub broker: Broker,
    pub outbox: Outbox,
    pub candidates: CandidateService,
    /// Runs the draws and tells them when to stop waiting.
    pub supervisor: Supervisor,
    pub settings: DrawSettings,
}

/// How an attempt to draw ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawOutcome {
    Drawn,
    AlreadyDrawn,
    /// drawAt has not come, or the activity was never opened.
    NotDue,
    HeldByAnother,
    Cancelled,
    /// Somebody else has claimed it in the meantime; nothing was written.
    LostLease,
    /// A stop of the process was requested first; another process goes on.
    Stopped,
}

/// How far an attempt came that runs on in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Claimed, and running.
    Started,
    Refused(DrawOutcome),
    /// This process runs as many draws as it may.
    Busy,
}

/// Draws activities. Cheap to clone.
#[derive(Clone)]
pub struct DrawService {
    shared: Arc<Shared>,
}

struct Shared {
    db: DatabaseConnection,
    outbox: Outbox,
    candidates: CandidateService,
    supervisor: Supervisor,
    settings: DrawSettings,
    barriers: Barriers,
    mark: ObserverMark,
    permits: Arc<Semaphore>,
}

/// An activity about which nothing changes any more, and what follows from its rows.
struct Frozen {
    activity: Activity,
    selection: Selection,
    counts: PoolCount,
}

enum Claim {
    Granted(DrawLease),
    Refused(DrawOutcome),
}

/// What is settled once the activity is frozen.
enum Prepared {
    Selected(Box<Frozen>),
    Ended(DrawOutcome),
}

impl DrawService {
    pub fn new(deps: DrawDeps) -> Self {
        let barriers = Barriers::new(deps.broker, deps.candidates.clone(), deps.settings.clone());
        Self {
            shared: Arc::new(Shared {
                permits: Arc::new(Semaphore::new(deps.settings.concurrency.get())),
                mark: ObserverMark::new(deps.redis),
                db: deps.db,
                outbox: deps.outbox,
                candidates: deps.candidates,
                supervisor: deps.supervisor,
                settings: deps.settings,
                barriers,
            }),
        }
    }

    /// Draws an activity from the claim to the commit, if it is due and nobody else is at it.
    ///
    /// Safe to repeat, and to run in many processes at once: it is drawn once.
    #[tracing::instrument(name = "draw.run", skip_all, fields(activity.id = %id))]
    pub async fn draw(&self, id: ActivityId) -> Result<DrawOutcome, DrawError> {
        match self.shared.claim(id).await? {
            Claim::Granted(lease) => self.shared.run(lease).await,
            Claim::Refused(outcome) => Ok(outcome),
        }
    }

    /// Waits for a free place, claims the draw, and runs the rest of it in the background; busy when
    /// a stop of the process was requested before there was a place.
    pub async fn begin(&self, id: ActivityId) -> Result<Begun, DrawError> {
        let place = Arc::clone(&self.shared.permits).acquire_owned();
        // A stop ends the wait, but never cuts a claim in two.
        let stop = self.shared.supervisor.stop_token();
        match stop.run_until_cancelled(place).await {
            Some(Ok(permit)) => self.begin_with(id, permit).await,
            Some(Err(_)) | None => Ok(Begun::Busy),
        }
    }

    /// The same without waiting for a place.
    pub async fn begin_if_free(&self, id: ActivityId) -> Result<Begun, DrawError> {
        match Arc::clone(&self.shared.permits).try_acquire_owned() {
            Ok(permit) => self.begin_with(id, permit).await,
            Err(_) => Ok(Begun::Busy),
        }
    }

    async fn begin_with(
        &self,
        id: ActivityId,
        permit: OwnedSemaphorePermit,
    ) -> Result<Begun, DrawError> {
        let lease = match self.shared.claim(id).await? {
            Claim::Granted(lease) => lease,
            Claim::Refused(outcome) => return Ok(Begun::Refused(outcome)),
        };
        let shared = Arc::clone(&self.shared);
        // Not watched: the outcome is logged, and the sweeper repeats what failed.
        drop(self.shared.supervisor.spawn_once(async move {
            let _permit = permit;
            if let Err(error) = shared.run(lease).await {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, activity.id = %id, "draw failed, it is tried again");
            }
        }));
        Ok(Begun::Started)
    }

    /// Begins the draw in the background, without waiting for the claim, because `actor` asked.
    pub(super) async fn wake(&self, id: ActivityId, actor: &Actor) -> Result<(), DrawError> {
        let entry = actor.did("activity.draw_asked", id, None);
        audit::record(&self.shared.db, &entry)
            .await
            .map_err(db_error("record who asked for the draw", id))?;
        let service = self.clone();
        drop(self.shared.supervisor.spawn_once(async move {
            if let Err(error) = service.begin(id).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, activity.id = %id, "draw not begun, the sweeper will");
            }
        }));
        Ok(())
    }

    /// Where an activity is on its way to the draw.
    pub async fn state(&self, id: ActivityId) -> Result<DrawState, DrawError> {
        drawing::find_state(&self.shared.db, id)
            .await
            .map_err(db_error("look at the draw", id))?
            .ok_or(DrawError::NotFound(id))
    }

    /// Begins due draws that nobody is at, up to `limit` and to the free places; tells how many.
    pub async fn begin_due(&self, limit: u32) -> Result<usize, DrawError> {
        let due = drawing::list_due(&self.shared.db, limit)
            .await
            .map_err(|source| DrawError::Scan {
                action: "list due draws",
                source,
            })?;
        let mut started = 0;
        for id in due {
            match self.begin_if_free(id).await? {
                Begun::Started => started += 1,
                Begun::Refused(_) => (),
                Begun::Busy => break,
            }
        }
        Ok(started)
    }

    /// Activities that should have been drawn more than `overdue` ago: for the alarm.
    pub async fn list_overdue(&self, overdue: Duration) -> Result<Vec<ActivityId>, DrawError> {
        const SHOWN: u32 = 20;
        drawing::list_overdue(&self.shared.db, overdue, SHOWN)
            .await
            .map_err(|source| DrawError::Scan {
                action: "list overdue draws",
                source,
            })
    }
}

impl Shared {
    /// Claims the draw in a transaction of its own.
    async fn claim(&self, id: ActivityId) -> Result<Claim, DrawError> {
        let mut retry = TransactionRetry::new();
        let granted = loop {
            match self.try_claim(id).await {
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
        let state = drawing::find_state(&self.db, id)
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
    async fn run(&self, lease: DrawLease) -> Result<DrawOutcome, DrawError> {
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

    async fn freeze(&self, lease: &DrawLease) -> Result<bool, DrawError> {
        let (id, token) = (lease.activity_id(), lease.token());
        let mut retry = TransactionRetry::new();
        loop {
            match drawing::freeze(&self.db, id, token).await {
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
            .await
            .map_err(db_error("commit the draw", id))?;
        let Some(drawn_at) = committed else {
            return Ok(DrawOutcome::LostLease);
        };
        kernel::step("draw.committed");
        self.outbox.wake();
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
                    tracing::warn!(activity.id = %id, "the lease of a draw was lost");
                    return;
                }
            };
        }
    }

    async fn release(&self, lease: &DrawLease) {
        let id = lease.activity_id();
        if let Err(error) = drawing::release(&self.db, id, lease.token()).await {
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
