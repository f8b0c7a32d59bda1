//! The door for presence and task events: from HTTP and from two queues into the stream.
//!
//! `RabbitMQ` is the only thing that taking an event needs. What an event changes is decided by the
//! stream's consumer.

mod check;
mod consumer;
mod error;
mod forms;
mod http;
mod operations;
mod service;
mod split;

pub use consumer::IngressConsumer;
pub use error::IngressError;
pub use http::routes;
pub use service::{Feed, Ingress, IngressDeps};
