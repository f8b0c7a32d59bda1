//! luckybag runs giveaways in live rooms: viewers join by the hundred thousand, the winners are
//! drawn on the announced second, and anybody can check the result.
//!
//! `MySQL` is the truth, `RabbitMQ` is the promise not yet kept, Redis is the hot copy.
//! ARCHITECTURE.md has the map.

pub mod activity;
pub mod admin_copy;
pub mod app;
pub mod candidate;
pub mod draw;
pub mod http;
pub mod infra;
pub mod join;
pub mod kernel;
pub mod notifications;
pub mod settings;
pub mod sweeper;
pub mod telemetry;
pub mod winners;
