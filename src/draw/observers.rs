//! `lb:draw:lock`: shows observers who draws. Nothing here decides anything or holds a draw up.

use fred::{interfaces::KeysInterface, types::Expiration};
use uuid::Uuid;

use super::lease::DrawLease;
use crate::infra::redis::{LuaScript, Redis};

/// Sets and removes the mark of a running draw.
pub(super) struct ObserverMark {
    redis: Redis,
    /// Names this process.
    process: Uuid,
    release: LuaScript,
}

impl ObserverMark {
    const LIFE_SECS: i64 = 600;

    pub(super) fn new(redis: Redis) -> Self {
        Self {
            redis,
            process: Uuid::new_v4(),
            release: LuaScript::new(include_str!("release_lock.lua")),
        }
    }

    fn holder(&self, lease: &DrawLease) -> String {
        format!("{}:{}", self.process, lease.token())
    }

    /// Shows that this process draws.
    pub(super) async fn set(&self, lease: &DrawLease) {
        let key = self.redis.keys().draw_lock(lease.activity_id());
        let expire = Some(Expiration::EX(Self::LIFE_SECS));
        let set = self
            .redis
            .set::<(), _, _>(key, self.holder(lease), expire, None, false);
        report(set.await);
    }

    /// Takes the mark away, unless somebody else has set another one.
    pub(super) async fn clear(&self, lease: &DrawLease) {
        let keys = vec![self.redis.keys().draw_lock(lease.activity_id())];
        let arguments = vec![self.holder(lease)];
        report(self.release.run::<i64>(&self.redis, keys, arguments).await);
    }
}

fn report<T>(outcome: Result<T, fred::error::Error>) {
    if let Err(error) = outcome {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "the mark of a draw could not be changed"
        );
    }
}
