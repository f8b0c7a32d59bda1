//! What a committed transaction still owes: messages and projections, kept in its own rows until
//! they are done.

mod entry;
mod event;
mod relay;
mod store;

pub use entry::{DrawMessage, Entry};
pub use event::{Event, EventKind};
pub use relay::{Outbox, Project, ProjectError, Relay};
