//! What a token says, and what it must say.

use jsonwebtoken::{Algorithm, Validation};
use serde::Deserialize;

use super::{jwk::VerifyingKey, refusal::Refusal};
use crate::{
    http::principal::{Principal, Role},
    kernel::{RoomId, Timestamp},
    settings::AuthSettings,
};

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

/// What every token must say.
#[derive(Debug)]
pub(super) struct ClaimRules {
    /// One for each algorithm, which it allows alone.
    validations: [Validation; 4],
    leeway_secs: i64,
}

impl ClaimRules {
    const ALGORITHMS: [Algorithm; 4] = [
        Algorithm::HS256,
        Algorithm::RS256,
        Algorithm::ES256,
        Algorithm::EdDSA,
    ];

    pub(super) fn new(settings: &AuthSettings) -> Self {
        Self {
            validations: Self::ALGORITHMS.map(|algorithm| validation(settings, algorithm)),
            leeway_secs: settings.leeway_secs.into(),
        }
    }

    /// Whether a key of ours can have this algorithm.
    pub(super) fn knows(algorithm: Algorithm) -> bool {
        Self::ALGORITHMS.contains(&algorithm)
    }

    /// The bearer of a token, when `key` verifies it and the claims are as they must be.
    pub(super) fn check(
        &self,
        token: &str,
        key: &VerifyingKey,
        now: Timestamp,
    ) -> Result<Principal, Refusal> {
        let mut validations = self.validations.iter();
        let validation = validations
            .find(|validation| validation.algorithms == [key.algorithm()])
            .ok_or_else(Refusal::algorithm)?;
        let claims = jsonwebtoken::decode::<Claims>(token, key.key(), validation)
            .map_err(|error| Refusal::of_claims(&error))?
            .claims;
        self.check_times(&claims, now)?;
        let user_id = claims.sub.parse().map_err(|_| Refusal::subject())?;
        // Roles of other systems in the same claim give no right here.
        let roles = claims
            .roles
            .iter()
            .filter_map(|name| Role::of_name(name))
            .collect();
        let until = self.believed_until(&claims);
        Ok(Principal::verified(user_id, roles, claims.rooms, until))
    }

    /// When `exp` and the leeway after it have passed; far away when no calendar reaches so far.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast of a float saturates"
    )]
    fn believed_until(&self, claims: &Claims) -> Timestamp {
        let millis = (claims.exp * 1000.0) as i64;
        let millis = millis.saturating_add(self.leeway_secs.saturating_mul(1000));
        Timestamp::from_timestamp_millis(millis).unwrap_or(Timestamp::MAX_UTC)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds since 1970 are far below 2^52"
    )]
    fn check_times(&self, claims: &Claims, now: Timestamp) -> Result<(), Refusal> {
        let now = now.timestamp() as f64;
        let leeway = self.leeway_secs as f64;
        if claims.exp + leeway <= now {
            return Err(Refusal::expired());
        }
        match claims.nbf {
            Some(not_before) if now + leeway < not_before => Err(Refusal::not_yet()),
            Some(_) | None => Ok(()),
        }
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
