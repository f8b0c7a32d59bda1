//! A Lua script behind a typed call.

use fred::{
    error::Error as RedisError,
    types::{FromValue, scripts::Script},
};

use super::Redis;

/// A Lua script that is loaded into a server when the server does not know it yet.
///
/// All keys of one call must lie in one slot of a cluster.
#[derive(Clone, Debug)]
pub struct LuaScript {
    script: Script,
}

impl LuaScript {
    pub fn new(source: &str) -> Self {
        Self {
            script: Script::from_lua(source),
        }
    }

    /// Runs the script; the answer may be lost after it ran, so it must be safe to repeat.
    pub async fn run<T: FromValue>(
        &self,
        redis: &Redis,
        keys: Vec<String>,
        arguments: Vec<String>,
    ) -> Result<T, RedisError> {
        self.script
            .evalsha_with_reload(redis.next(), keys, arguments)
            .await
    }
}
