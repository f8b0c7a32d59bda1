//! Works off the outbox: publishes, projects, deletes what is done.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, future::BoxFuture, stream};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, TransactionTrait};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    Event,
    entry::{DrawMessage, Entry, StoredEntry},
    store::{self, ClaimedRow},
};
use crate::{
    infra::{
        broker::{Broker, Outgoing},
        mysql::{DatabaseClock, within_limit},
    },
    kernel::ActivityId,
    telemetry::metrics,
};

/// Adds entries in a caller's transaction and wakes the relay once they are committed.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    waiting: Arc<Notify>,
}

impl Outbox {
    /// Adds what the caller's transaction owes. Call [`Outbox::wake`] after the commit.
    pub async fn append(&self, tx: &impl ConnectionTrait, entries: &[Entry]) -> Result<(), DbErr> {
        store::insert(tx, entries).await
    }

    /// Tells the relay of this process that there is something to do.
    pub fn wake(&self) {
        self.waiting.notify_one();
    }
}

/// Why a projection could not be brought up to date; it is tried again.
pub type ProjectError = Box<dyn Error + Send + Sync>;

/// Brings what Redis shows of an activity up to date by reading `MySQL` again.
///
/// Safe to repeat and to run in any order: a projection never goes back to an older version.
pub trait Project: Send + Sync {
    fn project(&self, activity_id: ActivityId) -> BoxFuture<'_, Result<(), ProjectError>>;
}

/// Works off due rows; replicas share them by claiming.
pub struct Relay {
    db: DatabaseConnection,
    broker: Broker,
    clock: Arc<DatabaseClock>,
    outbox: Outbox,
    projections: HashMap<&'static str, Arc<dyn Project>>,
}

/// A claimed row, and what became of it.
struct Outcome {
    row: ClaimedRow,
    result: Result<(), ProjectError>,
}

impl Relay {
    const BATCH: u32 = 100;
    /// How long a claim lasts: longer than a batch takes while the servers answer.
    const CLAIM: Duration = Duration::from_mins(1);
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
        Self {
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

    /// Works until `stop`, and then until nothing is due, so that little is left for the others.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            let is_last = stop.is_cancelled();
            let worked = match self.tick().await {
                Ok(count) => count > 0,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn Error, "outbox tick failed");
                    false
                }
            };
            if is_last && !worked {
                return;
            }
            if !worked {
                tokio::select! {
                    () = stop.cancelled() => (),
                    () = self.outbox.waiting.notified() => (),
                    () = tokio::time::sleep(Self::IDLE_PAUSE) => (),
                }
            }
        }
    }

    /// Works off one batch of due rows; answers how many were done.
    pub async fn tick(&self) -> Result<usize, DbErr> {
        let rows = within_limit(self.claim()).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let span = tracing::debug_span!("outbox.relay", outbox.count = rows.len());
        let outcomes = self.work_off(rows).instrument(span).await;
        let done: Vec<u64> = outcomes
            .iter()
            .filter(|outcome| outcome.result.is_ok())
            .map(|o| o.row.id)
            .collect();
        if !done.is_empty() {
            within_limit(store::delete(&self.db, &done)).await?;
            count_done(&outcomes);
        }
        for outcome in &outcomes {
            if let Err(error) = &outcome.result {
                Self::warn(&outcome.row, error.as_ref());
                self.put_back(&outcome.row).await?;
            }
        }
        Ok(done.len())
    }

    /// How long the oldest row has been waiting.
    pub async fn age(&self) -> Result<Duration, DbErr> {
        store::age_ms(&self.db).await.map(Duration::from_millis)
    }

    /// How many rows of each kind wait; of many only the first 10,000 are counted.
    pub async fn rows(&self) -> Result<BTreeMap<&'static str, u64>, DbErr> {
        let counted = store::count_rows(&self.db).await?;
        let mut rows: BTreeMap<&'static str, u64> =
            Entry::KINDS.into_iter().map(|kind| (kind, 0)).collect();
        for (kind, count) in counted {
            *rows.entry(Entry::known_kind(&kind)).or_default() += count;
        }
        Ok(rows)
    }

    async fn claim(&self) -> Result<Vec<ClaimedRow>, DbErr> {
        let tx = self.db.begin().await?;
        let rows = store::list_due_for_update(&tx, Self::BATCH).await?;
        if !rows.is_empty() {
            let ids: Vec<u64> = rows.iter().map(|row| row.id).collect();
            store::postpone(&tx, &ids, Self::CLAIM).await?;
        }
        tx.commit().await?;
        Ok(rows)
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

    fn warn(row: &ClaimedRow, error: &(dyn Error + 'static)) {
        tracing::warn!(
            error,
            outbox.id = row.id,
            outbox.attempts = row.attempts + 1,
            "outbox row failed, it is tried again"
        );
    }

    async fn put_back(&self, row: &ClaimedRow) -> Result<(), DbErr> {
        let pause = Self::FIRST_PAUSE
            .saturating_mul(1 << row.attempts.min(8))
            .min(Self::LONGEST_PAUSE);
        within_limit(store::postpone(&self.db, &[row.id], pause)).await
    }
}

fn count_done(outcomes: &[Outcome]) {
    let done = outcomes.iter().filter(|outcome| outcome.result.is_ok());
    for outcome in done {
        metrics::outbox_done(Entry::known_kind(&outcome.row.kind), 1);
    }
}
