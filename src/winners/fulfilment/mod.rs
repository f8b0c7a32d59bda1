//! How far the handing over of a prize is, as the system that hands it over reports.

mod error;
mod http;
mod service;
mod state;

pub use error::FulfilmentError;
pub use state::{Fulfilment, FulfilmentState};

pub(super) use http::routes;
