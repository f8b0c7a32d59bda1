//! Deny lists: who may not take part, everywhere or in one activity. An entry counts for the joins
//! that are handled after it; whoever is in already stays in.

mod error;
mod http;
mod operations;
mod service;
mod store;

pub use http::routes;
pub use service::DenyService;
pub(super) use store::{
    StoredDenial, delete_of_user, forget, list_denied, list_of_user, list_of_user_on_platform,
};

use error::DenyError;
use service::{Caller, DenyScope, Imported};
use store::DenyEntry;
