//! The demo's view of the HTTP API.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::AppError;
use crate::{
    http::{NewToken, Role, issue_token},
    kernel::{Clock, RoomId, SystemClock, UserId},
    settings::AuthSettings,
};

/// Calls the API with tokens that it signs itself. Cheap to clone.
#[derive(Clone)]
pub(super) struct Client {
    url: String,
    http: reqwest::Client,
    auth: AuthSettings,
}

/// What the service answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl Answer {
    /// The body, when the call went as it should.
    pub(super) fn expect(self, status: StatusCode, what: &str) -> Result<Value, AppError> {
        if self.status == status {
            return Ok(self.body);
        }
        Err(AppError::Demo(format!(
            "{what}: {} {}",
            self.status, self.body
        )))
    }
}

impl Client {
    const TIMEOUT: Duration = Duration::from_secs(10);
    const TOKEN_LIFE: Duration = Duration::from_hours(1);

    pub(super) fn new(url: &str, auth: AuthSettings) -> Result<Self, AppError> {
        let http = reqwest::Client::builder()
            .timeout(Self::TIMEOUT)
            .build()
            .map_err(|error| AppError::Demo(error.to_string()))?;
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            http,
            auth,
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn token(
        &self,
        user_id: UserId,
        role: Role,
        rooms: &[RoomId],
    ) -> Result<String, AppError> {
        let token = NewToken {
            user_id,
            roles: vec![role],
            rooms: rooms.to_vec(),
            ttl: Self::TOKEN_LIFE,
        };
        Ok(issue_token(&self.auth, &token, SystemClock.now())?)
    }

    pub(super) async fn get(&self, token: &str, path: &str) -> Result<Answer, AppError> {
        self.call(Method::GET, token, path, None).await
    }

    pub(super) async fn post(
        &self,
        token: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answer, AppError> {
        self.call(Method::POST, token, path, body).await
    }

    async fn call(
        &self,
        method: Method,
        token: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answer, AppError> {
        let failed = |error: reqwest::Error| AppError::Demo(format!("{path}: {error}"));
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(failed)?;
        Ok(Answer {
            status,
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        })
    }
}
