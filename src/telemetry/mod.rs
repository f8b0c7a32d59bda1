//! Logs and metrics. Every metric of the service is named in `metrics`.

mod chain;
mod json_event;
mod logs;
pub mod metrics;

pub use chain::Chain;
pub use logs::{TelemetryError, init};
