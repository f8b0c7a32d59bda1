//! The keys of one JWKS.

use std::{fmt, sync::Arc};

use serde::Deserialize;
use serde_json::Value;

use super::jwk::{JwkFault, VerifyingKey};

/// The most that is read of a JWKS: real ones have a few thousand bytes.
pub(super) const SIZE_LIMIT_BYTES: usize = 256 * 1024;

/// The usable keys of one JWKS; never empty when it was parsed.
#[derive(Debug, Default)]
pub(super) struct KeySet {
    pub(super) keys: Vec<Arc<VerifyingKey>>,
    pub(super) skipped: Vec<Skipped>,
}

/// A key that was left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) kid: String,
    pub(super) why: JwkFault,
}

/// Why a JWKS is of no use as a whole.
#[derive(Debug, thiserror::Error)]
pub enum KeySetFault {
    #[error("it has more than {SIZE_LIMIT_BYTES} bytes")]
    TooLarge,

    #[error("it is not a JWKS, `{{\"keys\": [...]}}`")]
    NotAKeySet(#[source] serde_json::Error),

    #[error("it has no usable key{0}")]
    NoUsableKey(SkippedKeys),
}

/// Some keys that were left out, on one line.
#[derive(Debug)]
pub struct SkippedKeys(Vec<Skipped>);

impl SkippedKeys {
    /// More would fill the log.
    const SHOWN: usize = 10;
}

impl fmt::Display for SkippedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Skipped { kid, why } in self.0.iter().take(Self::SHOWN) {
            write!(f, "; `{kid}`: {why}")?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a JWKS key by key, so that one key of another kind does not spoil the others.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, KeySetFault> {
        if bytes.len() > SIZE_LIMIT_BYTES {
            return Err(KeySetFault::TooLarge);
        }
        let document: Document = serde_json::from_slice(bytes).map_err(KeySetFault::NotAKeySet)?;
        let mut set = Self::default();
        for value in &document.keys {
            match set.next_key(value) {
                Ok(key) => set.keys.push(Arc::new(key)),
                Err(why) => set.skipped.push(Skipped {
                    kid: shown_kid(value),
                    why,
                }),
            }
        }
        if set.keys.is_empty() {
            return Err(KeySetFault::NoUsableKey(SkippedKeys(set.skipped)));
        }
        Ok(set)
    }

    fn next_key(&self, value: &Value) -> Result<VerifyingKey, JwkFault> {
        let key = VerifyingKey::of_jwk(value)?;
        let is_repeated = key.kid().is_some()
            && self
                .keys
                .iter()
                .any(|other| other.kid() == key.kid() && other.algorithm() == key.algorithm());
        if is_repeated {
            return Err(JwkFault::Repeated);
        }
        Ok(key)
    }
}

/// The key's name for the log.
fn shown_kid(value: &Value) -> String {
    const SHOWN_CHARS: usize = 100;
    let kid = value["kid"].as_str().unwrap_or("(no kid)");
    kid.chars().take(SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    /// Base64url of `length` bytes, the first of them 0xff.
    fn octets(length: usize) -> String {
        let mut bytes = vec![0; length];
        bytes[0] = 0xff;
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn rsa(bytes: usize) -> Value {
        json!({ "kty": "RSA", "kid": "r", "n": octets(bytes), "e": "AQAB" })
    }

    fn ed() -> Value {
        json!({ "kty": "OKP", "kid": "o", "crv": "Ed25519", "x": octets(32) })
    }

    fn ec() -> Value {
        json!({ "kty": "EC", "kid": "e", "crv": "P-256", "x": octets(32), "y": octets(32) })
    }

    fn with(mut key: Value, changes: &Value) -> Value {
        let fields = changes.as_object().unwrap().clone();
        key.as_object_mut().unwrap().extend(fields);
        key
    }

    fn parse(keys: &[Value]) -> Result<KeySet, KeySetFault> {
        KeySet::parse(&serde_json::to_vec(&json!({ "keys": keys })).unwrap())
    }

    fn algorithms(set: &KeySet) -> Vec<String> {
        let keys = set.keys.iter();
        keys.map(|key| format!("{} {:?}", key.kid().unwrap(), key.algorithm()))
            .collect()
    }

    #[test]
    fn type_and_curve_of_a_key_fix_its_algorithm() {
        let set = parse(&[
            rsa(256),
            ec(),
            with(
                ed(),
                &json!({ "use": "sig", "alg": "EdDSA", "key_ops": ["verify"], "x5t": "a" }),
            ),
        ]);

        assert_eq!(algorithms(&set.unwrap()), ["r RS256", "e ES256", "o EdDSA"]);
    }

    #[test]
    fn a_key_that_must_not_verify_tokens_is_skipped_by_name_and_the_others_stay() {
        let secret = json!({ "kty": "oct", "kid": "s", "k": octets(32) });
        for (key, why) in [
            (secret.clone(), JwkFault::Symmetric),
            (
                with(secret, &json!({ "n": octets(256), "e": "AQAB" })),
                JwkFault::Symmetric,
            ),
            (rsa(128), JwkFault::RsaSize(1024)),
            (rsa(255), JwkFault::RsaSize(2040)),
            (rsa(2048), JwkFault::RsaSize(16384)),
            (with(rsa(256), &json!({ "n": "" })), JwkFault::RsaSize(0)),
            (with(rsa(256), &json!({ "d": "AQAB" })), JwkFault::Private),
            (with(rsa(256), &json!({ "use": "enc" })), JwkFault::Purpose),
            (
                with(ed(), &json!({ "key_ops": ["sign"] })),
                JwkFault::Purpose,
            ),
            (
                with(rsa(256), &json!({ "alg": "PS256" })),
                JwkFault::Algorithm(jsonwebtoken::Algorithm::RS256),
            ),
            (
                with(rsa(256), &json!({ "alg": "HS256" })),
                JwkFault::Algorithm(jsonwebtoken::Algorithm::RS256),
            ),
            (with(ec(), &json!({ "crv": "P-384" })), JwkFault::Type),
            (with(ec(), &json!({ "crv": "secp256k1" })), JwkFault::Type),
            (
                with(ec(), &json!({ "x": octets(31) })),
                JwkFault::Unreadable,
            ),
            (with(ed(), &json!({ "x": "%" })), JwkFault::Unreadable),
            (with(ed(), &json!({ "crv": "Ed448" })), JwkFault::Type),
            (with(ed(), &json!({ "kid": "good" })), JwkFault::Repeated),
            (json!({ "kid": "k" }), JwkFault::Type),
            (json!({ "kid": 7 }), JwkFault::Unreadable),
            (json!(null), JwkFault::Unreadable),
        ] {
            let good = with(ed(), &json!({ "kid": "good" }));

            let set = parse(&[good, key.clone()]).unwrap();

            assert_eq!(algorithms(&set), ["good EdDSA"], "{key}");
            assert_eq!(set.skipped.len(), 1, "{key}");
            let kid = key["kid"].as_str().unwrap_or("(no kid)");
            assert_eq!(
                (&set.skipped[0].why, set.skipped[0].kid.as_str()),
                (&why, kid),
                "{key}"
            );
        }
    }

    #[test]
    fn a_modulus_may_begin_with_the_byte_of_its_sign() {
        let mut signed = vec![0xff; 257];
        signed[0] = 0;

        let set = parse(&[with(
            rsa(256),
            &json!({ "n": URL_SAFE_NO_PAD.encode(signed) }),
        )]);

        assert_eq!(algorithms(&set.unwrap()), ["r RS256"]);
    }

    #[test]
    fn what_gives_no_key_is_refused_as_a_whole() {
        let weak = parse(&[rsa(128)]).unwrap_err().to_string();
        assert!(weak.contains("`r`: RSA of 1024 bits"), "{weak}");
        assert!(matches!(parse(&[]), Err(KeySetFault::NoUsableKey(_))));
        for text in ["", "no json", "[]", "{}", r#"{"keys": {}}"#, "<html>"] {
            let fault = KeySet::parse(text.as_bytes()).unwrap_err();
            assert!(matches!(fault, KeySetFault::NotAKeySet(_)), "{text}");
        }
        let huge = format!(r#"{{"keys": [], "x": "{}"}}"#, "x".repeat(SIZE_LIMIT_BYTES));
        let fault = KeySet::parse(huge.as_bytes()).unwrap_err();
        assert!(matches!(fault, KeySetFault::TooLarge), "{fault}");
    }
}
