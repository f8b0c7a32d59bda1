//! Admission: a batch of the stream becomes rows, in one transaction, then the pool in Redis and
//! the events repeat what was committed.

mod batch;
mod commit;
mod events;
mod hold;
mod merge;
mod outcome;

pub(super) use batch::Message;
pub(super) use outcome::{SettledActivity, SettledUser};
