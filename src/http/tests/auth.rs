use actix_web::{
    http::{Method, header},
    web,
};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

use super::*;

async fn whoami(viewer: Viewer) -> String {
    viewer.user_id().to_string()
}

async fn host(host: HostOrOperator, room: PathId<RoomId>) -> Result<String, Problem> {
    host.may_act_in(room.0)?;
    Ok("done".to_owned())
}

async fn operator(_: Operator) -> &'static str {
    "done"
}

async fn service(_: Service) -> &'static str {
    "done"
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(Endpoint::new("/me").route(Method::GET, web::get().to(whoami)))
        .service(Endpoint::new("/rooms/{roomId}").route(Method::POST, web::post().to(host)))
        .service(Endpoint::new("/operator").route(Method::POST, web::post().to(operator)))
        .service(Endpoint::new("/service").route(Method::POST, web::post().to(service)));
}

fn with_token(request: test::TestRequest, token: &str) -> test::TestRequest {
    request.insert_header((header::AUTHORIZATION, format!("Bearer {token}")))
}

fn signed(claims: &Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}

fn later() -> i64 {
    SystemClock.now().timestamp() + 60
}

/// A token whose header names another algorithm, with the signature of `HS256` kept.
fn relabelled(algorithm: &str) -> String {
    let token = signed(&json!({ "sub": "7", "exp": later() }));
    let (_, rest) = token.split_once('.').unwrap();
    let header = format!(r#"{{"typ":"JWT","alg":"{algorithm}"}}"#);
    format!("{}.{rest}", base64_url(header.as_bytes()))
}

fn base64_url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = bytes
        .iter()
        .fold(String::new(), |bits, byte| bits + &format!("{byte:08b}"));
    bits.as_bytes()
        .chunks(6)
        .map(|chunk| {
            let sextet = format!("{:0<6}", std::str::from_utf8(chunk).unwrap());
            char::from(DIGITS[usize::from_str_radix(&sextet, 2).unwrap()])
        })
        .collect()
}

#[actix_web::test]
async fn a_valid_token_says_who_calls() {
    let app = app(routes).await;

    for token in [
        token_of(&[], &[]),
        token_of(&[Role::Viewer], &[]),
        token_of(&[Role::Service], &[]),
        signed(&json!({ "sub": "7", "exp": later(), "roles": ["baker"], "rooms": [1, "2"] })),
    ] {
        let answer = send(
            &app,
            with_token(test::TestRequest::get().uri("/me"), &token),
        )
        .await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(test::read_body(answer.response).await, "7");
    }
}

#[actix_web::test]
async fn a_token_that_is_not_believed_is_answered_401() {
    let app = app(routes).await;
    let other_key = EncodingKey::from_secret(b"another secret of at least 32 bytes").unwrap();
    let claims = json!({ "sub": "7", "exp": later() });
    let wrong_key =
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &other_key).unwrap();
    let our_key = EncodingKey::from_secret(SECRET.as_bytes()).unwrap();
    let other_hash =
        jsonwebtoken::encode(&Header::new(Algorithm::HS512), &claims, &our_key).unwrap();
    let unsigned = relabelled("none").rsplit_once('.').unwrap().0.to_owned() + ".";

    let mut tokens = vec![
        ("empty", String::new()),
        ("noise", "not.a.token".to_owned()),
        ("another key", wrong_key),
        ("another hash", other_hash),
        ("alg none", relabelled("none")),
        ("alg none, no signature", unsigned),
        ("RS256 header", relabelled("RS256")),
        ("no exp", signed(&json!({ "sub": "7" }))),
        ("null exp", signed(&json!({ "sub": "7", "exp": null }))),
        (
            "text exp",
            signed(&json!({ "sub": "7", "exp": later().to_string() })),
        ),
        (
            "expired",
            signed(&json!({ "sub": "7", "exp": SystemClock.now().timestamp() })),
        ),
        ("negative exp", signed(&json!({ "sub": "7", "exp": -1 }))),
        (
            "not yet valid",
            signed(&json!({ "sub": "7", "exp": later(), "nbf": later() })),
        ),
        ("no sub", signed(&json!({ "exp": later() }))),
        ("number sub", signed(&json!({ "sub": 7, "exp": later() }))),
        (
            "text roles",
            signed(&json!({ "sub": "7", "exp": later(), "roles": "operator" })),
        ),
        (
            "bad rooms",
            signed(&json!({ "sub": "7", "exp": later(), "rooms": ["007"] })),
        ),
    ];
    for sub in ["", "0", "007", "-1", "1.0", "9223372036854775808", "ann"] {
        tokens.push((sub, signed(&json!({ "sub": sub, "exp": later() }))));
    }
    for (name, token) in tokens {
        let answer = send(
            &app,
            with_token(test::TestRequest::get().uri("/me"), &token),
        )
        .await;
        assert_eq!(answer.header("www-authenticate"), "Bearer", "{name}");
        assert_eq!(answer.problem(401).await["code"], "unauthorized", "{name}");
    }
}

#[actix_web::test]
async fn a_call_without_a_token_is_answered_401_before_its_path_is_judged() {
    let app = app(routes).await;

    for header in [None, Some("Basic YTpi"), Some("Bearer")] {
        let mut request = test::TestRequest::post().uri("/rooms/007");
        if let Some(value) = header {
            request = request.insert_header((header::AUTHORIZATION, value));
        }
        send(&app, request).await.problem(401).await;
    }
}

#[actix_web::test]
async fn issuer_and_audience_are_required_when_configured() {
    let mut settings = auth_settings();
    settings.issuer = Some("us".to_owned());
    settings.audience = Some("bag".to_owned());
    let auth = Auth::new(&settings, Arc::new(SystemClock)).unwrap();
    let token = NewToken {
        user_id: UserId(7),
        roles: vec![],
        rooms: vec![],
        ttl: Duration::from_mins(1),
    };

    auth.verify(&issue_token(&settings, &token, SystemClock.now()).unwrap())
        .await
        .unwrap();
    for bad in [
        json!({ "sub": "7", "exp": later() }),
        json!({ "sub": "7", "exp": later(), "iss": "us" }),
        json!({ "sub": "7", "exp": later(), "aud": "bag" }),
        json!({ "sub": "7", "exp": later(), "iss": "them", "aud": "bag" }),
        json!({ "sub": "7", "exp": later(), "iss": "us", "aud": "box" }),
    ] {
        assert_eq!(
            auth.verify(&signed(&bad)).await.unwrap_err().code(),
            "unauthorized",
            "{bad}"
        );
    }
}

#[actix_web::test]
async fn a_role_gives_the_right_to_act_and_nothing_more() {
    let app = app(routes).await;
    let host = token_of(&[Role::Host], &[RoomId(1)]);

    for (token, uri, status) in [
        (token_of(&[], &[]), "/rooms/1", 403),
        (token_of(&[], &[RoomId(1)]), "/rooms/1", 403),
        (token_of(&[Role::Viewer], &[]), "/operator", 403),
        (host.clone(), "/rooms/1", 200),
        (host.clone(), "/rooms/2", 403),
        (host.clone(), "/operator", 403),
        (host, "/service", 403),
        (token_of(&[Role::Operator], &[]), "/rooms/2", 200),
        (token_of(&[Role::Operator], &[]), "/operator", 200),
        (token_of(&[Role::Operator], &[]), "/service", 403),
        (token_of(&[Role::Service], &[]), "/service", 200),
        (token_of(&[Role::Service], &[]), "/operator", 403),
    ] {
        let answer = send(&app, with_token(test::TestRequest::post().uri(uri), &token)).await;
        assert_eq!(answer.status.as_u16(), status, "{uri}");
        if status == 403 {
            assert_eq!(answer.problem(403).await["code"], "forbidden");
        }
    }
}

#[core::prelude::v1::test]
fn without_a_key_nobody_verifies_and_nobody_signs() {
    let mut settings = auth_settings();
    settings.signing_secret = SecretString::from("");

    let error = Auth::new(&settings, Arc::new(SystemClock)).unwrap_err();

    assert!(error.to_string().contains("LUCKYBAG__AUTH__SIGNING_SECRET"));
}
