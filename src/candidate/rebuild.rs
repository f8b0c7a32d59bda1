//! Sets Redis right from `MySQL`: the pool, the participants and their summaries. Each call is one
//! bounded step that may be repeated at any time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use fred::{
    error::Error as RedisError,
    interfaces::{HashesInterface, SetsInterface, SortedSetsInterface},
};

use super::{
    CandidateError, CandidateService, PoolCount, Rules, SettledActivity, SettledUser,
    claim::RebuildClaim,
    store::{self, PageOf},
};
use crate::{
    activity::{self, Activity},
    infra::{mysql::within_limit, redis::Shard},
    kernel::{ActivityId, UserId},
    telemetry::state,
};

/// Participations that are projected at once.
const PAGE: u64 = 1_000;

/// How old a look at the counts must be before Redis has to have caught up with it.
const GRACE: Duration = Duration::from_secs(5);

/// What `MySQL` had counted at some moment, for the next look to compare Redis with.
#[derive(Debug)]
pub(super) struct Look {
    taken_at: Instant,
    counts: BTreeMap<ActivityId, BTreeMap<Shard, PoolCount>>,
}

impl CandidateService {
    /// Fills the whole pool of an activity, and what Redis shows of its participants, from `MySQL`;
    /// answers how many participations there are, or `None`: another process is at it.
    pub async fn rebuild(&self, id: ActivityId) -> Result<Option<u64>, CandidateError> {
        let activity = within_limit(activity::find(self.db(), id))
            .await
            .map_err(CandidateError::database("read the rules", id))?
            .ok_or(CandidateError::UnknownActivity(id))?;
        self.rebuild_shards(&activity, &Shard::all().collect())
            .await
    }

    /// `None`: another process is at it. Two at once would do no harm, only twice the work.
    async fn rebuild_shards(
        &self,
        activity: &Activity,
        shards: &BTreeSet<Shard>,
    ) -> Result<Option<u64>, CandidateError> {
        let id = activity.id;
        let claim_failed = CandidateError::redis("claim the rebuild", id);
        let Some(claim) = self.claim_rebuild(id).await.map_err(claim_failed)? else {
            return Ok(None);
        };
        let rebuilt = self.refill_shards(activity, shards, &claim).await;
        self.release_rebuild(claim).await;
        rebuilt.map(Some)
    }

    async fn refill_shards(
        &self,
        activity: &Activity,
        shards: &BTreeSet<Shard>,
        claim: &RebuildClaim,
    ) -> Result<u64, CandidateError> {
        let id = activity.id;
        // What is emptied first and read afterwards misses nothing: a join that is committed
        // during the scan is projected by its own consumer.
        self.reset_shards(activity, shards)
            .await
            .map_err(CandidateError::redis("empty the pool", id))?;
        let rules = Rules::of(activity);
        let mut after = UserId(0);
        let mut rebuilt = 0;
        loop {
            let page = within_limit(store::list_page(self.db(), id, PageOf::All, after, PAGE))
                .await
                .map_err(CandidateError::database("scan the participations", id))?;
            let Some((last, _)) = page.last() else {
                return Ok(rebuilt);
            };
            after = *last;
            let users: BTreeMap<UserId, SettledUser> = page
                .iter()
                .filter(|(user_id, _)| shards.contains(&activity.shard_of(*user_id)))
                .filter_map(|(user_id, rows)| {
                    Some((*user_id, SettledUser::of(rules.as_ref(), *user_id, rows)?))
                })
                .collect();
            rebuilt += users.len() as u64;
            let settled = SettledActivity {
                activity: activity.clone(),
                users,
            };
            self.project_activity(&settled)
                .await
                .map_err(CandidateError::redis("fill the pool", id))?;
            self.renew_rebuild(claim)
                .await
                .map_err(CandidateError::redis("renew the claim to the rebuild", id))?;
        }
    }

    /// Rebuilds the shards of open activities that are behind what `MySQL` had counted 5 s before,
    /// and what could not be projected at its time; answers how many shards.
    pub async fn rebuild_lagging(&self) -> Result<usize, CandidateError> {
        if !self.redis().is_connected() {
            state::pool_drift(None);
            return Ok(0);
        }
        let nobody_knows = |_: &CandidateError| state::pool_drift(None);
        let mut rebuilt = self.rebuild_owed().await.inspect_err(nobody_knows)?;
        let Some(before) = self.look_again().await.inspect_err(nobody_knows)? else {
            return Ok(rebuilt);
        };
        let behind = self.find_all_lagging(before).await;
        let behind = behind.inspect_err(nobody_knows)?;
        state::pool_drift(Some(behind.values().map(BTreeSet::len).sum()));
        for (id, lagging) in behind {
            let activity = within_limit(activity::find(self.db(), id))
                .await
                .map_err(CandidateError::database("read the rules", id))?
                .ok_or(CandidateError::UnknownActivity(id))?;
            tracing::warn!(activity.id = %id, shard.count = lagging.len(), "rebuilding the pool");
            if self.rebuild_shards(&activity, &lagging).await?.is_some() {
                rebuilt += lagging.len();
            }
        }
        Ok(rebuilt)
    }

    /// The shards of each activity that Redis has less of than `MySQL` had.
    async fn find_all_lagging(
        &self,
        look: Look,
    ) -> Result<BTreeMap<ActivityId, BTreeSet<Shard>>, CandidateError> {
        let mut behind = BTreeMap::new();
        for (id, counts) in look.counts {
            let lagging = self
                .find_lagging(id, &counts)
                .await
                .map_err(CandidateError::redis("look at the pool", id))?;
            if !lagging.is_empty() {
                behind.insert(id, lagging);
            }
        }
        Ok(behind)
    }

    /// What this process could not project while Redis was away.
    async fn rebuild_owed(&self) -> Result<usize, CandidateError> {
        let owed = self.shared.owed_rebuilds.lock().clone();
        let mut rebuilt = 0;
        for id in owed {
            // Taken off first: what fails meanwhile is owed anew.
            self.shared.owed_rebuilds.lock().remove(&id);
            let outcome = self.rebuild(id).await;
            if let Ok(Some(_)) = outcome {
                rebuilt += usize::from(Shard::COUNT);
                continue;
            }
            // Another process may have read the rows before ours were there, so it stays owed.
            self.shared.owed_rebuilds.lock().insert(id);
            outcome?;
        }
        Ok(rebuilt)
    }

    /// Looks at the counts of all open activities; answers the look before it, if that is old
    /// enough.
    async fn look_again(&self) -> Result<Option<Look>, CandidateError> {
        let last = &self.shared.pool_look;
        let is_too_early = |look: &Look| look.taken_at.elapsed() < GRACE;
        if last.lock().as_ref().is_some_and(is_too_early) {
            return Ok(None);
        }
        let mut counts = BTreeMap::new();
        for id in self.list_open().await? {
            let counted = within_limit(store::read_pool_counts(self.db(), id))
                .await
                .map_err(CandidateError::database("count the pool", id))?;
            counts.insert(id, counted);
        }
        let look = Look {
            taken_at: Instant::now(),
            counts,
        };
        Ok(last.lock().replace(look))
    }

    async fn list_open(&self) -> Result<Vec<ActivityId>, CandidateError> {
        within_limit(activity::list_open_ids(self.db()))
            .await
            .map_err(|source| CandidateError::Scan {
                action: "list the open activities",
                source,
            })
    }

    async fn find_lagging(
        &self,
        id: ActivityId,
        counts: &BTreeMap<Shard, PoolCount>,
    ) -> Result<BTreeSet<Shard>, RedisError> {
        let keys = self.redis().keys();
        let pipeline = self.redis().next().pipeline();
        for shard in counts.keys() {
            let _: () = pipeline.zcard(keys.candidate(id, *shard)).await?;
            let _: () = pipeline.hget(keys.revision(id, *shard), "sum").await?;
            let _: () = pipeline.scard(keys.partake(id, *shard)).await?;
        }
        let shown: Vec<Option<u64>> = pipeline.all().await?;
        let lagging = counts
            .iter()
            .zip(shown.chunks_exact(3))
            .filter(|((_, counted), shown)| {
                shown[0].unwrap_or(0) < counted.pooled
                    || shown[1].unwrap_or(0) < counted.revision_sum
                    || shown[2].unwrap_or(0) < counted.joined()
            })
            .map(|((shard, _), _)| *shard);
        Ok(lagging.collect())
    }
}
