//! The copy of activities and win records in the admin database: an observer, which decides nothing
//! and holds nobody up.

mod copier;
mod queue;
mod store;

pub use copier::AdminCopier;
pub use queue::queue_all;
