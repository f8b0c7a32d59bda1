//! Proofs: what anybody needs to check a result, published once its entries are fixed under one
//! root, and the verifier for it.

mod document;
mod error;
mod http;
mod publish;
mod service;
mod verify;

pub use error::ProofError;
pub use service::{ProofDeps, ProofService};
pub use verify::{Fault, Verified, verify_proof};

pub(super) use http::routes;
pub(super) use publish::Publisher;
