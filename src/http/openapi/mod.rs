//! The OpenAPI document: each operation is described where its route is made, and a handler's
//! arguments describe themselves.

mod described;
mod document;
mod headers;
mod merge;
mod operation;
mod page;
mod problems;
mod routes;
mod types;

pub use described::Described;
pub use operation::{Operation, Tag};
pub use page::{ApiDocument, routes as document_routes};
pub use problems::KnownProblem;
pub use routes::Routes;
pub use types::{AnyId, Hex32, Moment};
