//! Keys of an issuer of tokens, made anew for every test.

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der},
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair,
    },
};
use base64::{Engine, engine::general_purpose::STANDARD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, jwk::Jwk};
use luckybag::kernel::{Clock, SystemClock};
use serde_json::{Value, json};

/// A private key and its name.
pub(crate) struct IssuerKey {
    pub(crate) kid: String,
    algorithm: Algorithm,
    key: EncodingKey,
    /// What everybody may have of it.
    public_der: Vec<u8>,
}

impl IssuerKey {
    pub(crate) fn rs256(kid: &str) -> Self {
        // PKCS#8 puts 26 bytes before a PKCS#1 key of this size.
        const WRAPPING: usize = 26;
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let pkcs8: Pkcs8V1Der = pair.as_der().expect("DER");
        let public: PublicKeyX509Der = pair.public_key().as_der().expect("DER");
        Self {
            kid: kid.to_owned(),
            algorithm: Algorithm::RS256,
            key: EncodingKey::from_rsa_der(&pkcs8.as_ref()[WRAPPING..]),
            public_der: public.as_ref().to_vec(),
        }
    }

    pub(crate) fn es256(kid: &str) -> Self {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref()).expect("a key");
        Self {
            kid: kid.to_owned(),
            algorithm: Algorithm::ES256,
            key: EncodingKey::from_ec_der(pkcs8.as_ref()),
            public_der: pair.public_key().as_ref().to_vec(),
        }
    }

    pub(crate) fn ed_dsa(kid: &str) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8.as_ref()).expect("a key");
        Self {
            kid: kid.to_owned(),
            algorithm: Algorithm::EdDSA,
            key: EncodingKey::from_ed_der(pkcs8.as_ref()),
            public_der: pair.public_key().as_ref().to_vec(),
        }
    }

    /// The public key as a JWKS has it.
    pub(crate) fn jwk(&self) -> Value {
        let jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("a JWK");
        let mut jwk = serde_json::to_value(jwk).expect("JSON");
        jwk["kid"] = self.kid.clone().into();
        jwk["use"] = "sig".into();
        jwk
    }

    /// A header that names this key and its algorithm.
    pub(crate) fn header(&self) -> Header {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.kid.clone());
        header
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.header(), claims)
    }

    /// The same with a header that need not tell the truth, but for the algorithm.
    pub(crate) fn sign_as(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).expect("a token")
    }

    /// A token of an operator that is good for ten minutes.
    pub(crate) fn operator(&self) -> String {
        self.sign(&claims(&json!({ "roles": ["operator"] })))
    }

    /// The public key in every form in which it may be mistaken for a secret.
    pub(crate) fn public_forms(&self) -> Vec<Vec<u8>> {
        let lines = STANDARD.encode(&self.public_der);
        let lines: Vec<&str> = (0..lines.len())
            .step_by(64)
            .map(|at| &lines[at..lines.len().min(at + 64)])
            .collect();
        let pem = |end: &str| {
            let text = lines.join("\n");
            format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----{end}")
        };
        vec![
            pem("\n").into_bytes(),
            pem("").into_bytes(),
            self.public_der.clone(),
            self.jwk().to_string().into_bytes(),
            self.jwk()["n"].to_string().into_bytes(),
        ]
    }
}

/// What an unprivileged token of user 1 says, but for `changes`; null leaves a claim out.
pub(crate) fn claims(changes: &Value) -> Value {
    let mut claims = json!({ "sub": "1", "exp": SystemClock.now().timestamp() + 600 });
    let fields = claims.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        if value.is_null() {
            fields.remove(name);
        } else {
            fields.insert(name.clone(), value.clone());
        }
    }
    claims
}

/// The JWKS of these keys.
pub(crate) fn jwks(keys: &[&IssuerKey]) -> String {
    let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
    json!({ "keys": keys }).to_string()
}
