//! Everybody who may call, with a proper token or without.

use jsonwebtoken::{EncodingKey, Header};
use luckybag::{
    http::Role,
    kernel::{Clock, RoomId, SystemClock, UserId},
};
use serde_json::{Value, json};

use crate::harness::Api;

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
    Viewer,
    StrangeRole,
    OtherHost,
    Host,
    Operator,
    Service,
}

impl Caller {
    pub(super) const ALL: [Self; 15] = [
        Self::NoToken,
        Self::Expired,
        Self::WrongKey,
        Self::OtherAlgorithm,
        Self::NoAlgorithm,
        Self::TextAsExpiry,
        Self::NoExpiry,
        Self::NotYet,
        Self::FaultyUser,
        Self::Viewer,
        Self::StrangeRole,
        Self::OtherHost,
        Self::Host,
        Self::Operator,
        Self::Service,
    ];

    /// Whether anybody believes its token.
    pub(super) fn is_known(self) -> bool {
        match self {
            Self::NoToken
            | Self::Expired
            | Self::WrongKey
            | Self::OtherAlgorithm
            | Self::NoAlgorithm
            | Self::TextAsExpiry
            | Self::NoExpiry
            | Self::NotYet
            | Self::FaultyUser => false,
            Self::Viewer
            | Self::StrangeRole
            | Self::OtherHost
            | Self::Host
            | Self::Operator
            | Self::Service => true,
        }
    }

    pub(super) fn token(self, api: &Api) -> Option<String> {
        let now = SystemClock.now().timestamp();
        let sign = |changes: Value| Some(api.signed(&claims(now, &changes)));
        match self {
            Self::NoToken => None,
            Self::Expired => sign(json!({ "exp": now - 1 })),
            Self::WrongKey => Some(encode(
                &Header::default(),
                &claims(now, &json!({})),
                b"another secret of 32 bytes or so",
            )),
            Self::OtherAlgorithm => {
                let header = Header::new(jsonwebtoken::Algorithm::HS512);
                let secret = api.signing_secret();
                Some(encode(&header, &claims(now, &json!({})), secret.as_bytes()))
            }
            Self::NoAlgorithm => {
                let signed = api.signed(&claims(now, &json!({})));
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
        }
    }
}

/// What an operator's token says, but for `changes`; null leaves a claim out.
fn claims(now: i64, changes: &Value) -> Value {
    let mut claims = json!({ "sub": "1", "exp": now + 600, "roles": ["operator"] });
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
