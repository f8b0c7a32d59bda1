//! The draw: claim, drain, freeze, select, commit; once, on time, or late but drawn. Redraws, and the
//! proof of all that.

mod attempt;
mod barriers;
mod commit;
mod consumer;
mod drain;
mod error;
mod events;
mod http;
mod lease;
mod observers;
mod proof;
mod redraw;
mod seats;
mod service;

pub use consumer::DrawConsumer;
pub use error::DrawError;
pub use http::routes;
pub use proof::{Fault, ProofDeps, ProofError, ProofService, Verified, verify_proof};
pub use redraw::RedrawError;
pub use service::{Begun, DrawDeps, DrawOutcome, DrawService};
