//! Brings Redis up to date with what `MySQL` committed. Everything here can be repeated, and lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use chrono::TimeDelta;
use fred::{
    error::{Error as RedisError, ErrorKind},
    interfaces::{KeysInterface, SetsInterface},
    types::{Expiration, SetOptions},
};
use futures_util::future::try_join_all;

use super::{CandidateService, SettledActivity, SettledUser, Verdict};
use crate::{
    activity::Activity,
    infra::redis::{LuaScript, Shard},
    kernel::{Timestamp, UserId},
    telemetry::metrics,
};

/// How long a committed batch is held for Redis; after that the pool is rebuilt later.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(200);

/// How long the traces of a join are kept.
const JOIN_TRACE_SECS: i64 = 1_800;
const DAY_SECS: i64 = 86_400;
const POOL_LIFE: TimeDelta = TimeDelta::days(7);

pub(super) struct Scripts {
    project: LuaScript,
    reset: LuaScript,
    state: LuaScript,
    pub(super) forget: LuaScript,
    pub(super) renew_claim: LuaScript,
    pub(super) select: LuaScript,
    pub(super) count: LuaScript,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            project: LuaScript::new(include_str!("project.lua")),
            reset: LuaScript::new(include_str!("reset.lua")),
            state: LuaScript::new(include_str!("state.lua")),
            forget: LuaScript::new(include_str!("forget.lua")),
            renew_claim: LuaScript::new(include_str!("renew_claim.lua")),
            select: LuaScript::new(include_str!("select.lua")),
            count: LuaScript::new(include_str!("count.lua")),
        }
    }
}

impl CandidateService {
    /// Shows what was committed. When Redis does not take it in time, the activities are noted for
    /// a rebuild: a draw notices by itself that the pool is behind.
    pub(super) async fn project(&self, settled: impl Iterator<Item = &SettledActivity> + Clone) {
        let outage = &self.shared.outage;
        if outage.is_resting(|| self.redis().is_connected()) {
            self.owe_rebuilds(settled);
            return;
        }
        match tokio::time::timeout(PATIENCE, self.project_repeatedly(settled.clone())).await {
            Ok(()) => outage.end(),
            Err(elapsed) => {
                outage.begin(&elapsed);
                self.owe_rebuilds(settled);
            }
        }
    }

    fn owe_rebuilds<'a>(&self, settled: impl Iterator<Item = &'a SettledActivity>) {
        let mut owed = self.shared.owed_rebuilds.lock();
        for settled in settled {
            owed.insert(settled.activity.id);
            metrics::projections_skipped(1);
        }
    }

    async fn project_repeatedly(&self, settled: impl Iterator<Item = &SettledActivity> + Clone) {
        loop {
            let all = settled
                .clone()
                .map(|settled| self.project_activity(settled));
            match try_join_all(all).await {
                Ok(_) => return,
                Err(error) => tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "projection failed, trying again"
                ),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Shows the pool entries, the summaries and the traces of joins.
    pub(super) async fn project_activity(
        &self,
        settled: &SettledActivity,
    ) -> Result<(), RedisError> {
        tokio::try_join!(
            self.project_pool(settled),
            self.add_partakers(settled),
            self.write_states(settled),
        )
        .map(|_| ())
    }

    async fn project_pool(&self, settled: &SettledActivity) -> Result<(), RedisError> {
        let activity = &settled.activity;
        let mut shards: BTreeMap<Shard, Vec<String>> = BTreeMap::new();
        for (user_id, user) in &settled.users {
            if let Some(score) = &user.pool_score {
                let revision = user.state.revision.to_string();
                shards
                    .entry(activity.shard_of(*user_id))
                    .or_default()
                    .extend([user_id.to_string(), revision, score.clone()]);
            }
        }
        let lapses_at = pool_lapses_at(activity).timestamp_millis().to_string();
        let project = &self.shared.scripts.project;
        let calls = shards.into_iter().map(|(shard, entries)| {
            let arguments = std::iter::once(lapses_at.clone()).chain(entries).collect();
            project.run::<()>(self.redis(), self.pool_keys(activity, shard), arguments)
        });
        try_join_all(calls).await.map(|_| ())
    }

    /// The two keys of a shard of the pool, in the order that the scripts take them.
    pub(super) fn pool_keys(&self, activity: &Activity, shard: Shard) -> Vec<String> {
        let keys = self.redis().keys();
        vec![
            keys.candidate(activity.id, shard),
            keys.revision(activity.id, shard),
        ]
    }

    async fn add_partakers(&self, settled: &SettledActivity) -> Result<(), RedisError> {
        let activity = &settled.activity;
        let mut shards: BTreeMap<Shard, Vec<String>> = BTreeMap::new();
        for (user_id, user) in &settled.users {
            if user.state.verdict == Verdict::Joined {
                let shard = activity.shard_of(*user_id);
                shards.entry(shard).or_default().push(user_id.to_string());
            }
        }
        let lapses_at = pool_lapses_at(activity).timestamp_millis();
        let pipeline = self.redis().next().pipeline();
        for (shard, users) in shards {
            let key = self.redis().keys().partake(activity.id, shard);
            let _: () = pipeline.sadd(&key, users).await?;
            let _: () = pipeline.pexpire_at(&key, lapses_at, None).await?;
        }
        pipeline.all::<()>().await
    }

    /// A summary that is new is only written where there is none; one that changed, over an older.
    async fn write_states(&self, settled: &SettledActivity) -> Result<(), RedisError> {
        let keys = self.redis().keys();
        let id = settled.activity.id;
        let life_secs = self.state_life_secs(&settled.activity);
        let pipeline = self.redis().next().pipeline();
        for (user_id, user) in &settled.users {
            if user.is_new {
                let life = Some(Expiration::EX(life_secs));
                let key = keys.user_state(id, *user_id);
                let json = user.state.to_json();
                let absent = Some(SetOptions::NX);
                let _: () = pipeline.set(key, json, life, absent, false).await?;
            }
            if user.has_join {
                let life = Some(Expiration::EX(JOIN_TRACE_SECS));
                let done = keys.join_done(id, *user_id);
                let _: () = pipeline.set(done, "1", life, None, false).await?;
                let _: () = pipeline.del(keys.join_request(id, *user_id)).await?;
            }
        }
        pipeline.all::<()>().await?;

        let changed = settled.users.iter().filter(|(_, user)| !user.is_new);
        let calls = changed.map(|(user_id, user)| self.write_state(settled, *user_id, user));
        try_join_all(calls).await.map(|_| ())
    }

    /// Writes one summary over an older one.
    pub(super) async fn write_state(
        &self,
        settled: &SettledActivity,
        user_id: UserId,
        user: &SettledUser,
    ) -> Result<(), RedisError> {
        let key = self.redis().keys().user_state(settled.activity.id, user_id);
        let arguments = vec![
            user.state.revision.to_string(),
            user.state.to_json(),
            self.state_life_secs(&settled.activity).to_string(),
        ];
        let state = &self.shared.scripts.state;
        state.run::<()>(self.redis(), vec![key], arguments).await
    }

    /// A day, or to a day after drawAt if that is later.
    fn state_life_secs(&self, activity: &Activity) -> i64 {
        let now = self.shared.deps.clock.estimate().map(|now| now.at);
        let to_draw = activity
            .draw_at
            .zip(now)
            .map(|(draw_at, now)| draw_at - now);
        DAY_SECS + to_draw.map_or(0, |to_draw| to_draw.num_seconds().max(0))
    }

    /// Empties shards of a pool, and forgets who was counted in them.
    pub(super) async fn reset_shards(
        &self,
        activity: &Activity,
        shards: &BTreeSet<Shard>,
    ) -> Result<(), RedisError> {
        let partakers = self.redis().next().pipeline();
        for shard in shards {
            let key = self.redis().keys().partake(activity.id, *shard);
            let _: () = partakers.unlink(key).await?;
        }
        partakers.all::<()>().await?;
        let reset = &self.shared.scripts.reset;
        let calls = shards.iter().map(|shard| {
            reset.run::<()>(self.redis(), self.pool_keys(activity, *shard), Vec::new())
        });
        try_join_all(calls).await.map(|_| ())
    }
}

/// When what Redis holds of an activity's participants lapses.
pub(super) fn pool_lapses_at(activity: &Activity) -> Timestamp {
    activity.draw_at.unwrap_or(activity.created_at) + POOL_LIFE
}

/// For calls that were bounded by a time-out of our own.
pub(super) fn timed_out() -> RedisError {
    RedisError::new(ErrorKind::Timeout, "redis took too long")
}
