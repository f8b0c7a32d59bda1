//! Logs, metrics and traces. Every metric of the service is named in `metrics`
//! or, when it tells how things stand, in `state`.

mod chain;
mod json_event;
mod logs;
pub mod metrics;
pub mod state;
mod traces;

pub use chain::Chain;
pub use logs::{TelemetryError, init};
pub use traces::{TraceContext, Traces};
