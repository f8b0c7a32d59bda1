//! Works off the outbox: publishes, projects, deletes what is done.

use std::{collections::HashMap, error::Error, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream};
use sea_orm::{DatabaseConnection, DbErr};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    Event, Outbox,
    claims::{Claims, Outcome},
    entry::{DrawMessage, Kind, StoredEntry},
    store::{self, ClaimedRow},
};
use crate::{
    infra::{
        broker::{Broker, Outgoing},
        mysql::{DatabaseClock, within_limit},
    },
    kernel::ActivityId,
};

/// Projections that an older version owes and nothing needs any more: participants are counted where
/// they are joined.
const RETIRED: [&str; 1] = ["candidates"];

/// Why a projection could not be brought up to date; it is tried again.
pub type ProjectError = Box<dyn Error + Send + Sync>;

/// Brings what Redis shows of an activity up to date by reading `MySQL` again.
///
/// Safe to repeat and to run in any order: a projection never goes back to an older version.
pub trait Project: Send + Sync {
    fn project(&self, activity_id: ActivityId) -> BoxFuture<'_, Result<(), ProjectError>>;
}

/// Works off what is to be published and what is to be projected, each in a loop of its own: what
/// waits for one server does not hold up the other. Copies to the admin database have a relay of
/// their own.
pub struct Relay {
    db: DatabaseConnection,
    due_publishes: Claims,
    due_projections: Claims,
    broker: Broker,
    clock: Arc<DatabaseClock>,
    outbox: Outbox,
    projections: HashMap<&'static str, Arc<dyn Project>>,
}

impl Relay {
    const BATCH: u32 = 100;
    /// Projections that are worked on at once.
    const PROJECTIONS: usize = 8;
    const FIRST_PAUSE: Duration = Duration::from_millis(200);
    const LONGEST_PAUSE: Duration = Duration::from_secs(5);
    /// How often to look without having been woken.
    const IDLE_PAUSE: Duration = Duration::from_millis(500);

    pub fn new(
        db: DatabaseConnection,
        broker: Broker,
        clock: Arc<DatabaseClock>,
        outbox: Outbox,
    ) -> Self {
        let claims = |kind| Claims {
            db: db.clone(),
            kind,
            batch: Self::BATCH,
            first_pause: Self::FIRST_PAUSE,
            longest_pause: Self::LONGEST_PAUSE,
        };
        Self {
            due_publishes: claims(Kind::Publish),
            due_projections: claims(Kind::Project),
            db,
            broker,
            clock,
            outbox,
            projections: HashMap::new(),
        }
    }

    /// Registers the projection that `Entry::Project { what, .. }` names.
    #[must_use]
    pub fn with_projection(mut self, what: &'static str, projection: Arc<dyn Project>) -> Self {
        self.projections.insert(what, projection);
        self
    }

    /// Publishes until `stop`, and then until nothing is due, so that little is left for the others.
    pub async fn run_publishes(&self, stop: CancellationToken) {
        self.run(&self.due_publishes, stop).await;
    }

    /// Projects until `stop`, and then until nothing is due.
    pub async fn run_projections(&self, stop: CancellationToken) {
        self.run(&self.due_projections, stop).await;
    }

    async fn run(&self, claims: &Claims, stop: CancellationToken) {
        loop {
            let is_last = stop.is_cancelled();
            let worked = match self.tick(claims).await {
                Ok(count) => count > 0,
                Err(error) => {
                    let kind = claims.kind.as_str();
                    tracing::warn!(
                        error = &error as &dyn Error,
                        outbox.kind = kind,
                        "outbox tick failed"
                    );
                    false
                }
            };
            if is_last && !worked {
                return;
            }
            if !worked {
                tokio::select! {
                    () = stop.cancelled() => (),
                    () = self.outbox.filled(claims.kind) => (),
                    () = tokio::time::sleep(Self::IDLE_PAUSE) => (),
                }
            }
        }
    }

    /// Works off one batch of due rows; answers how many were done.
    async fn tick(&self, claims: &Claims) -> Result<usize, DbErr> {
        let rows = claims.claim().await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let span = tracing::debug_span!("outbox.relay", outbox.count = rows.len());
        let outcomes = self.work_off(rows).instrument(span).await;
        Ok(claims.settle(&outcomes).await?.done)
    }

    /// How long the oldest row that it works off has been waiting.
    pub async fn age(&self) -> Result<Duration, DbErr> {
        let publish = self.due_publishes.age().await?;
        let project = self.due_projections.age().await?;
        Ok(publish.max(project))
    }

    /// How many rows of each kind wait, and of kinds that only other versions know: `other`. Of many
    /// only the first 10,000 of each are counted.
    pub async fn rows(&self) -> Vec<(&'static str, Result<u64, DbErr>)> {
        let mut rows = Vec::with_capacity(Kind::ALL.len() + 1);
        for kind in Kind::ALL {
            let count = within_limit(store::count_rows(&self.db, kind)).await;
            rows.push((kind.as_str(), count));
        }
        let other = within_limit(store::count_other_rows(&self.db)).await;
        rows.push(("other", other));
        rows
    }

    async fn work_off(&self, rows: Vec<ClaimedRow>) -> Vec<Outcome> {
        let mut publishes = Vec::new();
        let mut projections = Vec::new();
        let mut outcomes = Vec::with_capacity(rows.len());
        for row in rows {
            match row.entry() {
                Ok(StoredEntry::Project { what, activity_id }) => {
                    projections.push(self.project(row, what, activity_id));
                }
                Ok(StoredEntry::Publish {
                    id,
                    kind,
                    schema_version,
                    at,
                    data,
                }) => {
                    let event = Event {
                        id,
                        kind,
                        schema_version,
                        at,
                        data,
                    };
                    publishes.push((row, event.into_outgoing()));
                }
                Ok(StoredEntry::Draw(draw)) => {
                    let outgoing = self.draw_message(draw).await;
                    publishes.push((row, outgoing));
                }
                Ok(StoredEntry::AdminCopy { .. }) => {
                    let error = "a copy for the admin database is not this relay's work";
                    outcomes.push(Outcome {
                        row,
                        result: Err(error.into()),
                    });
                }
                Err(error) => outcomes.push(Outcome {
                    row,
                    result: Err(error.into()),
                }),
            }
        }
        let projected = stream::iter(projections)
            .buffer_unordered(Self::PROJECTIONS)
            .collect::<Vec<_>>();
        let (sent, projected) = tokio::join!(self.publish(publishes), projected);
        outcomes.extend(sent);
        outcomes.extend(projected);
        outcomes
    }

    async fn publish(&self, messages: Vec<(ClaimedRow, Outgoing)>) -> Vec<Outcome> {
        let (rows, outgoing): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        let results = self.broker.publish_all(outgoing).await;
        rows.into_iter()
            .zip(results)
            .map(|(row, result)| Outcome {
                row,
                result: result.map_err(ProjectError::from),
            })
            .collect()
    }

    async fn project(&self, row: ClaimedRow, what: String, activity_id: ActivityId) -> Outcome {
        let result = match self.projections.get(what.as_str()) {
            Some(projection) => {
                let span = tracing::debug_span!("outbox.project", outbox.projection = what);
                within_limit(projection.project(activity_id).instrument(span)).await
            }
            None if RETIRED.contains(&what.as_str()) => Ok(()),
            None => Err(format!("this process has no projection named {what}").into()),
        };
        Outcome { row, result }
    }

    /// Puts the draw on the rung that fits what is left of its wait.
    async fn draw_message(&self, draw: DrawMessage) -> Outgoing {
        let left = match self.clock.now().await {
            Ok(now) => (draw.draw_at - now.at).to_std().unwrap_or_default(),
            // The consumer looks at the time again, so a guess does no harm.
            Err(_) => Duration::ZERO,
        };
        draw.into_outgoing(left)
    }
}
