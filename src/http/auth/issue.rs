//! Signing tokens, for trying things out.

use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::ExposeSecret;
use serde::Serialize;

use super::error::AuthError;
use crate::{
    http::principal::Role,
    kernel::{RoomId, Timestamp, UserId},
    settings::AuthSettings,
};

/// What a token made here is to say.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub user_id: UserId,
    pub roles: Vec<Role>,
    pub rooms: Vec<RoomId>,
    pub ttl: Duration,
}

#[derive(Serialize)]
struct NewClaims<'a> {
    sub: UserId,
    iat: i64,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    roles: Vec<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    rooms: &'a [RoomId],
}

/// Signs a token with the configured secret; refused when there is none.
pub fn issue_token(
    settings: &AuthSettings,
    token: &NewToken,
    now: Timestamp,
) -> Result<String, AuthError> {
    let secret = settings.signing_secret.expose_secret();
    if secret.is_empty() {
        return Err(AuthError::NoSigningKey);
    }
    let key = EncodingKey::from_secret(secret.as_bytes()).map_err(AuthError::Key)?;
    let ttl_secs = i64::try_from(token.ttl.as_secs()).unwrap_or(i64::MAX);
    let claims = NewClaims {
        sub: token.user_id,
        iat: now.timestamp(),
        exp: now.timestamp().saturating_add(ttl_secs),
        iss: settings.issuer.as_deref(),
        aud: settings.audience.as_deref(),
        roles: token.roles.iter().map(|role| role.name()).collect(),
        rooms: &token.rooms,
    };
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).map_err(AuthError::Sign)
}
