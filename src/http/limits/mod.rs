//! How often a user, and an address, may call.

mod buckets;
mod client_address;
mod rates;

pub use rates::{RateLimits, limit_by_address};
