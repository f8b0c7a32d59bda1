//! Strict JSON bodies: bounded, typed, no unknown fields, faults named by their JSON path.

use std::{future::Future, pin::Pin, time::Duration};

use actix_web::{
    FromRequest, HttpRequest,
    dev::Payload,
    http::{StatusCode, header},
    web::{Bytes, BytesMut},
};
use futures_util::StreamExt;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use utoipa::ToSchema;

use super::{fields::FieldErrors, once::note_body, problem::Problem, type_faults};
use crate::settings::ServerSettings;

/// How large bodies may be, in bytes, and how long they may take. Part of the application's data.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// For [`OptionalBody`], such as a join's.
    pub join: usize,
    /// For [`Body`].
    pub regular: usize,
    /// For [`BatchBody`].
    pub batch: usize,
    /// How long a client may take to send one: a stalled body would hold its connection for ever,
    /// and a stop with it.
    pub patience: Duration,
}

impl BodyLimits {
    pub fn of(settings: &ServerSettings) -> Self {
        Self {
            join: settings.join_body_limit_bytes.get(),
            regular: settings.body_limit_bytes.get(),
            batch: settings.batch_body_limit_bytes.get(),
            patience: settings.client_body_timeout_ms.duration(),
        }
    }
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            join: 4 << 10,
            regular: 64 << 10,
            batch: 1 << 20,
            patience: Duration::from_secs(5),
        }
    }
}

/// A JSON object as the body. `T` refuses unknown fields with `#[serde(deny_unknown_fields)]`.
#[derive(Debug)]
pub struct Body<T>(pub T);

/// A JSON object that holds many things of a kind, and may be larger.
#[derive(Debug)]
pub struct BatchBody<T>(pub T);

/// A small JSON object that may be left out altogether.
#[derive(Debug)]
pub struct OptionalBody<T>(pub T);

/// What the body of a call without parameters may hold: nothing.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoFields {}

type Extraction<T> = Pin<Box<dyn Future<Output = Result<T, Problem>>>>;

fn limits(request: &HttpRequest) -> BodyLimits {
    request
        .app_data::<BodyLimits>()
        .copied()
        .unwrap_or_default()
}

impl<T: DeserializeOwned + 'static> FromRequest for Body<T> {
    type Error = Problem;
    type Future = Extraction<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let reader = Reader::new(request, payload, |limits| limits.regular);
        Box::pin(async move { parse(&reader.read_json().await?).map(Self) })
    }
}

impl<T: DeserializeOwned + 'static> FromRequest for BatchBody<T> {
    type Error = Problem;
    type Future = Extraction<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let reader = Reader::new(request, payload, |limits| limits.batch);
        Box::pin(async move { parse(&reader.read_json().await?).map(Self) })
    }
}

impl<T: DeserializeOwned + Default + 'static> FromRequest for OptionalBody<T> {
    type Error = Problem;
    type Future = Extraction<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let mut reader = Reader::new(request, payload, |limits| limits.join);
        Box::pin(async move {
            let media_type = std::mem::replace(&mut reader.media_type, Ok(()));
            let bytes = reader.read_json().await?;
            if bytes.is_empty() {
                return Ok(Self(T::default()));
            }
            media_type?;
            parse(&bytes).map(Self)
        })
    }
}

/// What is needed of a request to read its body later.
struct Reader {
    media_type: Result<(), Problem>,
    declared_length: Option<usize>,
    limit: usize,
    patience: Duration,
    payload: Payload,
    request: HttpRequest,
}

impl Reader {
    fn new(
        request: &HttpRequest,
        payload: &mut Payload,
        limit: impl Fn(BodyLimits) -> usize,
    ) -> Self {
        let limits = limits(request);
        Self {
            media_type: check_media_type(request),
            declared_length: declared_length(request),
            limit: limit(limits),
            patience: limits.patience,
            payload: payload.take(),
            request: request.clone(),
        }
    }

    async fn read_json(self) -> Result<Bytes, Problem> {
        let patience = self.patience;
        match tokio::time::timeout(patience, self.read_to_end()).await {
            Ok(read) => read,
            Err(_) => Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "body_timeout",
                format!("the body did not arrive within {} ms", patience.as_millis()),
            )),
        }
    }

    async fn read_to_end(mut self) -> Result<Bytes, Problem> {
        self.media_type?;
        if self
            .declared_length
            .is_some_and(|length| length > self.limit)
        {
            return Err(too_large(self.limit));
        }
        let mut bytes = BytesMut::with_capacity(self.declared_length.unwrap_or(0));
        while let Some(chunk) = self.payload.next().await {
            let chunk = chunk.map_err(|error| {
                Problem::bad_request("incomplete_body", "the body ended early").with_cause(error)
            })?;
            if bytes.len() + chunk.len() > self.limit {
                return Err(too_large(self.limit));
            }
            bytes.extend_from_slice(&chunk);
        }
        note_body(&self.request, &bytes);
        Ok(bytes.freeze())
    }
}

fn declared_length(request: &HttpRequest) -> Option<usize> {
    request
        .headers()
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is larger than {limit} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
}

fn check_media_type(request: &HttpRequest) -> Result<(), Problem> {
    let unsupported = |detail| {
        Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            detail,
        ))
    };
    let text = |name| {
        request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };

    let media_type = text(header::CONTENT_TYPE).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return unsupported("the body must be application/json");
    }
    let encoding = text(header::CONTENT_ENCODING).unwrap_or("identity");
    if !encoding.eq_ignore_ascii_case("identity") {
        return unsupported("the body must not be compressed");
    }
    Ok(())
}

fn malformed(detail: impl Into<String>) -> Problem {
    Problem::bad_request("malformed_json", detail)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed("the body is not UTF-8"))?;
    check_is_object(text)?;
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| refuse::<T>(text, error.path(), error.inner()))?;
    json.end()
        .map_err(|error| malformed(format!("the body is not JSON: {error}")))?;
    Ok(value)
}

/// Serde reads a struct from a list of its fields' values too: `[]` would be an empty join.
fn check_is_object(text: &str) -> Result<(), Problem> {
    if text.trim_start().starts_with('{') {
        return Ok(());
    }
    check_syntax(text)?;
    Err(Problem::invalid_field("body", "a JSON object is expected"))
}

fn check_syntax(text: &str) -> Result<(), Problem> {
    serde_json::from_str::<IgnoredAny>(text)
        .map(|_| ())
        .map_err(|error| malformed(format!("the body is not JSON: {error}")))
}

fn refuse<T: DeserializeOwned>(
    text: &str,
    path: &serde_path_to_error::Path,
    error: &serde_json::Error,
) -> Problem {
    // A fault of type may come before a fault of syntax; then the syntax matters more.
    if let Err(problem) = check_syntax(text) {
        return problem;
    }
    if error.is_syntax() || error.is_eof() {
        return malformed(format!("the body is not JSON: {error}"));
    }
    let message = error.to_string();
    // The place in the text is of no use beside the path.
    let message = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(message, _)| message);
    let mut errors = FieldErrors::new();
    errors.add_serde(path, message);
    type_faults::add_others::<T>(text, &mut errors);
    Problem::invalid(errors)
}
