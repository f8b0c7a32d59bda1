//! The shared Redis client and the only builder of keys.

pub mod aside;
mod client;
mod keys;
mod script;

pub use client::{Redis, RedisOptions};
pub use keys::{Keys, Shard};
pub use script::LuaScript;
