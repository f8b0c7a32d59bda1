//! Calls of the HTTP API, as one of its users.

use std::time::Duration;

use luckybag::{
    http::{NewToken, Role, issue_token},
    kernel::{Clock, RoomId, SystemClock, UserId},
    settings::AuthSettings,
};
use reqwest::{Method, RequestBuilder, StatusCode, header::HeaderMap};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::document::{DOCUMENT, Exchange};

/// A caller of one process's API. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    auth: AuthSettings,
}

/// What the service answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The body; panics with the whole answer unless the status is as expected.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self.body
    }

    /// Asserts a problem with this status and code.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) -> Value {
        let body = self.expect(status);
        assert_eq!(body["code"], code, "{body}");
        body
    }
}

impl Answer {
    /// The fields that a problem names, in its order.
    pub(crate) fn faulty_fields(&self) -> Vec<&str> {
        let faults = self.body["errors"].as_array().into_iter().flatten();
        faults
            .map(|fault| fault["field"].as_str().expect("a field's name"))
            .collect()
    }

    /// A header's text, empty without it.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().expect("text"))
    }

    /// What every answer has: a request id; and every refusal: a problem that names it.
    fn assert_well_formed(&self, call: &str) {
        let request_id = self.header("x-request-id");
        assert!(!request_id.is_empty(), "{call}: no x-request-id: {self:?}");
        let is_problem = self.status.is_client_error() || self.status.is_server_error();
        if is_problem && !call.starts_with("HEAD ") {
            let problem = &self.body;
            assert_eq!(self.header("content-type"), "application/problem+json");
            assert_eq!(problem["status"], self.status.as_u16(), "{call}: {problem}");
            assert_eq!(problem["requestId"], request_id, "{call}: {problem}");
            assert!(problem["code"].is_string(), "{call}: {problem}");
        }
    }
}

pub(crate) const OPERATOR: UserId = UserId(1);
pub(crate) const HOST: UserId = UserId(2);
pub(crate) const SERVICE: UserId = UserId(3);

impl Api {
    pub(super) fn new(url: String, auth: AuthSettings) -> Self {
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(20))
            .build()
            .expect("an HTTP client");
        Self { url, http, auth }
    }

    pub(crate) fn token(&self, user_id: UserId, role: Role, rooms: &[RoomId]) -> String {
        let token = NewToken {
            user_id,
            roles: vec![role],
            rooms: rooms.to_vec(),
            ttl: Duration::from_hours(1),
        };
        issue_token(&self.auth, &token, SystemClock.now()).expect("a token")
    }

    /// For tokens that the service would not make.
    pub(crate) fn signing_secret(&self) -> &str {
        self.auth.signing_secret.expose_secret()
    }

    pub(crate) fn viewer(&self, user_id: u64) -> String {
        self.token(UserId(user_id), Role::Viewer, &[])
    }

    pub(crate) fn operator(&self) -> String {
        self.token(OPERATOR, Role::Operator, &[])
    }

    /// Another system, which reports events.
    pub(crate) fn service(&self) -> String {
        self.token(SERVICE, Role::Service, &[])
    }

    pub(crate) fn host_of(&self, room: u64) -> String {
        self.token(HOST, Role::Host, &[RoomId(room)])
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Answer {
        self.call(Method::GET, token, path, None).await
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: Option<Value>) -> Answer {
        self.call(Method::POST, token, path, body).await
    }

    pub(crate) async fn patch(&self, token: &str, path: &str, body: Value) -> Answer {
        self.call(Method::PATCH, token, path, Some(body)).await
    }

    pub(crate) async fn put(&self, token: &str, path: &str, body: Option<Value>) -> Answer {
        self.call(Method::PUT, token, path, body).await
    }

    pub(crate) async fn delete(&self, token: &str, path: &str) -> Answer {
        self.call(Method::DELETE, token, path, None).await
    }

    async fn call(&self, method: Method, token: &str, path: &str, body: Option<Value>) -> Answer {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        self.send(request).await
    }

    /// Sends a request as it is.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        let (client, request) = request.build_split();
        let request = request.expect("a request");
        let call = format!("{} {}", request.method(), request.url());
        let broken = |error: reqwest::Error| format!("{call}: {error:?}");
        let sent = request.try_clone();
        let response = client.execute(request).await.map_err(broken);
        let mut response = response.unwrap_or_else(|error| panic!("{error}"));
        let (status, headers) = (response.status(), response.headers().clone());
        let is_stream = headers
            .get("content-type")
            .is_some_and(|kind| kind == "text/event-stream");
        // Of a stream only its beginning: it may have no end.
        let bytes = if is_stream {
            response.chunk().await.map(Option::unwrap_or_default)
        } else {
            response.bytes().await
        };
        let bytes = bytes.map_err(broken);
        let bytes = bytes.unwrap_or_else(|error| panic!("{error}"));
        let body = if is_stream {
            Value::String(String::from_utf8_lossy(&bytes).into_owned())
        } else {
            serde_json::from_slice(&bytes).unwrap_or(Value::Null)
        };
        let answer = Answer {
            status,
            headers,
            body,
        };
        answer.assert_well_formed(&call);
        // A body that is sent piece by piece cannot be looked at again.
        if let Some(sent) = sent {
            let (status, headers) = (answer.status, &answer.headers);
            let body = &bytes;
            DOCUMENT.check(
                &call,
                &sent,
                &Exchange {
                    status,
                    headers,
                    body,
                },
            );
        }
        answer
    }
}
