//! Draws activities whose time has come.

use std::{sync::Arc, time::Duration};

use sea_orm::{DatabaseConnection, DbErr};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::Instrument;

use super::{
    DrawError,
    attempt::{Claim, Drawer},
    barriers::Barriers,
    error::db_error,
    observers::ObserverMark,
    proof::Publisher,
};
use crate::{
    activity::{
        Actor, audit,
        drawing::{self, DrawState},
    },
    candidate::CandidateService,
    infra::{
        broker::Broker,
        mysql::{read_in_turn, within_limit},
        outbox::Outbox,
        redis::Redis,
    },
    kernel::{ActivityId, Supervisor},
    settings::DrawSettings,
    telemetry::state,
    winners,
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
    /// The turns in which callers read and change `MySQL`.
    pub mysql_reads: Arc<Semaphore>,
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
    /// A stop of the process was requested before there was a free place.
    Stopping,
}

/// Draws activities. Cheap to clone.
#[derive(Clone)]
pub struct DrawService {
    pub(super) drawer: Arc<Drawer>,
    /// Held by redraws, each of which may read all participants of an activity, on a connection
    /// beside those of the turns.
    pub(super) redraws: Arc<Semaphore>,
    pub(super) mysql_reads: Arc<Semaphore>,
}

impl DrawService {
    const REDRAWS_AT_ONCE: usize = 2;

    pub fn new(deps: DrawDeps) -> Self {
        let barriers = Barriers::new(deps.broker, deps.candidates.clone(), deps.settings.clone());
        let publisher = Publisher::new(
            deps.db.clone(),
            deps.outbox.clone(),
            deps.supervisor.clone(),
        );
        Self {
            drawer: Arc::new(Drawer {
                permits: Arc::new(Semaphore::new(deps.settings.concurrency.get())),
                mark: ObserverMark::new(deps.redis),
                db: deps.db,
                outbox: deps.outbox,
                candidates: deps.candidates,
                supervisor: deps.supervisor,
                settings: deps.settings,
                barriers,
                publisher,
            }),
            redraws: Arc::new(Semaphore::new(Self::REDRAWS_AT_ONCE)),
            mysql_reads: deps.mysql_reads,
        }
    }

    /// Draws an activity from the claim to the commit, if it is due and nobody else is at it.
    ///
    /// Safe to repeat, and to run in many processes at once: it is drawn once.
    #[tracing::instrument(name = "draw.run", skip_all, fields(activity.id = %id))]
    pub async fn draw(&self, id: ActivityId) -> Result<DrawOutcome, DrawError> {
        match self.drawer.claim(id).await? {
            Claim::Granted(lease) => self.drawer.run(lease).await,
            Claim::Refused(outcome) => Ok(outcome),
        }
    }

    /// Waits for a free place, claims the draw, and runs the rest of it in the background.
    pub async fn begin(&self, id: ActivityId) -> Result<Begun, DrawError> {
        let place = Arc::clone(&self.drawer.permits).acquire_owned();
        // A stop ends the wait, but never cuts a claim in two.
        let stop = self.drawer.supervisor.stop_token();
        match stop.run_until_cancelled(place).await {
            Some(Ok(permit)) => self.begin_with(id, permit).await,
            Some(Err(_)) | None => Ok(Begun::Stopping),
        }
    }

    /// The same without waiting for a place.
    pub async fn begin_if_free(&self, id: ActivityId) -> Result<Begun, DrawError> {
        match Arc::clone(&self.drawer.permits).try_acquire_owned() {
            Ok(permit) => self.begin_with(id, permit).await,
            Err(_) => Ok(Begun::Busy),
        }
    }

    async fn begin_with(
        &self,
        id: ActivityId,
        permit: OwnedSemaphorePermit,
    ) -> Result<Begun, DrawError> {
        let span = tracing::info_span!("draw.run", activity.id = %id);
        let lease = match self.drawer.claim(id).instrument(span.clone()).await? {
            Claim::Granted(lease) => lease,
            Claim::Refused(outcome) => return Ok(Begun::Refused(outcome)),
        };
        let drawer = Arc::clone(&self.drawer);
        let running = async move {
            let _permit = permit;
            if let Err(error) = drawer.run(lease).await {
                state::draw_failed();
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, activity.id = %id, "draw failed, it is tried again");
            }
        };
        // Not watched: the outcome is logged, and the sweeper repeats what failed.
        drop(self.drawer.supervisor.spawn_once(running.instrument(span)));
        Ok(Begun::Started)
    }

    /// Begins the draw in the background, without waiting for the claim, because `actor` asked.
    pub(super) async fn wake(&self, id: ActivityId, actor: &Actor) -> Result<(), DrawError> {
        let entry = actor.did("activity.draw_asked", id, None);
        read_in_turn(&self.mysql_reads, audit::record(&self.drawer.db, &entry))
            .await
            .map_err(db_error("record who asked for the draw", id))?;
        let service = self.clone();
        drop(self.drawer.supervisor.spawn_once(async move {
            if let Err(error) = service.begin(id).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, activity.id = %id, "draw not begun, the sweeper will");
            }
        }));
        Ok(())
    }

    /// Where an activity is on its way to the draw.
    pub async fn state(&self, id: ActivityId) -> Result<DrawState, DrawError> {
        found(id, drawing::find_state(&self.drawer.db, id).await)
    }

    /// The same on behalf of a caller, when its turn has come.
    pub(super) async fn state_in_turn(&self, id: ActivityId) -> Result<DrawState, DrawError> {
        let read = drawing::find_state(&self.drawer.db, id);
        found(id, read_in_turn(&self.mysql_reads, read).await)
    }

    /// Begins due draws that nobody is at, up to `limit` and to the free places; tells how many.
    pub async fn begin_due(&self, limit: u32) -> Result<usize, DrawError> {
        let due = drawing::list_due(&self.drawer.db, limit)
            .await
            .map_err(|source| DrawError::Scan {
                action: "list due draws",
                source,
            })?;
        let mut started = 0;
        for id in due {
            match self.begin_if_free(id).await {
                Ok(Begun::Started) => started += 1,
                Ok(Begun::Refused(_)) => (),
                Ok(Begun::Busy | Begun::Stopping) => break,
                Err(error) if error.is_unavailable() => return Err(error),
                // The others have their turn all the same.
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, activity.id = %id, "due draw not begun");
                }
            }
        }
        Ok(started)
    }

    /// Publishes proofs that whoever drew left unpublished, up to `limit`; tells how many.
    pub async fn publish_missed_proofs(&self, limit: u32) -> Result<usize, DrawError> {
        self.drawer.publisher.publish_missed(limit).await
    }

    /// Recent draws with another number of wins than of seats that could be filled: for the alarm.
    pub async fn list_wrong_results(&self) -> Result<Vec<ActivityId>, DrawError> {
        const RECENT: Duration = Duration::from_mins(10);
        let db = &self.drawer.db;
        let look = async {
            let mut wrong = Vec::new();
            for (id, seats) in drawing::list_drawn_within(db, RECENT).await? {
                if winners::count_of_round(db, id, FIRST_ROUND).await? != seats {
                    wrong.push(id);
                }
            }
            Ok(wrong)
        };
        within_limit(look).await.map_err(|source| DrawError::Scan {
            action: "check the results of recent draws",
            source,
        })
    }

    /// Activities that should have been drawn more than `overdue` ago: for the alarm.
    pub async fn list_overdue(&self, overdue: Duration) -> Result<Vec<ActivityId>, DrawError> {
        const SHOWN: u32 = 20;
        within_limit(drawing::list_overdue(&self.drawer.db, overdue, SHOWN))
            .await
            .map_err(|source| DrawError::Scan {
                action: "list overdue draws",
                source,
            })
    }
}

/// The wins of a draw that were committed with it.
const FIRST_ROUND: u32 = 1;

fn found(id: ActivityId, read: Result<Option<DrawState>, DbErr>) -> Result<DrawState, DrawError> {
    read.map_err(db_error("look at the draw", id))?
        .ok_or(DrawError::NotFound(id))
}
