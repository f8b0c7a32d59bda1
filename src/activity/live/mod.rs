//! What happens in an activity, told while it happens: `GET /v1/activities/{activityId}/events`.
//!
//! One watcher an activity and process looks for changes, and every stream follows the newest of
//! its moments: who reads slowly skips, and nothing is kept for anybody.

mod http;
mod listener;
mod moment;
mod places;
mod service;
mod told;
mod watcher;

pub(super) use http::events;
pub use service::{LiveDeps, LiveService};
