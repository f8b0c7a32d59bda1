//! The service's scripts in a real Redis, as a function of what the keys hold.

use std::collections::HashMap;

use fred::{
    interfaces::{HashesInterface, KeysInterface, SortedSetsInterface},
    types::{Expiration, SetOptions},
};
use luckybag::{
    infra::redis::{LuaScript, Shard},
    kernel::{ActivityId, UserId},
};

use super::mysql::{Shot, USER};
use crate::harness::World;

const BAG: ActivityId = ActivityId(77);

/// Another user of the same shard, who is in every batch and never changes.
const BYSTANDER: UserId = UserId(23 + 16);
pub(super) const BYSTANDERS_REVISION: u32 = 3;

/// What Redis holds of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Shown {
    pub(super) score: Option<String>,
    pub(super) revision: Option<u32>,
    /// Together with the bystander's.
    pub(super) sum: Option<u32>,
    pub(super) summary: Option<String>,
    pub(super) is_done: bool,
    /// Whether the bystander is in the pool.
    has_bystander: bool,
}

/// One call, as a consumer or a rebuild makes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Call {
    /// The pool entry of a shot.
    Pool(Shot),
    /// The summary and the trace of the join.
    State(Shot),
    /// Empties the shard.
    Reset,
}

/// The scripts. What a call makes of what is there is asked of Redis once and then known: it
/// depends on nothing but the keys, which hold exactly that, and the arguments.
pub(super) struct Scripts<'a> {
    world: &'a World,
    project: LuaScript,
    reset: LuaScript,
    state: LuaScript,
    known: HashMap<(Shown, Call), Shown>,
}

impl<'a> Scripts<'a> {
    pub(super) fn of(world: &'a World) -> Self {
        Self {
            world,
            project: LuaScript::new(include_str!("../../../src/candidate/project.lua")),
            reset: LuaScript::new(include_str!("../../../src/candidate/reset.lua")),
            state: LuaScript::new(include_str!("../../../src/candidate/state.lua")),
            known: HashMap::new(),
        }
    }

    /// How many different calls were made.
    pub(super) fn call_count(&self) -> usize {
        self.known.len()
    }

    /// What Redis holds after `call`, when it held `shown` before.
    pub(super) async fn after(&mut self, shown: &Shown, call: &Call) -> Shown {
        let question = (shown.clone(), call.clone());
        if let Some(known) = self.known.get(&question) {
            return known.clone();
        }
        self.set_up(shown).await;
        self.call(call).await;
        let after = self.read().await;
        self.known.insert(question, after.clone());
        after
    }

    fn pool_keys(&self) -> [String; 2] {
        let (keys, shard) = (self.world.keys(), Shard::of(USER.0));
        [keys.candidate(BAG, shard), keys.revision(BAG, shard)]
    }

    fn user_keys(&self) -> [String; 2] {
        let keys = self.world.keys();
        [keys.user_state(BAG, USER), keys.join_done(BAG, USER)]
    }

    async fn set_up(&self, shown: &Shown) {
        let redis = &self.world.redis;
        let ([pool, revisions], [summary, done]) = (self.pool_keys(), self.user_keys());
        let all = vec![
            pool.clone(),
            revisions.clone(),
            summary.clone(),
            done.clone(),
        ];
        let _: i64 = redis.unlink(all).await.expect("emptied");
        let mut scores: Vec<(f64, String)> = Vec::new();
        let mut fields: Vec<(String, u32)> = Vec::new();
        if let Some(score) = &shown.score {
            scores.push((score.parse().expect("a number"), USER.to_string()));
        }
        fields.extend(shown.revision.map(|revision| (USER.to_string(), revision)));
        fields.extend(shown.sum.map(|sum| ("sum".to_owned(), sum)));
        if shown.has_bystander {
            scores.push((0.5, BYSTANDER.to_string()));
            fields.push((BYSTANDER.to_string(), BYSTANDERS_REVISION));
        }
        if !scores.is_empty() {
            let _: i64 = redis
                .zadd(&pool, None, None, false, false, scores)
                .await
                .expect("set up");
        }
        if !fields.is_empty() {
            let _: i64 = redis.hset(&revisions, fields).await.expect("set up");
        }
        let texts = [
            (summary, shown.summary.clone()),
            (done, shown.is_done.then(|| "1".into())),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                let _: () = redis
                    .set(key, text, None, None, false)
                    .await
                    .expect("set up");
            }
        }
    }

    async fn call(&self, call: &Call) {
        let redis = &self.world.redis;
        let ran = match call {
            Call::Reset => {
                let keys = self.pool_keys().to_vec();
                self.reset.run::<()>(redis, keys, vec![]).await
            }
            Call::Pool(shot) => {
                let score = shot.score.clone().expect("only of who is in the pool");
                let lapses_at = "4102444800000".to_owned();
                let arguments = [
                    lapses_at,
                    USER.to_string(),
                    shot.revision.to_string(),
                    score,
                    BYSTANDER.to_string(),
                    BYSTANDERS_REVISION.to_string(),
                    "0.5".to_owned(),
                ];
                let keys = self.pool_keys().to_vec();
                self.project
                    .run::<()>(redis, keys, arguments.to_vec())
                    .await
            }
            Call::State(shot) => self.write_state(shot).await,
        };
        ran.expect("the script runs");
    }

    /// A summary that is new only where there is none, a changed one over an older.
    async fn write_state(&self, shot: &Shot) -> Result<(), fred::error::Error> {
        let redis = &self.world.redis;
        let [summary, done] = self.user_keys();
        let text = shot.summary.clone();
        let life = || Some(Expiration::EX(1_800));
        if shot.has_join {
            let _: () = redis.set(done, "1", life(), None, false).await?;
        }
        if shot.is_new {
            let absent = Some(SetOptions::NX);
            let _: Option<String> = redis.set(summary, text, life(), absent, false).await?;
            return Ok(());
        }
        let arguments = vec![shot.revision.to_string(), text, "1800".to_owned()];
        self.state.run::<()>(redis, vec![summary], arguments).await
    }

    async fn read(&self) -> Shown {
        let redis = &self.world.redis;
        let ([pool, revisions], [summary, done]) = (self.pool_keys(), self.user_keys());
        let failed = "Redis answers";
        let scores: Vec<(u64, f64)> = redis
            .zrange(pool, 0, -1, None, false, None, true)
            .await
            .expect(failed);
        let score_of = |user: UserId| {
            let mut scores = scores.iter();
            scores
                .find(|(member, _)| *member == user.0)
                .map(|(_, score)| *score)
        };
        let revisions: HashMap<String, u32> = redis.hgetall(revisions).await.expect(failed);
        let bystander = revisions.get(&BYSTANDER.to_string()).copied();
        assert_eq!(bystander, score_of(BYSTANDER).map(|_| BYSTANDERS_REVISION));
        let done: Option<String> = redis.get(done).await.expect(failed);
        Shown {
            score: score_of(USER).map(|score| score.to_string()),
            revision: revisions.get(&USER.to_string()).copied(),
            sum: revisions.get("sum").copied(),
            summary: redis.get(summary).await.expect(failed),
            is_done: done.is_some(),
            has_bystander: bystander.is_some(),
        }
    }
}
