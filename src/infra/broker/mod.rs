//! `RabbitMQ`: the topology as one table, a publisher that knows what became of each message, and
//! consumers that settle what their handlers decide.

mod client;
mod connection;
mod consumer;
mod dead_letters;
mod error;
mod message;
mod publisher;
mod topology;

pub use client::{Broker, BrokerOptions, QueueState};
pub use consumer::{Handler, OrderedHandler};
pub use dead_letters::DeadLetter;
pub use error::{BrokerError, PublishError};
pub use message::{Delivery, Outgoing, Verdict};
pub use topology::{DelayRung, Queue, Target, Topology};
