//! The three servers below us, each behind one module, and the outbox between them.

pub mod broker;
pub mod mysql;
pub mod outbox;
pub mod redis;
