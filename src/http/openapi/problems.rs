//! What a problem says in the document.

use std::{cmp::Ordering, collections::BTreeSet};

use actix_web::http::StatusCode;
use serde_json::json;
use utoipa::openapi::{
    Content, ContentBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder, Schema, Type,
    example::{Example, ExampleBuilder},
    schema::AllOfBuilder,
};

use super::{super::problem, headers};

/// A problem that an operation may answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownProblem {
    pub status: StatusCode,
    pub code: &'static str,
    /// What has happened, as a sentence without its full stop.
    pub when: &'static str,
    /// Whether it comes with `Retry-After`.
    pub is_passing: bool,
}

impl KnownProblem {
    pub const fn new(status: StatusCode, code: &'static str, when: &'static str) -> Self {
        Self {
            status,
            code,
            when,
            is_passing: false,
        }
    }

    /// `404`.
    pub const fn not_found(code: &'static str, when: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, when)
    }

    /// `409`.
    pub const fn conflict(code: &'static str, when: &'static str) -> Self {
        Self::new(StatusCode::CONFLICT, code, when)
    }

    /// `410`.
    pub const fn gone(code: &'static str, when: &'static str) -> Self {
        Self::new(StatusCode::GONE, code, when)
    }

    /// `503`, with `Retry-After`.
    pub const fn unavailable(code: &'static str, when: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, when).passing()
    }

    /// The same with `Retry-After`.
    #[must_use]
    pub const fn passing(mut self) -> Self {
        self.is_passing = true;
        self
    }

    /// What `MySQL` or Redis is needed for and does not answer.
    pub const UNAVAILABLE: Self = Self::unavailable(
        "unavailable",
        "A server that this needs does not answer, or too many calls wait for it",
    );

    /// The body that a caller sees.
    fn example(&self) -> Example {
        let mut body = json!({
            "type": format!("urn:luckybag:problem:{}", self.code),
            "title": problem::title(self.code),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.when,
            "requestId": "01981f0a-6d8f-7c53-9f0e-2f6f6a3d9c11",
        });
        if self.code == INVALID_REQUEST.code {
            body["errors"] = json!([{
                "field": "activityId",
                "message": "an id is a whole number from 1 to 9223372036854775807 without leading zeros",
            }]);
        }
        ExampleBuilder::new()
            .summary(self.when)
            .value(Some(body))
            .build()
    }
}

impl Ord for KnownProblem {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |problem: &Self| (problem.status, problem.code);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for KnownProblem {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) const INVALID_REQUEST: KnownProblem = KnownProblem::new(
    StatusCode::UNPROCESSABLE_ENTITY,
    "invalid_request",
    "The request has faults; `errors` names each of them",
);

/// The examples of problems, by code.
pub(super) fn examples<'a>(
    problems: impl IntoIterator<Item = &'a KnownProblem>,
) -> impl Iterator<Item = (&'static str, Example)> {
    problems
        .into_iter()
        .map(|problem| (problem.code, problem.example()))
}

/// The problems of one status: one answer, which many operations share.
pub(super) struct Group {
    pub(super) status: StatusCode,
    problems: Vec<KnownProblem>,
}

/// The problems of an operation, a group a status.
pub(super) fn by_status(problems: &BTreeSet<KnownProblem>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for problem in problems {
        match groups.last_mut() {
            Some(group) if group.status == problem.status => group.problems.push(*problem),
            Some(_) | None => groups.push(Group {
                status: problem.status,
                problems: vec![*problem],
            }),
        }
    }
    groups
}

impl Group {
    /// Its name among the components: the codes in it.
    pub(super) fn name(&self) -> String {
        let codes = self.problems.iter().map(|problem| problem.code);
        codes.collect::<Vec<_>>().join("-")
    }

    pub(super) fn response(&self) -> Response {
        response(self.status, &self.problems)
    }
}

pub(super) fn response(status: StatusCode, problems: &[KnownProblem]) -> Response {
    let lines = problems
        .iter()
        .map(|problem| format!("`{}`: {}.", problem.code, problem.when));
    let description = lines.collect::<Vec<_>>().join("\n\n");
    let mut response = ResponseBuilder::new()
        .description(description)
        .header_ref("x-request-id", headers::reference(headers::REQUEST_ID))
        .content(problem::MEDIA_TYPE, content(status, problems));
    if problems.iter().any(|problem| problem.is_passing) {
        response = response.header_ref("Retry-After", headers::reference(headers::RETRY_AFTER));
    }
    if status == StatusCode::UNAUTHORIZED {
        let header = headers::reference(headers::AUTHENTICATE);
        response = response.header_ref("WWW-Authenticate", header);
    }
    response.build()
}

fn content(status: StatusCode, problems: &[KnownProblem]) -> Content {
    let examples = problems.iter().map(|problem| {
        let place = format!("#/components/examples/{}", problem.code);
        (problem.code, RefOr::<Example>::Ref(Ref::new(place)))
    });
    ContentBuilder::new()
        .schema(Some(schema(status, problems)))
        .examples_from_iter(examples)
        .build()
}

fn schema(status: StatusCode, problems: &[KnownProblem]) -> Schema {
    let codes = problems.iter().map(|problem| problem.code);
    let code = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(codes));
    let status = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .enum_values(Some([status.as_u16()]));
    let narrowed = ObjectBuilder::new()
        .property("status", status)
        .property("code", code);
    AllOfBuilder::new()
        .item(Ref::from_schema_name("Problem"))
        .item(narrowed)
        .build()
        .into()
}
