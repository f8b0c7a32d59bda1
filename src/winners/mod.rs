//! Who won what: the durable win records, and the results and lists that people see of them.

mod model;
mod store;

pub use model::{WinRecord, WinStatus};
pub use store::{record, won_since};
