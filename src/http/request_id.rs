//! The id that ties a request's answer, its log lines and its messages together.

use std::{fmt, future::Future};

use actix_web::http::header::HeaderMap;
use uuid::Uuid;

/// The header that carries it, in requests and in every answer.
pub(super) const HEADER: &str = "x-request-id";

tokio::task_local! {
    static CURRENT: RequestId;
}

/// 1 to 64 characters of `A-Z a-z 0-9 _ -`: the caller's, or a `UUIDv7` of our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(String);

impl RequestId {
    /// The id of the request that the current task handles, if it handles one.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes the caller's id when it is harmless, else makes one.
    pub(super) fn of_request(headers: &HeaderMap) -> Self {
        let given = headers.get(HEADER).and_then(|value| value.to_str().ok());
        match given {
            Some(given) if is_harmless(given) => Self(given.to_owned()),
            Some(_) | None => Self(Uuid::now_v7().to_string()),
        }
    }

    /// Runs `handling` so that [`RequestId::current`] answers this id.
    pub(super) fn scope<F: Future>(self, handling: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, handling)
    }
}

fn is_harmless(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&id.len()) && id.bytes().all(is_allowed)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
