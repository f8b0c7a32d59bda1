//! Everybody who may call, with a proper token or without.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use luckybag::{
    http::Role,
    kernel::{Clock, RoomId, SystemClock, UserId},
};
use serde_json::{Value, json};

use crate::harness::{Api, IssuerKey, claims, jwks};

/// The room of the activities under test.
pub(super) const ROOM: u64 = 8001;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    NoToken,
    Expired,
    WrongKey,
    OtherAlgorithm,
    NoAlgorithm,
    TextAsExpiry,
    NoExpiry,
    NotYet,
    FaultyUser,
    /// The public key of `RS256` taken as a secret of `HS256`, with its name and without.
    PublicKeyAsSecret,
    NamedPublicKeyAsSecret,
    /// Signed with the secret, in the name of a public key.
    SecretAsPublicKey,
    /// By a key of its own, under the name of ours, of nobody, or brought along.
    WrongPublicKey,
    UnknownKey,
    KeyInHeader,
    /// One of our keys under the name of another one of ours.
    OtherPublicKey,
    ExpiredByPublicKey,
    TextAsExpiryByPublicKey,
    Viewer,
    StrangeRole,
    OtherHost,
    Host,
    Operator,
    Service,
    HostByRs256,
    OtherHostByEs256,
    OperatorByEdDsa,
    ServiceByRs256,
    ViewerByEs256,
}

/// The keys of an issuer, of which the service knows the public half.
pub(super) struct Issuer {
    rs256: IssuerKey,
    es256: IssuerKey,
    ed_dsa: IssuerKey,
    stranger: IssuerKey,
}

impl Issuer {
    pub(super) fn new() -> Self {
        Self {
            rs256: IssuerKey::rs256("rsa"),
            es256: IssuerKey::es256("ec"),
            ed_dsa: IssuerKey::ed_dsa("ed"),
            stranger: IssuerKey::rs256("rsa"),
        }
    }

    pub(super) fn jwks(&self) -> String {
        jwks(&[&self.rs256, &self.es256, &self.ed_dsa])
    }

    /// Every form of every public key as a secret, under every name.
    pub(super) fn public_keys_as_secrets(&self) -> Vec<String> {
        let mut tokens = Vec::new();
        for key in [&self.rs256, &self.es256, &self.ed_dsa] {
            for secret in key.public_forms() {
                for kid in [None, Some(key.kid.clone())] {
                    let mut header = Header::new(Algorithm::HS256);
                    header.kid = kid;
                    tokens.push(encode(&header, &operator(&json!({})), &secret));
                }
            }
        }
        tokens
    }
}

impl Caller {
    pub(super) const ALL: [Self; 29] = [
        Self::NoToken,
        Self::Expired,
        Self::WrongKey,
        Self::OtherAlgorithm,
        Self::NoAlgorithm,
        Self::TextAsExpiry,
        Self::NoExpiry,
        Self::NotYet,
        Self::FaultyUser,
        Self::PublicKeyAsSecret,
        Self::NamedPublicKeyAsSecret,
        Self::SecretAsPublicKey,
        Self::WrongPublicKey,
        Self::UnknownKey,
        Self::KeyInHeader,
        Self::OtherPublicKey,
        Self::ExpiredByPublicKey,
        Self::TextAsExpiryByPublicKey,
        Self::Viewer,
        Self::StrangeRole,
        Self::OtherHost,
        Self::Host,
        Self::Operator,
        Self::Service,
        Self::HostByRs256,
        Self::OtherHostByEs256,
        Self::OperatorByEdDsa,
        Self::ServiceByRs256,
        Self::ViewerByEs256,
    ];

    /// Who has the same rights by a token of the secret.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others are themselves")]
    pub(super) fn by_secret(self) -> Self {
        match self {
            Self::HostByRs256 => Self::Host,
            Self::OtherHostByEs256 => Self::OtherHost,
            Self::OperatorByEdDsa => Self::Operator,
            Self::ServiceByRs256 => Self::Service,
            Self::ViewerByEs256 => Self::Viewer,
            other => other,
        }
    }

    /// Whether anybody believes its token.
    pub(super) fn is_known(self) -> bool {
        matches!(
            self.by_secret(),
            Self::Viewer
                | Self::StrangeRole
                | Self::OtherHost
                | Self::Host
                | Self::Operator
                | Self::Service
        )
    }

    pub(super) fn token(self, api: &Api, issuer: &Issuer) -> Option<String> {
        self.token_by_issuer(api, issuer)
            .or_else(|| self.token_by_secret(api))
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others are signed by the other half"
    )]
    fn token_by_issuer(self, api: &Api, issuer: &Issuer) -> Option<String> {
        let now = SystemClock.now().timestamp();
        let own = operator(&json!({}));
        let speaks =
            |role: &str, rooms: &[u64]| claims(&json!({ "roles": [role], "rooms": rooms }));
        let token = match self {
            Self::PublicKeyAsSecret => issuer.public_keys_as_secrets().swap_remove(0),
            Self::NamedPublicKeyAsSecret => issuer.public_keys_as_secrets().swap_remove(1),
            Self::SecretAsPublicKey => {
                let mut header = Header::new(Algorithm::HS256);
                header.kid = Some(issuer.rs256.kid.clone());
                encode(&header, &own, api.signing_secret().as_bytes())
            }
            Self::WrongPublicKey => issuer.stranger.sign(&own),
            Self::UnknownKey => {
                let mut header = issuer.stranger.header();
                header.kid = Some("nobody".to_owned());
                issuer.stranger.sign_as(&header, &own)
            }
            Self::KeyInHeader => {
                let mut header = issuer.stranger.header();
                header.jwk = serde_json::from_value(issuer.stranger.jwk()).ok();
                assert!(header.jwk.is_some());
                header.jku = Some("http://127.0.0.1:1/jwks.json".to_owned());
                issuer.stranger.sign_as(&header, &own)
            }
            Self::OtherPublicKey => {
                let mut header = issuer.es256.header();
                header.kid = Some(issuer.rs256.kid.clone());
                issuer.es256.sign_as(&header, &own)
            }
            Self::ExpiredByPublicKey => issuer.rs256.sign(&operator(&json!({ "exp": now - 1 }))),
            Self::TextAsExpiryByPublicKey => {
                let exp = (now + 600).to_string();
                issuer.es256.sign(&operator(&json!({ "exp": exp })))
            }
            Self::HostByRs256 => issuer.rs256.sign(&speaks("host", &[ROOM])),
            Self::OtherHostByEs256 => issuer.es256.sign(&speaks("host", &[ROOM - 1, ROOM + 1])),
            Self::OperatorByEdDsa => issuer.ed_dsa.sign(&own),
            Self::ServiceByRs256 => issuer.rs256.sign(&speaks("service", &[])),
            Self::ViewerByEs256 => issuer.es256.sign(&speaks("viewer", &[])),
            _ => return None,
        };
        Some(token)
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others are signed by the other half"
    )]
    fn token_by_secret(self, api: &Api) -> Option<String> {
        let now = SystemClock.now().timestamp();
        let sign = |changes: Value| Some(api.signed(&operator(&changes)));
        match self {
            Self::Expired => sign(json!({ "exp": now - 1 })),
            Self::WrongKey => Some(encode(
                &Header::default(),
                &operator(&json!({})),
                b"another secret of 32 bytes or so",
            )),
            Self::OtherAlgorithm => {
                let header = Header::new(Algorithm::HS512);
                let secret = api.signing_secret();
                Some(encode(&header, &operator(&json!({})), secret.as_bytes()))
            }
            Self::NoAlgorithm => {
                let signed = api.signed(&operator(&json!({})));
                let (_, rest) = signed.split_once('.').expect("three parts");
                let (body, _) = rest.split_once('.').expect("three parts");
                // {"alg":"none","typ":"JWT"}
                Some(format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{body}."))
            }
            Self::TextAsExpiry => sign(json!({ "exp": (now + 600).to_string() })),
            Self::NoExpiry => sign(json!({ "exp": null })),
            Self::NotYet => sign(json!({ "nbf": now + 600 })),
            Self::FaultyUser => sign(json!({ "sub": "007" })),
            Self::Viewer => Some(api.viewer(5)),
            Self::StrangeRole => sign(json!({ "roles": ["Operator", "admin", "root"] })),
            Self::OtherHost => {
                let rooms = [RoomId(ROOM - 1), RoomId(ROOM + 1)];
                Some(api.token(UserId(6), Role::Host, &rooms))
            }
            Self::Host => Some(api.host_of(ROOM)),
            Self::Operator => Some(api.operator()),
            Self::Service => Some(api.token(UserId(7), Role::Service, &[])),
            _ => None,
        }
    }
}

/// What an operator's token says, but for `changes`; null leaves a claim out.
fn operator(changes: &Value) -> Value {
    let mut all = json!({ "roles": ["operator"] });
    let changes = changes.as_object().expect("an object").clone();
    all.as_object_mut().expect("an object").extend(changes);
    claims(&all)
}

fn encode(header: &Header, claims: &Value, secret: &[u8]) -> String {
    let key = EncodingKey::from_secret(secret).expect("a key");
    jsonwebtoken::encode(header, claims, &key).expect("a token")
}

impl Api {
    /// A token with any claims, signed with the right key.
    fn signed(&self, claims: &Value) -> String {
        encode(&Header::default(), claims, self.signing_secret().as_bytes())
    }
}

/// The right token in wrong clothes, none of which is believed.
pub(super) fn faulty_headers(api: &Api) -> Vec<String> {
    let token = api.token(UserId(1), Role::Operator, &[]);
    let (head, signature) = token.rsplit_once('.').expect("three parts");
    vec![
        String::new(),
        token.clone(),
        format!("Basic {token}"),
        format!("Bearer{token}"),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Bearer {head}"),
        format!("Bearer {head}."),
        format!("Bearer {head}.{signature}.{signature}"),
        format!("Bearer {signature}.{head}"),
        format!("Bearer {}", "a.".repeat(1_000)),
    ]
}
