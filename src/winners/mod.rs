//! Who won what: the durable win records, and the results and lists that people see of them.

mod changes;
mod error;
pub mod events;
mod export;
mod fulfilment;
mod hot_list;
mod http;
mod list;
mod list_memory;
mod model;
mod operations;
mod poll;
pub mod progress;
mod projection;
mod result;
mod service;
mod store;
mod user_data;

pub use changes::{Revocation, WinHistory, find_history, list_fulfilments, list_histories, revoke};
pub use error::WinnerError;
pub use fulfilment::{Fulfilment, FulfilmentError, FulfilmentState};
pub use http::routes;
pub use list::WinnerList;
pub use model::{WinRecord, WinStatus};
pub use operations::RESULT_EXPIRED;
pub use projection::WinnerProjection;
pub use result::{ResultKind, UserResult, Win, WonPrize};
pub use service::{WinnerDeps, WinnerService};
pub use store::{
    count_of_round, forget, list_all, list_of_round, list_winners_between, record, won_since,
};
pub use user_data::{StoredWin, list_of_user};
