//! What a committed transaction still owes: messages, projections and copies, kept in its own rows
//! until they are done.

mod claims;
mod copies;
mod entry;
mod event;
#[expect(
    clippy::module_inception,
    reason = "the type that gives the module its name"
)]
mod outbox;
mod relay;
mod store;

pub use copies::{CopyOut, CopyRelay};
pub use entry::{DrawMessage, Entry};
pub use event::{Event, EventKind};
pub use outbox::Outbox;
pub use relay::{Project, ProjectError, Relay};
