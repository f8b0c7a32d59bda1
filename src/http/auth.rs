//! Tokens: who says so, and until when.

use std::{fmt, sync::Arc, time::Duration};

use actix_web::{HttpRequest, http::header};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use super::{
    principal::{Principal, Role},
    problem::Problem,
};
use crate::{
    kernel::{Clock, RoomId, Timestamp, UserId},
    settings::AuthSettings,
};

/// Why there is nobody who could verify or sign tokens.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("no signing key is configured: set LUCKYBAG__AUTH__SIGNING_SECRET to 32 bytes or more")]
    NoSigningKey,

    #[error("the configured key cannot be used")]
    Key(#[source] jsonwebtoken::errors::Error),

    #[error("cannot sign the token")]
    Sign(#[source] jsonwebtoken::errors::Error),
}

/// Verifies bearer tokens. Part of the application's data as `Arc<Auth>`.
pub struct Auth {
    key: DecodingKey,
    validation: Validation,
    leeway_secs: i64,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").finish_non_exhaustive()
    }
}

impl Auth {
    /// The key alone says which algorithm a token must use; the token's own word counts nothing.
    pub fn new(settings: &AuthSettings, clock: Arc<dyn Clock>) -> Result<Self, AuthError> {
        let secret = settings.signing_secret.expose_secret();
        if secret.is_empty() {
            return Err(AuthError::NoSigningKey);
        }
        let key = DecodingKey::from_secret(secret.as_bytes()).map_err(AuthError::Key)?;
        Ok(Self {
            key,
            validation: validation(settings, Algorithm::HS256),
            leeway_secs: settings.leeway_secs.into(),
            clock,
        })
    }

    /// The bearer of the request's token, or `401`.
    pub(super) fn of_request(request: &HttpRequest) -> Result<Principal, Problem> {
        let auth = request
            .app_data::<Arc<Self>>()
            .ok_or_else(|| Problem::internal("the application has no `Arc<Auth>`"))?;
        let token = bearer(request).ok_or_else(|| {
            Problem::unauthorized("this needs a token: `Authorization: Bearer <JWT>`")
        })?;
        auth.verify(token)
    }

    /// The bearer of `token`, or `401`.
    pub fn verify(&self, token: &str) -> Result<Principal, Problem> {
        let claims = jsonwebtoken::decode::<Claims>(token, &self.key, &self.validation)
            .map_err(|error| Problem::unauthorized("the token is not valid").with_cause(error))?
            .claims;
        self.check_times(&claims)?;
        let user_id = claims
            .sub
            .parse()
            .map_err(|_| Problem::unauthorized("the token's `sub` is not a user id in decimal"))?;
        // Roles of other systems in the same claim give no right here.
        let roles = claims
            .roles
            .iter()
            .filter_map(|name| Role::of_name(name))
            .collect();
        Ok(Principal::verified(user_id, roles, claims.rooms))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds since 1970 are far below 2^52"
    )]
    fn check_times(&self, claims: &Claims) -> Result<(), Problem> {
        let now = self.clock.now().timestamp() as f64;
        let leeway = self.leeway_secs as f64;
        if claims.exp + leeway <= now {
            return Err(Problem::unauthorized("the token has expired"));
        }
        if claims
            .nbf
            .is_some_and(|not_before| now + leeway < not_before)
        {
            return Err(Problem::unauthorized("the token is not valid yet"));
        }
        Ok(())
    }
}

/// Times are checked against our own clock, so not here.
fn validation(settings: &AuthSettings, algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    let mut required = vec!["exp", "sub"];
    if let Some(issuer) = &settings.issuer {
        validation.set_issuer(&[issuer]);
        required.push("iss");
    }
    if let Some(audience) = &settings.audience {
        validation.validate_aud = true;
        validation.set_audience(&[audience]);
        required.push("aud");
    }
    validation.set_required_spec_claims(&required);
    validation
}

fn bearer(request: &HttpRequest) -> Option<&str> {
    let value = request
        .headers()
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

/// What a token says. Whoever signs may add claims of its own.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    /// RFC 7519 allows fractions of a second.
    exp: f64,
    nbf: Option<f64>,
    #[serde(default)]
    roles: Vec<String>,
    #[serde(default)]
    rooms: Vec<RoomId>,
}

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

/// Signs a token with the configured key; refused when there is none.
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
