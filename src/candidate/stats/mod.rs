//! What a host is told of its activity: how many joined, how many of them can win as things stand.

mod count;
mod http;
mod model;
mod pool;

pub(super) use count::CountedStats;
pub use http::routes;
pub use model::{RejectedCounts, Split, Stats};
