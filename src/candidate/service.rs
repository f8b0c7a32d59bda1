//! The service that everybody else calls.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use sea_orm::DatabaseConnection;
use tokio::sync::Semaphore;

use super::{
    CandidateError, PoolCount, Standing, outage::Outage, projection::Scripts, reads::FallbackReads,
    rebuild::Look, stats::CountedStats, store,
};
use crate::{
    activity,
    infra::{
        broker::Broker,
        mysql::{DatabaseClock, within_limit},
        redis::Redis,
    },
    kernel::ActivityId,
    settings::{CandidateSettings, JoinSettings},
};

/// What the service stands on.
#[derive(Clone)]
pub struct CandidateDeps {
    pub db: DatabaseConnection,
    pub redis: Redis,
    pub broker: Broker,
    pub clock: Arc<DatabaseClock>,
    pub settings: CandidateSettings,
    pub join: JoinSettings,
    pub partitions: u16,
    /// Bounds what callers read from `MySQL` because Redis does not have it.
    pub mysql_reads: Arc<Semaphore>,
}

/// Who takes part in an activity and who of them may win. Cheap to clone.
#[derive(Clone)]
pub struct CandidateService {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) deps: CandidateDeps,
    pub(super) scripts: Scripts,
    pub(super) outage: Outage,
    pub(super) fallback: FallbackReads,
    pub(super) stats: CountedStats,
    /// Activities of which something could not be projected.
    pub(super) owed_rebuilds: Mutex<BTreeSet<ActivityId>>,
    pub(super) pool_look: Mutex<Option<Look>>,
}

/// The first of the eligible participants, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    pub ranked: Vec<Standing>,
    pub joined_count: u64,
    pub eligible_count: u64,
    pub path: SelectionPath,
}

/// Where a selection was read from; both give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionPath {
    /// The pool in Redis, checked against `MySQL`.
    Fast,
    /// The rows in `MySQL` alone.
    Exact,
}

impl SelectionPath {
    /// The word in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Exact => "exact",
        }
    }
}

impl CandidateService {
    pub fn new(deps: CandidateDeps) -> Self {
        let shared = Shared {
            fallback: FallbackReads::new(Arc::clone(&deps.mysql_reads)),
            stats: CountedStats::new(),
            deps,
            scripts: Scripts::new(),
            outage: Outage::default(),
            owed_rebuilds: Mutex::default(),
            pool_look: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) fn db(&self) -> &DatabaseConnection {
        &self.shared.deps.db
    }

    pub(super) fn clock(&self) -> &Arc<DatabaseClock> {
        &self.shared.deps.clock
    }

    pub(super) fn redis(&self) -> &Redis {
        &self.shared.deps.redis
    }

    /// The partitions of the stream that have drained for this attempt to draw.
    pub async fn barriers_passed(
        &self,
        id: ActivityId,
        draw_token: u64,
    ) -> Result<Vec<u16>, CandidateError> {
        store::list_barriers(self.db(), id, draw_token)
            .await
            .map_err(CandidateError::database("read the barriers", id))
    }

    /// A number that grows whenever the stream commits anything about a participant.
    pub async fn admitted_total(&self) -> Result<u64, CandidateError> {
        let scan_error = |action| move |source| CandidateError::Scan { action, source };
        let ids = activity::list_ids_in_stream(self.db())
            .await
            .map_err(scan_error("list the activities in the stream"))?;
        store::progress(self.db(), &ids)
            .await
            .map_err(scan_error("read the progress of the stream"))
    }

    /// How many participations there are, by verdict, as committed.
    pub async fn pool_count(&self, id: ActivityId) -> Result<PoolCount, CandidateError> {
        let shards = within_limit(store::read_pool_counts(self.db(), id))
            .await
            .map_err(CandidateError::database("count the participations", id))?;
        let mut total = PoolCount::default();
        for count in shards.into_values() {
            total += count;
        }
        Ok(total)
    }
}
