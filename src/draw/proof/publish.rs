//! Publishing: the entries of a drawn activity under one root, and only then its seed.

use std::{sync::Arc, time::Instant};

use parking_lot::Mutex;
use rand::seq::SliceRandom;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, TransactionTrait};
use serde_json::json;
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::{
    activity::{
        self, Activity, Actor, Status, audit,
        publication::{self, Missed},
    },
    candidate::entries::{self, BuiltEntries},
    draw::{DrawError, error::db_error, events},
    infra::{
        mysql::{TransactionRetry, within_limit},
        outbox::{Entry, Outbox},
    },
    kernel::{self, ActivityId, Supervisor},
    telemetry::{TraceContext, metrics},
};

/// Publishes proofs. Cheap to clone.
#[derive(Clone)]
pub(in crate::draw) struct Publisher {
    db: DatabaseConnection,
    outbox: Outbox,
    supervisor: Supervisor,
    /// Each reads all participants of an activity, which must not hold draws up.
    places: Arc<Semaphore>,
    /// Behind which missed proof the next look begins.
    position: Arc<Mutex<Missed>>,
}

impl Publisher {
    const AT_ONCE: usize = 2;

    pub(in crate::draw) fn new(
        db: DatabaseConnection,
        outbox: Outbox,
        supervisor: Supervisor,
    ) -> Self {
        Self {
            db,
            outbox,
            supervisor,
            places: Arc::new(Semaphore::new(Self::AT_ONCE)),
            position: Arc::new(Mutex::new(Missed::NONE)),
        }
    }

    /// Publishes in the background; the sweeper does what does not come to its end.
    pub(in crate::draw) fn begin(&self, id: ActivityId) {
        let publisher = self.clone();
        let span = tracing::debug_span!(parent: None, "draw.proof", activity.id = %id);
        TraceContext::current().adopt(&span);
        let publishing = async move {
            if let Err(error) = publisher.publish(id).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, activity.id = %id, "proof not published, the sweeper will");
            }
        };
        drop(self.supervisor.spawn_once(publishing.instrument(span)));
    }

    /// Publishes up to `limit` proofs that should have been published by now; tells how many.
    ///
    /// Each call goes on behind the last one, and after the end from the beginning: a proof that
    /// cannot be published must not keep the others from it.
    pub(in crate::draw) async fn publish_missed(&self, limit: u32) -> Result<usize, DrawError> {
        let mut missed = self.next_missed(limit).await?;
        // Replicas that look at the same moment mostly take different ones.
        missed.shuffle(&mut rand::rng());
        let mut published_count = 0;
        for Missed { id, .. } in missed {
            match self.publish(id).await {
                Ok(is_published) => published_count += usize::from(is_published),
                Err(error) if error.is_unavailable() => return Err(error),
                // The others have their turn all the same.
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, activity.id = %id, "proof not published");
                }
            }
        }
        Ok(published_count)
    }

    async fn next_missed(&self, limit: u32) -> Result<Vec<Missed>, DrawError> {
        let after = *self.position.lock();
        let look = async {
            let count = publication::count_missed(&self.db).await?;
            metrics::proofs_unpublished(Some(count));
            publication::list_missed(&self.db, after, limit).await
        };
        let missed = within_limit(look).await;
        let missed = missed.inspect_err(|_| metrics::proofs_unpublished(None));
        let missed = missed.map_err(|source| DrawError::Scan {
            action: "list missed proofs",
            source,
        })?;
        let is_full = missed.len() as u64 >= u64::from(limit);
        let last = missed.last().filter(|_| is_full);
        *self.position.lock() = last.copied().unwrap_or(Missed::NONE);
        Ok(missed)
    }

    /// Publishes the proof of a drawn activity; `false` when there was nothing to do, or a stop came
    /// first. Safe to repeat, and to run in many processes at once: it is published once.
    #[tracing::instrument(name = "draw.publish_proof", skip_all, fields(activity.id = %id))]
    async fn publish(&self, id: ActivityId) -> Result<bool, DrawError> {
        let stop = self.supervisor.stop_token();
        let place = stop.run_until_cancelled(self.places.acquire()).await;
        let Some(Ok(_place)) = place else {
            return Ok(false);
        };
        let started_at = Instant::now();
        let activity = within_limit(activity::find(&self.db, id))
            .await
            .map_err(db_error("read", id))?
            .ok_or(DrawError::NotFound(id))?;
        if activity.status != Status::Drawn || activity.proof_published_at.is_some() {
            return Ok(false);
        }
        let stored = entries::store_entries(&self.db, &activity, &stop).await;
        let Some(built) = stored.map_err(db_error("store the entries", id))? else {
            tracing::info!("stopped, or somebody else has published the proof");
            return Ok(false);
        };
        kernel::step("proof.stored");
        let is_published = self.mark(&activity, &built).await;
        if !is_published.map_err(db_error("publish the proof", id))? {
            tracing::info!("somebody else has published the proof");
            return Ok(false);
        }
        kernel::step("proof.published");
        self.outbox.wake();
        report(&activity, &built, started_at);
        Ok(true)
    }

    async fn mark(&self, activity: &Activity, built: &BuiltEntries) -> Result<bool, DbErr> {
        let mut retry = TransactionRetry::new();
        loop {
            match within_limit(self.try_mark(activity, built)).await {
                Err(error) if retry.again(&error).await => metrics::db_retries(),
                outcome => return outcome,
            }
        }
    }

    async fn try_mark(&self, activity: &Activity, built: &BuiltEntries) -> Result<bool, DbErr> {
        let tx = self.db.begin().await?;
        if !self.write(&tx, activity, built).await? {
            return Ok(false);
        }
        kernel::step("proof.in_transaction");
        tx.commit().await?;
        Ok(true)
    }

    async fn write(
        &self,
        tx: &impl ConnectionTrait,
        activity: &Activity,
        built: &BuiltEntries,
    ) -> Result<bool, DbErr> {
        let id = activity.id;
        let marked = publication::mark_published(tx, id, &built.root, built.count).await?;
        let Some((version, at)) = marked else {
            return Ok(false);
        };
        let detail = json!({
            "entriesCount": built.count,
            "entriesRoot": hex::encode(built.root),
        });
        let entry = Actor::service("draw").did("proof.publish", id, Some(detail));
        audit::record(tx, &entry).await?;
        let event = events::proof_published(activity, version, at, built);
        let project = Entry::Project {
            what: activity::PROJECTION,
            activity_id: id,
            version,
        };
        let owed = [Entry::Publish(event), project];
        self.outbox.append(tx, &owed).await?;
        Ok(true)
    }
}

fn report(activity: &Activity, built: &BuiltEntries, started_at: Instant) {
    let duration = started_at.elapsed();
    metrics::proof_published(duration);
    tracing::info!(
        activity.id = %activity.id,
        proof.entries_count = built.count,
        proof.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        "proof published"
    );
}
