//! The three servers below us, each behind one module, the outbox between them, the answers kept for
//! calls that are repeated, and connections to other HTTP servers.

pub mod broker;
pub mod https;
pub mod idempotency;
pub mod mysql;
pub mod outbox;
pub mod redis;
