//! A Lua script behind a typed call.

use fred::{
    error::Error as RedisError,
    interfaces::LuaInterface,
    types::{FromValue, scripts::Script},
};

use super::Redis;

/// A Lua script whose text is sent only to a server that does not know it.
///
/// All keys of one call must lie in one slot of a cluster.
#[derive(Clone, Debug)]
pub struct LuaScript {
    script: Script,
    source: &'static str,
}

impl LuaScript {
    pub fn new(source: &'static str) -> Self {
        Self {
            script: Script::from_lua(source),
            source,
        }
    }

    /// Runs the script; the answer may be lost after it ran, so it must be safe to repeat.
    pub async fn run<T: FromValue>(
        &self,
        redis: &Redis,
        keys: Vec<String>,
        arguments: Vec<String>,
    ) -> Result<T, RedisError> {
        let client = redis.next();
        let known = self
            .script
            .evalsha(client, keys.clone(), arguments.clone())
            .await;
        match known {
            // Text and call in one: a script that is loaded first may be forgotten before it is
            // called, or be loaded into another server of the cluster.
            Err(error) if error.details().starts_with("NOSCRIPT") => {
                client.eval(self.source, keys, arguments).await
            }
            outcome => outcome,
        }
    }
}
