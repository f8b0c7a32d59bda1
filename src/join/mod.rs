//! Accepting joins over HTTP: what a join has to say, the message it travels in, and what a viewer
//! may see of its own participation.
//!
//! `RabbitMQ` is the only thing that accepting needs. What an accepted join ends as is decided by
//! [`crate::candidate`].

mod batcher;
mod body;
mod error;
mod http;
mod marks;
mod me;
mod operations;
mod queue;
mod service;

pub use body::JoinBody;
pub use error::JoinError;
pub use http::routes;
pub use me::{Me, ParticipationView};
pub use service::{JoinDeps, JoinService, JoinTasks, NamedTask};

#[cfg(test)]
mod tests;
