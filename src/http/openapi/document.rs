//! The whole document.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use actix_web::http::{Method, StatusCode};
use utoipa::openapi::{
    Components, ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem,
    PathsBuilder, RefOr, Response, Schema,
    path::HttpMethod,
    security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    tag::{Tag as DescribedTag, TagBuilder},
};

use super::{
    Operation, Routes, Tag, headers,
    merge::merge_all,
    problems::{self, KnownProblem},
};
use crate::http::problem::ProblemBody;

/// Problems that no operation has: the HTTP server answers them before there is one.
const OUTSIDE: [(&str, KnownProblem); 5] = [
    (
        "UnknownPath",
        KnownProblem::not_found("not_found", "There is nothing under this path"),
    ),
    (
        "UnknownMethod",
        KnownProblem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "This path does not have that method; `Allow` says which it has",
        ),
    ),
    (
        "SlowRequest",
        KnownProblem::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            "The head of the request did not arrive in time",
        ),
    ),
    (
        "BadRequest",
        KnownProblem::new(
            StatusCode::BAD_REQUEST,
            "bad_request",
            "This is not a request that the HTTP server can read",
        ),
    ),
    (
        "Refused",
        KnownProblem::new(
            StatusCode::EXPECTATION_FAILED,
            "refused",
            "The HTTP server refused the request; the status, this one or another, says why",
        ),
    ),
];

const RULES: &str = "\
Giveaways for live rooms: no join lost, nobody drawn twice, results anybody can check.

* JSON in camelCase. Ids are strings in answers, and strings or integers in requests. Times are RFC 3339 in UTC \
with milliseconds. Byte strings are lower-case hex.
* Unknown fields of bodies, and unknown parameters where there are some, are refused; a field of a request that is `null` counts as absent unless said \
otherwise.
* Whoever calls sends `Authorization: Bearer <JWT>`. The claim `roles` holds `viewer`, `host`, `operator` or \
`service`, and `rooms` the rooms of a host. An activity that the caller may not see is answered 404.
* Errors are RFC 9457 `application/problem+json` with a stable `code`. `detail` is for people and may change. \
A 422 `invalid_request` names every faulty field in `errors`.
* Every answer carries `x-request-id`. Each `GET` also answers `HEAD`.
* Lists page with `limit` and the opaque `cursor`, which is the `nextCursor` of the page before.
* New fields may be added to answers, and new values to what is a list of words there.

## Codes of problems

| status | code | when |
| --- | --- | --- |
";

impl Routes {
    /// The document that describes these routes.
    pub fn into_document(self) -> OpenApi {
        let mut paths = PathsBuilder::new();
        let mut parts = Parts::default();
        for endpoint in self.into_endpoints() {
            let (path, operations) = endpoint.into_operations();
            for (method, mut operation) in operations {
                parts.collect(&mut operation);
                let item = PathItem::new(http_method(&method), operation.build());
                paths = paths.path(path.clone(), item);
            }
        }
        let outside = OUTSIDE.into_iter().map(|(_, problem)| problem);
        parts.problems.extend(outside);
        let info = InfoBuilder::new()
            .title("luckybag")
            .version(env!("CARGO_PKG_VERSION"))
            .description(Some(description(&parts.problems)))
            .license(Some(license()));
        let mut document = OpenApiBuilder::new()
            .info(info)
            .tags(Some(Tag::ALL.map(tag)))
            .paths(paths)
            .components(Some(parts.into_components()))
            .build();
        drop_unused_schemas(&mut document);
        document
    }
}

/// Merging leaves parts that nothing refers to any more.
fn drop_unused_schemas(document: &mut OpenApi) {
    let text = document.to_json().unwrap_or_default();
    if let Some(components) = &mut document.components {
        components
            .schemas
            .retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
    }
}

/// What the operations share.
#[derive(Default)]
struct Parts {
    schemas: BTreeMap<String, RefOr<Schema>>,
    problems: BTreeSet<KnownProblem>,
    responses: BTreeMap<String, Response>,
}

impl Parts {
    fn collect(&mut self, operation: &mut Operation) {
        for (name, schema) in operation.take_schemas() {
            let known = self
                .schemas
                .entry(name.clone())
                .or_insert_with(|| schema.clone());
            if *known != schema {
                // Two types of one name. A test finds it.
                self.schemas.insert(format!("{name}_other"), schema);
            }
        }
        self.problems.extend(operation.known_problems());
        for group in problems::by_status(operation.known_problems()) {
            self.responses.insert(group.name(), group.response());
        }
    }

    fn into_components(mut self) -> Components {
        let mut problem = Vec::new();
        <ProblemBody<'_> as utoipa::ToSchema>::schemas(&mut problem);
        self.schemas.extend(problem);
        let body = <ProblemBody<'_> as utoipa::PartialSchema>::schema();
        self.schemas.insert("Problem".to_owned(), body);

        let mut components = ComponentsBuilder::new()
            .schemas_from_iter(merge_all(self.schemas))
            .responses_from_iter(self.responses)
            .responses_from_iter(outside())
            .security_scheme("bearerAuth", bearer());
        for (name, header) in headers::all() {
            components = components.header(name, header);
        }
        for (code, example) in problems::examples(&self.problems) {
            components = components.example(code, example);
        }
        components.build()
    }
}

fn outside() -> impl Iterator<Item = (&'static str, Response)> {
    OUTSIDE.into_iter().map(|(name, problem)| {
        let mut response = problems::response(problem.status, &[problem]);
        if problem.status == StatusCode::METHOD_NOT_ALLOWED {
            let allow = RefOr::Ref(headers::reference(headers::ALLOW));
            response.headers.insert("Allow".to_owned(), allow);
        }
        (name, response)
    })
}

fn description(problems: &BTreeSet<KnownProblem>) -> String {
    let mut text = RULES.to_owned();
    for problem in problems {
        let (status, code, when) = (problem.status.as_u16(), problem.code, problem.when);
        // Writing to a string does not fail.
        writeln!(text, "| {status} | `{code}` | {when}. |").unwrap_or_default();
    }
    text
}

fn license() -> utoipa::openapi::License {
    LicenseBuilder::new()
        .name("Apache-2.0")
        .identifier(Some("Apache-2.0"))
        .build()
}

fn bearer() -> SecurityScheme {
    let http = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some(
            "A signed token: `sub` is the user id in decimal, `exp` is required, `roles` and `rooms` are \
             lists. `luckybag token` prints one for trying things out.",
        ));
    SecurityScheme::Http(http.build())
}

fn tag(tag: Tag) -> DescribedTag {
    TagBuilder::new()
        .name(tag.name())
        .description(Some(tag.description()))
        .build()
}

fn http_method(method: &Method) -> HttpMethod {
    match method.as_str() {
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}
