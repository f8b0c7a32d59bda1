//! Why a token is not believed: for its bearer in few words, for the metrics in one.

use std::time::Duration;

use jsonwebtoken::errors::{Error, ErrorKind};

use crate::http::problem::Problem;

/// Why a token is not believed.
#[derive(Debug)]
pub(super) struct Refusal {
    reason: Reason,
    cause: Option<Error>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Missing,
    Malformed,
    Algorithm,
    UnknownKey,
    KeysAway,
    Signature,
    Issuer,
    Audience,
    Expired,
    NotYet,
    Subject,
    Claims,
}

impl Refusal {
    /// When the keys should be there.
    const RETRY: Duration = Duration::from_secs(2);

    /// There is no token.
    pub(super) fn missing() -> Self {
        Reason::Missing.into()
    }

    /// No key may be used with the token's algorithm.
    pub(super) fn algorithm() -> Self {
        Reason::Algorithm.into()
    }

    /// No key, or not exactly one, is the one that the token means.
    pub(super) fn unknown_key() -> Self {
        Reason::UnknownKey.into()
    }

    /// The key may be among those that were not fetched yet.
    pub(super) fn keys_away() -> Self {
        Reason::KeysAway.into()
    }

    pub(super) fn expired() -> Self {
        Reason::Expired.into()
    }

    pub(super) fn not_yet() -> Self {
        Reason::NotYet.into()
    }

    /// `sub` is no user id.
    pub(super) fn subject() -> Self {
        Reason::Subject.into()
    }

    /// What the library has against the token.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most of the library's many errors are one to us"
    )]
    pub(super) fn of(error: &Error) -> Self {
        let reason = match error.kind() {
            ErrorKind::InvalidSignature => Reason::Signature,
            ErrorKind::InvalidIssuer => Reason::Issuer,
            ErrorKind::InvalidAudience => Reason::Audience,
            ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
                match claim.as_str() {
                    "iss" => Reason::Issuer,
                    "aud" => Reason::Audience,
                    _ => Reason::Claims,
                }
            }
            ErrorKind::InvalidAlgorithm => Reason::Algorithm,
            _ => Reason::Malformed,
        };
        Self {
            reason,
            cause: Some(error.clone()),
        }
    }

    /// The claims are not of the form that they must have.
    pub(super) fn of_claims(error: &Error) -> Self {
        let mut refusal = Self::of(error);
        // The header was read before, so what is not JSON of the right form are the claims.
        if matches!(error.kind(), ErrorKind::Json(_)) {
            refusal.reason = Reason::Claims;
        }
        refusal
    }

    pub(super) fn is_unknown_key(&self) -> bool {
        self.reason == Reason::UnknownKey
    }

    /// The word for the metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self.reason {
            Reason::Missing => "missing",
            Reason::Malformed => "malformed",
            Reason::Algorithm => "algorithm",
            Reason::UnknownKey => "unknown_key",
            Reason::KeysAway => "keys_away",
            Reason::Signature => "signature",
            Reason::Issuer => "issuer",
            Reason::Audience => "audience",
            Reason::Expired => "expired",
            Reason::NotYet => "not_yet",
            Reason::Subject => "subject",
            Reason::Claims => "claims",
        }
    }

    pub(super) fn into_problem(self) -> Problem {
        let detail = match self.reason {
            Reason::Missing => "this needs a token: `Authorization: Bearer <JWT>`",
            Reason::KeysAway => {
                let detail = "the keys that tokens are verified with are not there yet";
                return Problem::unavailable("token_keys_unavailable", detail, Self::RETRY);
            }
            Reason::Expired => "the token has expired",
            Reason::NotYet => "the token is not valid yet",
            Reason::Subject => "the token's `sub` is not a user id in decimal",
            // Whoever forges one need not know how far it came.
            Reason::Malformed
            | Reason::Algorithm
            | Reason::UnknownKey
            | Reason::Signature
            | Reason::Issuer
            | Reason::Audience
            | Reason::Claims => "the token is not valid",
        };
        let problem = Problem::unauthorized(detail);
        match self.cause {
            Some(cause) => problem.with_cause(cause),
            None => problem,
        }
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            cause: None,
        }
    }
}
