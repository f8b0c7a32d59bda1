//! Counting for all who ask: by the pool in Redis where it is whole, else by the rows in `MySQL`.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use moka::{Expiry, future::Cache};
use sea_orm::DbErr;

use super::model::{Joined, Stats};
use crate::{
    activity::{self, Activity},
    candidate::{
        CandidateError, CandidateService, PoolCount, Rules,
        store::{self, PageOf},
    },
    infra::{mysql::read_in_turn, redis::Shard},
    kernel::{ActivityId, UserId},
    telemetry::metrics,
};

/// Rows of one read, which is a turn of its own.
const PAGE: u64 = 5_000;

/// How long all of the reads of `MySQL` may take.
const SCAN_LIMIT: Duration = Duration::from_secs(20);

/// Figures, and what it took to count them.
#[derive(Clone, Debug)]
pub(in crate::candidate) struct Counted {
    stats: Arc<Stats>,
    took: Duration,
}

/// The last figures of each activity: one flight for each, the answer kept for a while.
pub(in crate::candidate) struct CountedStats(Cache<ActivityId, Counted>);

/// Keeps what took long to count for longer, so that counting never becomes a load of its own.
struct KeptByEffort;

impl Expiry<ActivityId, Counted> for KeptByEffort {
    fn expire_after_create(
        &self,
        _: &ActivityId,
        counted: &Counted,
        _: Instant,
    ) -> Option<Duration> {
        const SHORTEST: Duration = Duration::from_secs(2);
        Some((counted.took * 3).max(SHORTEST))
    }
}

impl CountedStats {
    const KEPT: u64 = 10_000;

    pub(in crate::candidate) fn new() -> Self {
        let cache = Cache::builder()
            .max_capacity(Self::KEPT)
            .expire_after(KeptByEffort);
        Self(cache.build())
    }
}

impl CandidateService {
    /// The figures of an activity, as of a few seconds ago at most; longer ago where counting them
    /// takes long.
    pub async fn stats(&self, id: ActivityId) -> Result<Arc<Stats>, CandidateError> {
        // Boxed, so that the common case stays small.
        let count = Box::pin(self.count(id));
        let counted = self.shared.stats.0.try_get_with(id, count).await;
        counted
            .map(|counted| counted.stats)
            .map_err(CandidateError::Shared)
    }

    async fn count(&self, id: ActivityId) -> Result<Counted, CandidateError> {
        let started_at = Instant::now();
        let find = activity::find(self.db(), id);
        let activity = read_in_turn(self.mysql_turns(), find)
            .await
            .map_err(CandidateError::database("read the rules", id))?
            .ok_or(CandidateError::UnknownActivity(id))?;
        let as_of = self.shared.deps.clock.guess().at;
        let (joined, counted) = self.count_joined(&activity).await?;
        Ok(Counted {
            stats: Arc::new(Stats::of(&activity, as_of, joined, counted)),
            took: started_at.elapsed(),
        })
    }

    async fn count_joined(
        &self,
        activity: &Activity,
    ) -> Result<(Joined, PoolCount), CandidateError> {
        // Before the opening there is nothing to count.
        let Some(rules) = Rules::of(activity) else {
            return Ok(Default::default());
        };
        if let Some((split, counted)) = self.count_in_pool(activity).await? {
            metrics::stats_counted("pool");
            let trimmed = 0;
            return Ok((Joined { split, trimmed }, counted));
        }
        metrics::stats_counted("rows");
        let joined = self.count_in_rows(activity, &rules).await?;
        Ok((joined, self.sum_of_counts(activity.id).await?))
    }

    /// Page by page, each in its turn, so that no crowd of hosts keeps admission from `MySQL`.
    async fn count_in_rows(
        &self,
        activity: &Activity,
        rules: &Rules,
    ) -> Result<Joined, CandidateError> {
        let pages = self.count_pages(activity.id, rules);
        let timed_out = |_| Err(DbErr::ConnectionAcquire(sea_orm::ConnAcquireErr::Timeout));
        tokio::time::timeout(SCAN_LIMIT, pages)
            .await
            .unwrap_or_else(timed_out)
            .map_err(CandidateError::database(
                "count the participations",
                activity.id,
            ))
    }

    async fn count_pages(&self, id: ActivityId, rules: &Rules) -> Result<Joined, DbErr> {
        let mut joined = Joined::default();
        let mut after = UserId(0);
        loop {
            let page = store::list_page(self.db(), id, PageOf::Joined, after, PAGE);
            let page = read_in_turn(self.mysql_turns(), page).await?;
            let Some((last, _)) = page.last() else {
                return Ok(joined);
            };
            after = *last;
            for (_, rows) in &page {
                let participation = rows.participation.as_ref();
                joined.trimmed += u64::from(participation.is_some_and(|own| own.is_trimmed));
                if let Some(eligibility) = rules.eligibility(rows) {
                    joined.split.count(eligibility);
                }
            }
        }
    }

    pub(super) async fn read_counts(
        &self,
        id: ActivityId,
    ) -> Result<BTreeMap<Shard, PoolCount>, CandidateError> {
        let read = store::read_pool_counts(self.db(), id);
        read_in_turn(self.mysql_turns(), read)
            .await
            .map_err(CandidateError::database("count the participations", id))
    }

    async fn sum_of_counts(&self, id: ActivityId) -> Result<PoolCount, CandidateError> {
        let mut total = PoolCount::default();
        for count in self.read_counts(id).await?.into_values() {
            total += count;
        }
        Ok(total)
    }

    fn mysql_turns(&self) -> &tokio::sync::Semaphore {
        &self.shared.deps.mysql_reads
    }
}
