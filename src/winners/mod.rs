//! Who won what: the durable win records, and the results and lists that people see of them.

mod error;
pub mod events;
mod http;
mod list;
mod model;
pub mod progress;
mod projection;
mod result;
mod service;
mod store;

pub use error::WinnerError;
pub use http::routes;
pub use list::WinnerList;
pub use model::{WinRecord, WinStatus};
pub use projection::WinnerProjection;
pub use result::{ResultKind, UserResult, Win, WonPrize};
pub use service::{WinnerDeps, WinnerService};
pub use store::{list_all, list_of_round, list_winners_between, record, won_since};
