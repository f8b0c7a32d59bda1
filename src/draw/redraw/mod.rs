//! Redraws: an operator takes wins back, and the next of the same order take their seats.
//!
//! Nobody is chosen by hand: the one thing an operator says is whose win is taken back, and why.

mod attempt;
mod error;
mod http;
mod order;
mod outcome;
mod service;

pub use error::RedrawError;

pub(super) use http::routes;
