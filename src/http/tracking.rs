//! What happens around every request: its id, its span, its metrics, its panics.

use std::{panic::AssertUnwindSafe, time::Instant};

use actix_web::{
    Error, ResponseError,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{self, HeaderName, HeaderValue},
    },
    middleware::Next,
};
use futures_util::FutureExt;
use tracing::{Instrument, Span, field};

use super::{
    problem::Problem,
    request_id::{self, RequestId},
};
use crate::telemetry::{TraceContext, metrics};

/// The pattern of a request that no route took: never the path, which anybody could vary.
const NO_ROUTE: &str = "unmatched";

/// Middleware around everything: `App::new().wrap(from_fn(track_request))`.
pub async fn track_request<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let started = Instant::now();
    let id = RequestId::of_request(request.headers());
    let method = method_name(request.method());
    let span = tracing::info_span!(
        "http.request",
        request.id = %id,
        http.method = method,
        http.route = field::Empty,
        http.status = field::Empty,
        http.duration_ms = field::Empty,
    );

    if let Some(parent) = request.headers().get(TraceContext::HEADER) {
        TraceContext::of_caller(parent.to_str().unwrap_or_default()).adopt(&span);
    }
    let handling = id.clone().scope(answer(request, next, id.clone()));
    let response = handling.instrument(span.clone()).await?;

    record(&span, method, &response, started);
    Ok(response)
}

async fn answer<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
    id: RequestId,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // The request goes into the call, so a panic leaves nothing to build a response from: it is
    // passed on as an error, which carries the id by itself. The panic hook has logged it.
    let Ok(result) = AssertUnwindSafe(next.call(request)).catch_unwind().await else {
        return Err(Problem::internal("the handler panicked")
            .for_request(id)
            .into());
    };
    let response = with_body(result?.map_into_boxed_body());
    Ok(with_id(response, &id))
}

/// Gives an error that the framework answered without a body the body of a problem.
fn with_body(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let is_bare = matches!(
        response.response().body().size(),
        BodySize::None | BodySize::Sized(0)
    );
    if !is_error || !is_bare || response.headers().contains_key(header::CONTENT_TYPE) {
        return response;
    }
    let (request, bare) = response.into_parts();
    let mut full = Problem::of_status(status).error_response();
    for (name, value) in bare.headers() {
        full.headers_mut().append(name.clone(), value.clone());
    }
    ServiceResponse::new(request, full)
}

fn with_id(mut response: ServiceResponse<BoxBody>, id: &RequestId) -> ServiceResponse<BoxBody> {
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response
            .headers_mut()
            .insert(HeaderName::from_static(request_id::HEADER), value);
    }
    response
}

fn record(span: &Span, method: &'static str, response: &ServiceResponse, started: Instant) {
    let duration = started.elapsed();
    let status = response.status().as_u16();
    let pattern = response.request().match_pattern();
    let route = pattern.as_deref().unwrap_or(NO_ROUTE);
    metrics::http_request(route, method, status, duration);

    span.record("http.route", route);
    span.record("http.status", status);
    span.record("http.duration_ms", duration.as_secs_f64() * 1000.0);
    span.in_scope(|| tracing::debug!("request answered"));
}

/// A fixed set, so that a caller cannot invent label values.
fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}
