//! Answers kept under a key of the caller's choice: a call that is repeated changes nothing again and
//! hears the same.
//!
//! The answer is written in the transaction of the change, so there is never one without the other;
//! the row's key lets one of several calls at the same time commit.

mod claim;
mod store;

pub use claim::{Claim, settle};
pub use store::{Answer, Answers, CallKey, Earlier, StoredKey, forget_user, list_of_user};
