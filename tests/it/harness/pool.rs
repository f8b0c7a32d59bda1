//! Whether the three places that know an activity's participants agree.

use std::collections::{BTreeMap, BTreeSet};

use fred::interfaces::{HashesInterface, KeysInterface, SetsInterface, SortedSetsInterface};
use luckybag::{
    activity::{self, Activity, Seed},
    candidate::Standing,
    infra::{mysql::sql, redis::Shard},
    kernel::UserId,
};
use sea_orm::FromQueryResult;

use super::{Bag, World};

/// The columns of `pool_count` and which participations each counts.
const COUNTED: [(&str, &str); 8] = [
    ("pooled", "status = 'joined' AND NOT is_trimmed"),
    ("trimmed", "status = 'joined' AND is_trimmed"),
    ("blocked", "status = 'rejected' AND reason = 'blocked'"),
    ("cooldown", "status = 'rejected' AND reason = 'cooldown'"),
    (
        "duplicate_device",
        "status = 'rejected' AND reason = 'duplicateDevice'",
    ),
    ("invalid", "status = 'rejected' AND reason = 'invalid'"),
    ("late", "status = 'late'"),
    // Not a condition: what is summed up.
    (
        "revision_sum",
        "IF(status = 'joined' AND NOT is_trimmed, revision, 0)",
    ),
];

#[derive(FromQueryResult)]
struct Row {
    user_id: u64,
    revision: u32,
}

impl World {
    /// The activity's row.
    pub(crate) async fn activity(&self, bag: &Bag) -> Activity {
        activity::find(&self.db, bag.id)
            .await
            .expect("MySQL answers")
            .expect("the activity exists")
    }

    /// The users whose participation has this status.
    pub(crate) async fn participants(&self, bag: &Bag, status: &str) -> BTreeSet<u64> {
        let rows = self
            .rows(bag, &format!("status = '{status}'"))
            .await
            .expect("MySQL answers");
        rows.into_iter().map(|row| row.user_id).collect()
    }

    async fn rows(&self, bag: &Bag, condition: &str) -> Result<Vec<Row>, String> {
        let query = format!(
            "SELECT user_id, revision FROM participation WHERE activity_id = ? AND {condition}"
        );
        Row::find_by_statement(sql(query, [bag.id.into()]))
            .all(&self.db)
            .await
            .map_err(|error| error.to_string())
    }

    /// `participation`, `pool_count` and the pool in Redis say the same of an activity; or why not.
    ///
    /// While joins are on their way Redis may lag behind: ask with `eventually`.
    pub(crate) async fn check_pool(&self, bag: &Bag) -> Result<(), String> {
        self.check_counts(bag).await?;
        self.check_shown(bag).await?;
        let activity = self.activity(bag).await;
        let mut expected: BTreeMap<Shard, BTreeMap<u64, u32>> = BTreeMap::new();
        for row in self
            .rows(bag, "status = 'joined' AND NOT is_trimmed")
            .await?
        {
            let shard = activity.shard_of(UserId(row.user_id));
            expected
                .entry(shard)
                .or_default()
                .insert(row.user_id, row.revision);
        }
        let seed = self.seed(bag.id).await;
        for shard in Shard::all() {
            let revisions = expected.remove(&shard).unwrap_or_default();
            self.check_shard(bag, shard, &seed, &revisions).await?;
        }
        Ok(())
    }

    /// `pool_count` is what counting the rows gives.
    async fn check_counts(&self, bag: &Bag) -> Result<(), String> {
        for (column, condition) in COUNTED {
            let counted = self
                .number(&format!(
                    "SELECT CAST(SUM({column}) AS SIGNED) FROM pool_count WHERE activity_id = {}",
                    bag.id
                ))
                .await;
            let in_rows = self
                .number(&format!(
                    "SELECT CAST(SUM({condition}) AS SIGNED) FROM participation \
                     WHERE activity_id = {}",
                    bag.id
                ))
                .await;
            if counted != in_rows {
                return Err(format!(
                    "pool_count.{column} is {counted}, the rows give {in_rows}"
                ));
            }
        }
        Ok(())
    }

    /// Redis counts whoever is in, trimmed or not.
    async fn check_shown(&self, bag: &Bag) -> Result<(), String> {
        let shown = self.shown_participants(bag).await;
        let joined = self.participants(bag, "joined").await;
        let wrong: Vec<&u64> = shown.symmetric_difference(&joined).collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("{wrong:?} are in one of the rows and Redis only"))
        }
    }

    /// Whoever Redis counts as a participant.
    pub(crate) async fn shown_participants(&self, bag: &Bag) -> BTreeSet<u64> {
        let mut shown = BTreeSet::new();
        for shard in Shard::all() {
            let key = self.keys().partake(bag.id, shard);
            let users: Vec<u64> = self.redis.smembers(key).await.expect("Redis answers");
            shown.extend(users);
        }
        shown
    }

    async fn check_shard(
        &self,
        bag: &Bag,
        shard: Shard,
        seed: &Seed,
        expected: &BTreeMap<u64, u32>,
    ) -> Result<(), String> {
        let failed = |error: fred::error::Error| error.to_string();
        let pool: Vec<(u64, f64)> = self
            .redis
            .zrange(
                self.keys().candidate(bag.id, shard),
                0,
                -1,
                None,
                false,
                None,
                true,
            )
            .await
            .map_err(failed)?;
        let mut revisions: BTreeMap<String, u32> = self
            .redis
            .hgetall(self.keys().revision(bag.id, shard))
            .await
            .map_err(failed)?;

        let sum = revisions.remove("sum").unwrap_or(0);
        let expected_sum: u32 = expected.values().sum();
        let members: BTreeSet<u64> = pool.iter().map(|(user, _)| *user).collect();
        let revisions: BTreeMap<u64, u32> = revisions
            .into_iter()
            .map(|(user, revision)| (user.parse().expect("a user id"), revision))
            .collect();
        if members != expected.keys().copied().collect() {
            return Err(format!("shard {shard} holds {members:?}, not {expected:?}"));
        }
        if revisions != *expected {
            return Err(format!(
                "shard {shard} is at {revisions:?}, not {expected:?}"
            ));
        }
        if sum != expected_sum {
            return Err(format!("shard {shard} sums to {sum}, not {expected_sum}"));
        }
        for (user, score) in pool {
            let own = Standing::of(seed, UserId(user)).score.value();
            if score.to_bits() != own.to_bits() && ![-1.0, -2.0, -3.0].contains(&score) {
                return Err(format!("user {user} has {score} instead of {own}"));
            }
        }
        Ok(())
    }

    /// What Redis keeps of a user's participation.
    pub(crate) async fn user_state(&self, bag: &Bag, user: u64) -> Option<serde_json::Value> {
        let key = self.keys().user_state(bag.id, UserId(user));
        let json: Option<String> = self.redis.get(key).await.expect("Redis answers");
        json.map(|json| serde_json::from_str(&json).expect("JSON"))
    }
}
