//! The one error body: RFC 9457 `application/problem+json`.

use std::{error::Error, fmt, time::Duration};

use actix_web::{
    HttpResponse, HttpResponseBuilder, ResponseError,
    http::{Method, StatusCode, header},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    fields::{FieldErrors, FieldFault},
    request_id::{self, RequestId},
};
use crate::telemetry::Chain;

pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request was not answered as hoped, in a form to show to the caller.
///
/// `code` is stable and documented; `detail` may change.
#[derive(Debug)]
pub struct Problem(Box<Details>);

/// Boxed, so that a result which may be a problem is small.
#[derive(Debug)]
struct Details {
    status: StatusCode,
    code: &'static str,
    detail: String,
    faults: Vec<FieldFault>,
    retry_after: Option<Duration>,
    allow: Option<String>,
    request_id: Option<RequestId>,
    /// Logged, never shown.
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self(Box::new(Details {
            status,
            code,
            detail: detail.into(),
            faults: Vec::new(),
            retry_after: None,
            allow: None,
            request_id: None,
            cause: None,
        }))
    }

    pub fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// No token, or one that is not believed.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// A token that does not give the right to do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    pub fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// It was there and is not kept any more.
    pub fn gone(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, code, detail)
    }

    /// `422 invalid_request` with every faulty field.
    pub fn invalid(errors: FieldErrors) -> Self {
        let detail = "the request has faults; `errors` names each of them";
        let mut problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail);
        problem.0.faults = errors.into_faults();
        problem
    }

    /// `422 invalid_request` about one field.
    pub fn invalid_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut errors = FieldErrors::new();
        errors.add(field, message);
        Self::invalid(errors)
    }

    /// `503`: sending the same again later may succeed.
    pub fn unavailable(code: &'static str, detail: impl Into<String>, retry: Duration) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).with_retry_after(retry)
    }

    /// `429`: the caller has used up what it may.
    pub(super) fn rate_limited(detail: impl Into<String>, wait: Duration) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).with_retry_after(wait)
    }

    /// `500`. The error and its sources are logged, and not shown.
    pub fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::internal_logged().with_cause(error)
    }

    /// Tells the caller when to try again, in whole seconds rounded up.
    #[must_use]
    pub fn with_retry_after(mut self, retry: Duration) -> Self {
        self.0.retry_after = Some(retry);
        self
    }

    /// Keeps an error for the log, such as why a dependency did not answer.
    #[must_use]
    pub fn with_cause(mut self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.cause = Some(error.into());
        self
    }

    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    pub fn code(&self) -> &'static str {
        self.0.code
    }

    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    pub fn faults(&self) -> &[FieldFault] {
        &self.0.faults
    }

    pub(super) fn method_not_allowed(allowed: &[Method]) -> Self {
        let detail = "this resource does not have that method";
        let mut problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
        let names: Vec<&str> = allowed.iter().map(Method::as_str).collect();
        problem.0.allow = Some(names.join(", "));
        problem
    }

    /// A problem for an error that the framework answered without a body.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let code = match status.as_u16() {
            400 => "bad_request",
            404 => "not_found",
            405 => "method_not_allowed",
            408 => "request_timeout",
            413 => "body_too_large",
            415 => "unsupported_media_type",
            500..=599 => "internal",
            _ => "refused",
        };
        let detail = status
            .canonical_reason()
            .unwrap_or("the request was refused");
        Self::new(status, code, detail)
    }

    /// `500` about something that was logged already.
    pub(super) fn internal_logged() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "something failed on our side; it was logged under the request id",
        )
    }

    /// For answers that are made outside the request's own task.
    pub(super) fn for_request(mut self, id: RequestId) -> Self {
        self.0.request_id = Some(id);
        self
    }

    fn log_cause(&self) {
        let Some(cause) = &self.0.cause else { return };
        let error = Chain(cause.as_ref());
        // An outage is told once by who watches the server that is away, and counted by the metrics;
        // a line a request would bury it.
        let is_outage = self.0.status == StatusCode::SERVICE_UNAVAILABLE;
        if self.0.status.is_server_error() && !is_outage {
            tracing::error!(http.code = self.0.code, error = %error, "request failed");
        } else {
            tracing::debug!(http.code = self.0.code, error = %error, "request refused");
        }
    }

    fn insert_headers(&self, response: &mut HttpResponseBuilder, id: Option<&RequestId>) {
        if let Some(id) = id {
            response.insert_header((request_id::HEADER, id.as_str()));
        }
        if let Some(retry) = self.0.retry_after {
            let seconds = retry.as_secs() + u64::from(retry.subsec_nanos() > 0);
            response.insert_header((header::RETRY_AFTER, seconds.max(1).to_string()));
        }
        if let Some(allow) = &self.0.allow {
            response.insert_header((header::ALLOW, allow.as_str()));
        }
        if self.0.status == StatusCode::UNAUTHORIZED {
            response.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
        }
    }
}

/// `activity_closed` is titled "Activity closed".
pub(super) fn title(code: &str) -> String {
    let mut title = code.replace('_', " ");
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

/// Why a request was not answered as hoped: RFC 9457.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub(super) struct ProblemBody<'a> {
    /// `urn:luckybag:problem:` and the code.
    r#type: String,
    /// The code in words.
    title: String,
    /// The status of the answer.
    status: u16,
    /// Stable: what programs decide by.
    code: &'static str,
    /// For people; may change.
    detail: &'a str,
    /// The same as in `x-request-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, required)]
    request_id: Option<&'a str>,
    /// Every faulty field of the request.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldFault],
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.0.status.as_u16(),
            self.0.code,
            self.0.detail
        )
    }
}

impl Error for Problem {}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.0.status
    }

    /// Called once, where the error stops being passed on, so this is where it is logged.
    fn error_response(&self) -> HttpResponse {
        self.log_cause();
        let id = self.0.request_id.clone().or_else(RequestId::current);
        let body = ProblemBody {
            r#type: format!("urn:luckybag:problem:{}", self.0.code),
            title: title(self.0.code),
            status: self.0.status.as_u16(),
            code: self.0.code,
            detail: &self.0.detail,
            request_id: id.as_ref().map(RequestId::as_str),
            errors: &self.0.faults,
        };
        let mut response = HttpResponse::build(self.0.status);
        self.insert_headers(&mut response, id.as_ref());
        response.content_type(MEDIA_TYPE).json(body)
    }
}
