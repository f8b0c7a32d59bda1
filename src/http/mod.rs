//! The web kit: problem bodies, strict extractors, rights to act, limits, repeated calls, request
//! ids, health.
//!
//! An application is `App::new().wrap(from_fn(limit_by_address)).wrap(from_fn(track_request))`,
//! `.configure(|cfg| kit.configure(cfg))` and the features' routes, each an [`Endpoint`].

mod accepted;
mod auth;
mod body;
mod csv;
mod endpoint;
mod export;
mod fields;
mod form;
mod health;
mod ids;
mod kit;
mod limits;
mod once;
pub mod openapi;
pub mod page;
mod path;
mod principal;
mod problem;
mod query;
mod request_id;
mod tracking;
mod type_faults;

pub use accepted::Accepted;
pub use auth::{Auth, AuthError, NewToken, issue_token};
pub use body::{BatchBody, Body, BodyLimits, NoFields, OptionalBody};
pub use csv::{Cell, CsvPages};
pub use endpoint::Endpoint;
pub use export::{
    CSV_MEDIA_TYPE, CsvFile, ExportError, ExportPlace, ExportRequest, Exports, Pages,
};
pub use fields::{FieldErrors, FieldFault};
pub use form::{Field, Item, Items, UnknownFields};
pub use health::{Dependency, HealthKit, Probe, Readiness, health_routes};
pub use ids::IdParam;
pub use kit::WebKit;
pub use limits::{RateLimits, limit_by_address};
pub use once::{Once, json_answer};
pub use openapi::{KnownProblem, Operation, Routes, Tag};
pub use page::{Cursor, Page, PageLimit, PageRequest};
pub use path::PathId;
pub use principal::{HostOrOperator, Operator, Principal, Role, Service, Viewer};
pub use problem::Problem;
pub use query::Query;
pub use request_id::RequestId;
pub use tracking::track_request;

#[cfg(test)]
mod tests;
