//! The fast path: selection from the pool in Redis. It counts only where it can be shown to be
//! what the rows in `MySQL` say; any doubt leads to the exact path.

use std::{collections::BTreeMap, time::Duration};

use fred::types::Value;
use futures_util::future::try_join_all;

use super::{
    BestOf, CandidateError, CandidateService, Eligibility, PoolCount, Rules, Selection,
    SelectionPath, Standing, UserRows,
    exact::rules_of,
    projection::timed_out,
    store::{self, Lock},
};
use crate::{activity::Activity, infra::redis::Shard, kernel::UserId};

/// How long all reads of Redis may take together.
const PATIENCE: Duration = Duration::from_secs(2);

/// What one shard of the pool holds.
#[derive(Clone, Debug, Default, PartialEq)]
struct ShardView {
    revision_sum: u64,
    size: u64,
    eligible_count: u64,
    /// Best first, one more than were asked for if there are so many.
    best: Vec<(UserId, f64)>,
}

/// Why the pool alone does not decide.
#[derive(Debug, thiserror::Error)]
enum Doubt {
    #[error("redis cannot be read")]
    Unreadable(#[from] fred::error::Error),
    #[error("nobody is in the pool")]
    Empty,
    #[error("a shard is not what MySQL counted")]
    Behind,
    #[error("equal scores at the end of what a shard showed")]
    Tie,
    #[error("a trimmed participant may be better than the last one picked")]
    BelowFloor,
    #[error("a score is not the user's")]
    WrongScore,
    #[error("the rows of a picked user do not say eligible")]
    NotEligible,
}

/// A doubt, or a failure of `MySQL` that the exact path would meet too.
#[derive(Debug, thiserror::Error)]
enum NotFast {
    #[error(transparent)]
    Doubt(#[from] Doubt),
    #[error(transparent)]
    Failed(#[from] CandidateError),
}

impl CandidateService {
    /// The best `count` eligible participants: from the pool if it can be relied on, else from the
    /// rows in `MySQL`. Call it after the freeze, when nothing changes any more.
    pub async fn select(
        &self,
        activity: &Activity,
        count: u32,
    ) -> Result<Selection, CandidateError> {
        match self.select_fast(activity, count).await {
            Ok(selection) => Ok(selection),
            Err(NotFast::Failed(error)) => Err(error),
            Err(NotFast::Doubt(doubt)) => {
                tracing::info!(
                    activity.id = %activity.id,
                    reason = &doubt as &dyn std::error::Error,
                    "selecting from MySQL, the pool alone does not decide"
                );
                self.select_exact(activity, count).await
            }
        }
    }

    async fn select_fast(&self, activity: &Activity, count: u32) -> Result<Selection, NotFast> {
        let rules = rules_of(activity)?;
        let counts = store::read_pool_counts(self.db(), activity.id)
            .await
            .map_err(CandidateError::database("count the pool", activity.id))?;
        if counts.values().all(|count| count.pooled == 0) {
            // Reading the few rows that there may be costs nothing.
            return Err(Doubt::Empty.into());
        }
        let views = self.look_at_pool(activity, count).await?;
        let ranked = pick(&views, &counts, &rules, count)?;
        self.check_rows(activity, &rules, &ranked).await?;

        let in_pool: u64 = views.values().map(|view| view.eligible_count).sum();
        let has_trimmed = counts.values().any(|count| count.trimmed > 0);
        let trimmed = if has_trimmed {
            self.count_eligible_trimmed(activity, &rules).await?
        } else {
            0
        };
        Ok(Selection {
            ranked,
            joined_count: counts.values().map(PoolCount::joined).sum(),
            eligible_count: in_pool + trimmed,
            path: SelectionPath::Fast,
        })
    }

    async fn look_at_pool(
        &self,
        activity: &Activity,
        count: u32,
    ) -> Result<BTreeMap<Shard, ShardView>, Doubt> {
        let arguments = vec![(u64::from(count) + 1).to_string()];
        let select = &self.shared.scripts.select;
        let looks = Shard::all().map(|shard| {
            let keys = self.pool_keys(activity, shard);
            let arguments = arguments.clone();
            async move {
                let answer: Vec<Value> = select.run(self.redis(), keys, arguments).await?;
                Ok::<_, Doubt>((shard, ShardView::read(answer)?))
            }
        });
        if !self.redis().is_connected() {
            return Err(timed_out().into());
        }
        tokio::time::timeout(PATIENCE, try_join_all(looks))
            .await
            .map_err(|_| Doubt::Unreadable(timed_out()))?
            .map(|views| views.into_iter().collect())
    }

    /// Each picked user's rows must say what the pool said.
    async fn check_rows(
        &self,
        activity: &Activity,
        rules: &Rules,
        ranked: &[Standing],
    ) -> Result<(), NotFast> {
        let users: Vec<UserId> = ranked.iter().map(|standing| standing.user_id).collect();
        let rows = store::read_rows(self.db(), activity.id, &users, Lock::None)
            .await
            .map_err(CandidateError::database(
                "check the picked users",
                activity.id,
            ))?;
        let is_eligible = |rows: &UserRows| rules.eligibility(rows) == Some(Eligibility::Eligible);
        if rows.values().all(is_eligible) {
            Ok(())
        } else {
            Err(Doubt::NotEligible.into())
        }
    }
}

impl ShardView {
    fn read(answer: Vec<Value>) -> Result<Self, fred::error::Error> {
        let mut parts = answer.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Null);
        let revision_sum = next().convert()?;
        let size = next().convert()?;
        let eligible_count = next().convert()?;
        let texts: Vec<String> = next().convert()?;
        let best = texts.chunks_exact(2).map(|pair| {
            let user_id: u64 = parse(&pair[0])?;
            Ok((UserId(user_id), parse(&pair[1])?))
        });
        Ok(Self {
            revision_sum,
            size,
            eligible_count,
            best: best.collect::<Result<_, fred::error::Error>>()?,
        })
    }
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, fred::error::Error> {
    text.parse().map_err(|_| {
        let kind = fred::error::ErrorKind::Parse;
        fred::error::Error::new(kind, "a pool holds ids and scores only")
    })
}

/// Merges the shards. Shows that no other participant can be better than those picked, provided
/// that the rows of those picked say what the pool says.
fn pick(
    views: &BTreeMap<Shard, ShardView>,
    counts: &BTreeMap<Shard, PoolCount>,
    rules: &Rules,
    count: u32,
) -> Result<Vec<Standing>, Doubt> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut best = BestOf::new(count);
    for (shard, view) in views {
        let counted = counts.get(shard).copied().unwrap_or_default();
        // Redis is never ahead of MySQL, so equal sums mean that every score is current.
        if (view.size, view.revision_sum) != (counted.pooled, counted.revision_sum) {
            return Err(Doubt::Behind);
        }
        if is_tied_at(&view.best, count) {
            return Err(Doubt::Tie);
        }
        for (user_id, score) in view.best.iter().take(count) {
            let standing = Standing::of(&rules.seed, *user_id);
            if standing.score.value().to_bits() != score.to_bits() {
                return Err(Doubt::WrongScore);
            }
            best.push(standing);
        }
    }
    let ranked = best.into_ranked();

    let has_trimmed = counts.values().any(|count| count.trimmed > 0);
    let reaches_floor = |last: &Standing| last.score.value() >= rules.trim_floor;
    let is_full = ranked.len() == count && ranked.last().is_none_or(reaches_floor);
    if has_trimmed && !is_full {
        return Err(Doubt::BelowFloor);
    }
    Ok(ranked)
}

/// Redis orders equal scores by member text, so what it left out there could rank higher.
fn is_tied_at(best: &[(UserId, f64)], count: usize) -> bool {
    let Some(first_left_out) = best.get(count) else {
        return false;
    };
    let last_shown = count.checked_sub(1).and_then(|last| best.get(last));
    last_shown.is_some_and(|last| last.1.to_bits() == first_left_out.1.to_bits())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        activity::{PresenceRule, Seed},
        kernel::Timestamp,
    };

    fn rules() -> Rules {
        Rules {
            seed: Seed::new([7; 32]),
            draw_at: Timestamp::UNIX_EPOCH,
            presence_rule: PresenceRule::Pause,
            tasks: BTreeSet::new(),
            one_entry_per_device: false,
            trim_floor: 0.9,
        }
    }

    struct Pool {
        views: BTreeMap<Shard, ShardView>,
        counts: BTreeMap<Shard, PoolCount>,
    }

    /// A pool whose shards show `count` + 1 of their users, as the script does.
    fn pool(users: impl Iterator<Item = u64>, count: usize) -> Pool {
        let mut shards: BTreeMap<Shard, Vec<Standing>> = BTreeMap::new();
        for user in users {
            let standing = Standing::of(&rules().seed, UserId(user));
            shards.entry(Shard::of(user)).or_default().push(standing);
        }
        let mut pool = Pool {
            views: Shard::all()
                .map(|shard| (shard, ShardView::default()))
                .collect(),
            counts: BTreeMap::new(),
        };
        for (shard, mut standings) in shards {
            standings.sort_by(Standing::rank);
            let size = standings.len() as u64;
            let shown = standings.iter().take(count + 1);
            let view = ShardView {
                revision_sum: size,
                size,
                eligible_count: size,
                best: shown
                    .map(|best| (best.user_id, best.score.value()))
                    .collect(),
            };
            pool.views.insert(shard, view);
            let counted = PoolCount {
                pooled: size,
                revision_sum: size,
                ..PoolCount::default()
            };
            pool.counts.insert(shard, counted);
        }
        pool
    }

    fn best_of(users: impl Iterator<Item = u64>, count: usize) -> Vec<Standing> {
        let mut all: Vec<_> = users
            .map(|user| Standing::of(&rules().seed, UserId(user)))
            .collect();
        all.sort_by(Standing::rank);
        all.truncate(count);
        all
    }

    #[test]
    fn the_shards_together_give_the_best_of_all() {
        for count in [0, 1, 3, 50, 600] {
            let pool = pool(1..500, count);
            let picked = pick(
                &pool.views,
                &pool.counts,
                &rules(),
                u32::try_from(count).unwrap(),
            );

            assert_eq!(picked.unwrap(), best_of(1..500, count), "{count}");
        }
    }

    #[test]
    fn a_shard_that_is_behind_is_not_relied_on() {
        let behind = |change: fn(&mut ShardView)| {
            let mut pool = pool(1..100, 3);
            pool.views.values_mut().for_each(change);
            pick(&pool.views, &pool.counts, &rules(), 3)
        };

        assert!(matches!(behind(|view| view.size -= 1), Err(Doubt::Behind)));
        assert!(matches!(
            behind(|view| view.revision_sum -= 1),
            Err(Doubt::Behind)
        ));
        assert!(matches!(
            behind(|view| view.best[0].1 = 0.999),
            Err(Doubt::WrongScore)
        ));
        let mut emptied = pool(1..100, 3);
        for view in emptied.views.values_mut() {
            *view = ShardView::default();
        }
        assert!(matches!(
            pick(&emptied.views, &emptied.counts, &rules(), 3),
            Err(Doubt::Behind)
        ));
    }

    #[test]
    fn with_trimmed_participants_all_picked_must_reach_the_floor() {
        let mut pool = pool(1..500, 100);
        pool.counts.values_mut().for_each(|count| count.trimmed = 1);

        assert!(pick(&pool.views, &pool.counts, &rules(), 10).is_ok());
        assert!(matches!(
            pick(&pool.views, &pool.counts, &rules(), 100),
            Err(Doubt::BelowFloor)
        ));
    }

    #[test]
    fn too_few_above_the_floor_are_not_enough_once_some_are_trimmed() {
        let floor = |standing: &Standing| standing.score.value() >= rules().trim_floor;
        let above: Vec<u64> = best_of(1..500, 500)
            .into_iter()
            .filter(floor)
            .map(|standing| standing.user_id.0)
            .collect();
        let mut pool = pool(above.iter().copied(), 500);
        pool.counts.values_mut().for_each(|count| count.trimmed = 1);

        assert!(matches!(
            pick(&pool.views, &pool.counts, &rules(), 500),
            Err(Doubt::BelowFloor)
        ));
    }

    #[test]
    fn a_tie_counts_only_where_a_shard_was_cut() {
        let best = [(UserId(1), 0.9), (UserId(2), 0.5), (UserId(3), 0.5)];

        assert!(is_tied_at(&best, 2));
        assert!(!is_tied_at(&best, 1));
        assert!(!is_tied_at(&best, 3));
        assert!(!is_tied_at(&best, 0));
    }
}
