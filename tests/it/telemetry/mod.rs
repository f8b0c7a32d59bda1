//! Traces, metrics of every promise, and the dashboard and alarms that stand on them.

mod collector;
mod files;
mod metrics;
mod traces;
