//! The web kit: problem bodies, strict extractors, rights to act, request ids, health.
//!
//! An application is `App::new().wrap(from_fn(track_request)).configure(|cfg| kit.configure(cfg))`
//! and the features' routes, each an [`Endpoint`].

mod auth;
mod body;
mod endpoint;
mod fields;
mod health;
mod ids;
mod kit;
pub mod page;
mod path;
mod principal;
mod problem;
mod query;
mod request_id;
mod tracking;
mod type_faults;

pub use auth::{Auth, AuthError, NewToken, issue_token};
pub use body::{BatchBody, Body, BodyLimits, NoFields, OptionalBody};
pub use endpoint::Endpoint;
pub use fields::{FieldErrors, FieldFault};
pub use health::{Dependency, HealthKit, Probe, Readiness};
pub use ids::IdParam;
pub use kit::WebKit;
pub use page::{Cursor, Page, PageLimit, PageRequest};
pub use path::PathId;
pub use principal::{HostOrOperator, Operator, Principal, Role, Service, Viewer};
pub use problem::Problem;
pub use query::Query;
pub use request_id::RequestId;
pub use tracking::track_request;

#[cfg(test)]
mod tests;
