//! `luckybag serve` as an operator sees it: start, stop, outages, replicas, logs and metrics.

mod logs_and_metrics;
mod refused_starts;
mod replicas;
mod start;
mod stop;
