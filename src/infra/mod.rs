//! The three servers below us, each behind one module, the outbox between them, and the answers
//! kept for calls that are repeated.

pub mod broker;
pub mod idempotency;
pub mod mysql;
pub mod outbox;
pub mod redis;
