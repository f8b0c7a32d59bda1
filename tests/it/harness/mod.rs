//! What every integration test stands on: a world of its own on the shared servers, real processes
//! in it, and callers of their HTTP API.

mod amqp;
mod api;
mod bag;
mod command;
mod document;
mod events;
mod eventually;
mod health;
mod joining;
mod jwks_server;
mod keys;
mod pool;
mod presence;
mod process;
mod proxies;
mod queues;
mod redis_cluster;
mod redis_server;
mod temp_file;
mod truth;
mod world;

pub(crate) use amqp::{Amqp, Events};
pub(crate) use api::{Answer, Api, HOST};
pub(crate) use bag::{Bag, BagSpec};
pub(crate) use command::{Finished, finish, luckybag};
pub(crate) use document::{Bodies, DOCUMENT, check_head};
pub(crate) use events::{completion, presence};
pub(crate) use eventually::eventually;
pub(crate) use health::{metric, metrics_page, named_down, readyz};
pub(crate) use jwks_server::{Answering, JwksServer};
pub(crate) use keys::{IssuerKey, claims, jwks};
pub(crate) use process::{Process, nothing_happens_for};
pub(crate) use proxies::{Proxies, authority, through};
pub(crate) use redis_cluster::RedisCluster;
pub(crate) use redis_server::RedisServer;
pub(crate) use temp_file::TempFile;
pub(crate) use truth::{Win, keep_alive};
pub(crate) use world::{CONFIRM_TIMEOUT, World};
