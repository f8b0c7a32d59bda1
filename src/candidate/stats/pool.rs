//! Counting in the pool in Redis, shard by shard.

use std::{collections::BTreeMap, time::Duration};

use fred::error::Error as RedisError;
use futures_util::future::try_join_all;

use super::model::Split;
use crate::{
    activity::Activity,
    candidate::{CandidateError, CandidateService, PoolCount},
    infra::redis::Shard,
};

/// How often a pool that is behind is looked at again, since a batch may be on its way to it.
const LOOKS: u32 = 6;
const PAUSE: Duration = Duration::from_millis(50);

/// What a shard of the pool holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShardCount {
    revision_sum: u64,
    size: u64,
    eligible: u64,
    flagged: [u64; 3],
}

impl ShardCount {
    fn read(answer: [u64; 6]) -> Self {
        let [revision_sum, size, eligible, absent, unfinished, both] = answer;
        Self {
            revision_sum,
            size,
            eligible,
            flagged: [absent, unfinished, both],
        }
    }

    /// Whether it is what `MySQL` counted, score for score: Redis is never ahead of it.
    fn is_whole(&self, counted: PoolCount) -> bool {
        (self.size, self.revision_sum) == (counted.pooled, counted.revision_sum)
            && self.eligible + self.flagged.iter().sum::<u64>() == self.size
    }
}

impl CandidateService {
    /// `None` where the pool does not say it all, or not yet.
    pub(super) async fn count_in_pool(
        &self,
        activity: &Activity,
    ) -> Result<Option<(Split, PoolCount)>, CandidateError> {
        let mut whole = BTreeMap::new();
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let counts = self.read_counts(activity.id).await?;
            if counts.values().any(|count| count.trimmed > 0) {
                return Ok(None);
            }
            let missing: Vec<Shard> = Shard::all()
                .filter(|shard| !whole.contains_key(shard))
                .collect();
            let looked = self.ask_redis(self.look_at_shards(activity, &missing));
            let Ok(seen) = looked.await else {
                return Ok(None);
            };
            for (shard, seen) in seen {
                let counted = counts.get(&shard).copied().unwrap_or_default();
                if seen.is_whole(counted) {
                    whole.insert(shard, (seen, counted));
                }
            }
            if whole.len() == usize::from(Shard::COUNT) {
                return Ok(Some(sum(activity, whole.into_values())));
            }
        }
        Ok(None)
    }

    async fn look_at_shards(
        &self,
        activity: &Activity,
        shards: &[Shard],
    ) -> Result<Vec<(Shard, ShardCount)>, RedisError> {
        let count = &self.shared.scripts.count;
        let looks = shards.iter().map(|shard| async move {
            let keys = self.pool_keys(activity, *shard);
            let answer: Vec<u64> = count.run(self.redis(), keys, Vec::new()).await?;
            let answer = answer.try_into().map_err(|_| {
                let kind = fred::error::ErrorKind::Parse;
                RedisError::new(kind, "a shard is counted in six numbers")
            })?;
            Ok((*shard, ShardCount::read(answer)))
        });
        try_join_all(looks).await
    }
}

fn sum(
    activity: &Activity,
    shards: impl Iterator<Item = (ShardCount, PoolCount)>,
) -> (Split, PoolCount) {
    let mut split = Split::default();
    let mut total = PoolCount::default();
    for (seen, counted) in shards {
        split += Split::of_flags(activity.presence_rule, seen.eligible, seen.flagged);
        total += counted;
    }
    (split, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_whole_only_with_all_members_all_changes_and_known_flags() {
        let counted = PoolCount {
            pooled: 10,
            revision_sum: 17,
            ..PoolCount::default()
        };
        let is_whole = |answer| ShardCount::read(answer).is_whole(counted);

        assert!(is_whole([17, 10, 4, 3, 2, 1]));
        assert!(!is_whole([16, 10, 4, 3, 2, 1]), "a change is missing");
        assert!(!is_whole([17, 9, 3, 3, 2, 1]), "a member is missing");
        assert!(!is_whole([17, 10, 4, 3, 2, 0]), "one has an unknown flag");
    }
}
