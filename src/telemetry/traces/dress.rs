//! Gives spans, just before they are exported, the names and kinds that tools for traces know. The
//! logs keep ours.

use opentelemetry::{
    Key, KeyValue, Value,
    trace::{SpanKind, Status},
};
use opentelemetry_sdk::trace::SpanData;

/// Our field, and what OpenTelemetry calls it.
const RENAMED: [(&str, &str); 3] = [
    ("http.method", "http.request.method"),
    ("http.status", "http.response.status_code"),
    ("message.queue", "messaging.destination.name"),
];

/// What the library adds for itself.
const USELESS: [&str; 2] = ["busy_ns", "idle_ns"];

/// The name of the span around each request.
const REQUEST: &str = "http.request";

/// Brings one span into the form that is exported.
pub(super) fn dress(span: &mut SpanData) {
    span.span_kind = kind(&span.name);
    if span.name == REQUEST {
        dress_request(span);
    }
    span.attributes
        .retain(|attribute| !USELESS.contains(&attribute.key.as_str()));
    for attribute in &mut span.attributes {
        let known = RENAMED
            .iter()
            .find(|(ours, _)| attribute.key.as_str() == *ours);
        if let Some((_, theirs)) = known {
            attribute.key = Key::from_static_str(theirs);
        }
    }
}

fn kind(name: &str) -> SpanKind {
    match name {
        REQUEST => SpanKind::Server,
        "join.publish" => SpanKind::Producer,
        "message.handle" => SpanKind::Consumer,
        _ => SpanKind::Internal,
    }
}

/// `POST /v1/activities/{activityId}/join`; a 5xx is a failure.
fn dress_request(span: &mut SpanData) {
    let method = text(&span.attributes, "http.method");
    let route = text(&span.attributes, "http.route");
    if let (Some(method), Some(route)) = (method, route) {
        span.name = format!("{method} {route}").into();
    }
    let status = span.attributes.iter().find_map(|attribute| {
        match (attribute.key.as_str(), &attribute.value) {
            ("http.status", Value::I64(status)) => Some(*status),
            _ => None,
        }
    });
    if status.is_some_and(|status| status >= 500) {
        span.status = Status::error("");
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let attribute = attributes
        .iter()
        .find(|attribute| attribute.key.as_str() == key)?;
    Some(attribute.value.as_str().into_owned())
}
