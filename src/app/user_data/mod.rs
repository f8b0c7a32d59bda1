//! One user's data: shown, and erased. Each feature knows its own part of it.

mod erase;
mod export;

pub use erase::{Erased, erase_user};
pub use export::{UserData, export_user};
