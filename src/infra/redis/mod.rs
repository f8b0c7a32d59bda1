//! The shared Redis client and the only builder of keys.

mod client;
mod keys;
mod script;

pub use client::{Redis, RedisOptions};
pub use keys::{Keys, Shard};
pub use script::LuaScript;
