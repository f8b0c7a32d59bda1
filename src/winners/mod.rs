//! Who won what: the durable win records, and the results and lists that people see of them.

mod model;
pub mod progress;
mod store;

pub use model::{WinRecord, WinStatus};
pub use store::{list_all, list_of_round, list_winners_between, record, won_since};
