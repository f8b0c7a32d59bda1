//! One key that verifies tokens, and what makes a JWK one.

use std::fmt;

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde_json::Value;

/// A key, and the one algorithm that it may be used with.
pub(super) struct VerifyingKey {
    kid: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyingKey")
            .field("kid", &self.kid)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl VerifyingKey {
    /// The key for tokens by `HS256`, which never comes from a JWKS.
    pub(super) fn of_secret(key: DecodingKey) -> Self {
        Self {
            kid: None,
            algorithm: Algorithm::HS256,
            key,
        }
    }

    pub(super) fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(super) fn key(&self) -> &DecodingKey {
        &self.key
    }

    /// The public key that a JWK holds, with the algorithm that its type and curve leave.
    pub(super) fn of_jwk(value: &Value) -> Result<Self, JwkFault> {
        // A secret that whoever serves or reads the set knows too.
        if value["kty"] == "oct" {
            return Err(JwkFault::Symmetric);
        }
        if value.get("d").is_some() {
            return Err(JwkFault::Private);
        }
        let jwk: Jwk = serde::Deserialize::deserialize(value).map_err(|_| JwkFault::Unreadable)?;
        let algorithm = algorithm(&jwk.algorithm)?;
        check_purpose(&jwk, algorithm)?;
        let key = DecodingKey::from_jwk(&jwk).map_err(|_| JwkFault::Unreadable)?;
        Ok(Self {
            kid: jwk.common.key_id,
            algorithm,
            key: checked_size(key, algorithm)?,
        })
    }
}

/// Why a JWK verifies no token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum JwkFault {
    #[error("a symmetric key has no place in a JWKS")]
    Symmetric,

    #[error("it is a private key; whoever can read the set can sign with it")]
    Private,

    #[error("RSA of {0} bits; 2048 to 8192 are accepted")]
    RsaSize(usize),

    #[error("only RSA, EC on P-256 and OKP on Ed25519 are supported")]
    Type,

    #[error("its `alg` is not the {0:?} that its type is used with here")]
    Algorithm(Algorithm),

    #[error("it is not for verifying signatures")]
    Purpose,

    #[error("it is malformed")]
    Unreadable,

    #[error("an earlier key of the set has the same `kid` and algorithm")]
    Repeated,
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library may come to know more types of keys"
)]
fn algorithm(parameters: &AlgorithmParameters) -> Result<Algorithm, JwkFault> {
    match parameters {
        AlgorithmParameters::RSA(_) => Ok(Algorithm::RS256),
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
            Ok(Algorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            Ok(Algorithm::EdDSA)
        }
        _ => Err(JwkFault::Type),
    }
}

/// What the JWK says about its own use must not stand against ours.
fn check_purpose(jwk: &Jwk, algorithm: Algorithm) -> Result<(), JwkFault> {
    let common = &jwk.common;
    if common
        .key_algorithm
        .is_some_and(|own| own != KeyAlgorithm::from(algorithm))
    {
        return Err(JwkFault::Algorithm(algorithm));
    }
    let is_for_signatures = common
        .public_key_use
        .as_ref()
        .is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
    let verifies = common
        .key_operations
        .as_ref()
        .is_none_or(|operations| operations.contains(&KeyOperations::Verify));
    if is_for_signatures && verifies {
        Ok(())
    } else {
        Err(JwkFault::Purpose)
    }
}

fn checked_size(key: DecodingKey, algorithm: Algorithm) -> Result<DecodingKey, JwkFault> {
    match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, e } => {
            // Some issuers write the sign's byte of DER too.
            let n = &n[n.iter().take_while(|byte| **byte == 0).count()..];
            let spare = n.first().map_or(0, |byte| byte.leading_zeros() as usize);
            match n.len() * 8 - spare {
                2048..=8192 => Ok(DecodingKey::from_rsa_raw_components(n, e)),
                bits => Err(JwkFault::RsaSize(bits)),
            }
        }
        DecodingKeyKind::SecretOrDer(bytes) => {
            // An uncompressed point of P-256, or one of Ed25519.
            let length = if algorithm == Algorithm::ES256 {
                65
            } else {
                32
            };
            if bytes.len() == length {
                Ok(key)
            } else {
                Err(JwkFault::Unreadable)
            }
        }
    }
}
