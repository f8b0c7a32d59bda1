use actix_web::{http::Method, web};
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Bag {
    room_id: RoomId,
    title: String,
    #[serde(default)]
    prizes: Vec<Prize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prize {
    quantity: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Join {
    device_id: Option<String>,
}

async fn create(bag: Body<Bag>) -> Result<String, Problem> {
    let bag = bag.0;
    let mut errors = FieldErrors::new();
    if bag.title.is_empty() {
        errors.add("title", "a title has at least one character");
    }
    for (index, prize) in bag.prizes.iter().enumerate() {
        if prize.quantity == 0 {
            errors.add(format!("prizes[{index}].quantity"), "at least 1");
        }
    }
    errors.into_result()?;
    Ok(bag.room_id.to_string())
}

async fn join(body: OptionalBody<Join>) -> String {
    body.0.device_id.unwrap_or_else(|| "none".to_owned())
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(Endpoint::new("/bags").route(Method::POST, web::post().to(create)))
        .service(Endpoint::new("/join").route(Method::POST, web::post().to(join)));
}

fn post(uri: &str, body: impl Into<web::Bytes>) -> test::TestRequest {
    test::TestRequest::post()
        .uri(uri)
        .insert_header(("content-type", "application/json; charset=utf-8"))
        .set_payload(body)
}

#[actix_web::test]
async fn a_good_body_reaches_the_handler() {
    let app = app(routes).await;

    let body = r#"{"roomId": 8001, "title": "t", "prizes": [{"quantity": 1}]}"#;
    let answer = send(&app, post("/bags", body)).await;

    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(test::read_body(answer.response).await, "8001");
}

#[actix_web::test]
async fn what_is_not_json_is_answered_400() {
    let app = app(routes).await;

    for body in [
        &b""[..],
        b"{",
        b"nonsense",
        b"{\"roomId\": \"1\", \"title\": \"\xff\"}",
        b"{\"roomId\": \"1\", \"title\": \"t\"} {}",
        b"{\"bogus\": 1, ",
        b"{\"roomId\": \"1\", \"title\": \"\\ud800\"}",
        "[".repeat(10_000).as_bytes(),
    ] {
        let answer = send(&app, post("/bags", body.to_vec())).await;
        assert_eq!(answer.problem(400).await["code"], "malformed_json");
    }
}

#[actix_web::test]
async fn a_fault_is_named_by_its_json_path() {
    let app = app(routes).await;

    for (body, field) in [
        ("{}", "roomId"),
        ("[]", "body"),
        (r#"["1", "t", []]"#, "body"),
        ("7", "body"),
        ("null", "body"),
        (r#"{"roomId": "1"}"#, "title"),
        (r#"{"roomId": "007", "title": "t"}"#, "roomId"),
        (r#"{"roomId": 0, "title": "t"}"#, "roomId"),
        (r#"{"roomId": 9223372036854775808, "title": "t"}"#, "roomId"),
        (r#"{"roomId": "1", "title": 5}"#, "title"),
        (r#"{"roomId": "1", "title": null}"#, "title"),
        (r#"{"roomId": "1", "title": "t", "colour": 1}"#, "colour"),
        (r#"{"roomId": "1", "title": "t", "title": "u"}"#, "title"),
        (r#"{"roomId": "1", "title": "t", "prizes": {}}"#, "prizes"),
        (
            r#"{"roomId": "1", "title": "t", "prizes": [{}]}"#,
            "prizes[0].quantity",
        ),
        (
            r#"{"roomId": "1", "title": "t", "prizes": [{"quantity": -1}]}"#,
            "prizes[0].quantity",
        ),
        (
            r#"{"roomId": "1", "title": "t", "prizes": [{"quantity": 1, "x": 2}]}"#,
            "prizes[0].x",
        ),
    ] {
        let problem = send(&app, post("/bags", body)).await.problem(422).await;
        assert_eq!(problem["code"], "invalid_request", "{body}");
        assert_eq!(problem["errors"][0]["field"], field, "{body}: {problem}");
        assert!(
            !problem["errors"][0]["message"]
                .as_str()
                .unwrap()
                .contains("line"),
            "{problem}"
        );
    }
}

#[actix_web::test]
async fn every_fault_of_meaning_is_named_at_once() {
    let app = app(routes).await;

    let body = r#"{"roomId": "1", "title": "", "prizes": [{"quantity": 0}, {"quantity": 0}]}"#;
    let problem = send(&app, post("/bags", body)).await.problem(422).await;

    let fields: Vec<&str> = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        ["title", "prizes[0].quantity", "prizes[1].quantity"]
    );
}

#[actix_web::test]
async fn what_the_caller_sent_is_not_echoed_at_length() {
    let app = app(routes).await;

    let name = "x".repeat(20_000);
    let body = format!(r#"{{"roomId": "{name}", "title": "t", "{name}": 1}}"#);
    let answer = send(&app, post("/bags", body)).await;

    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(test::read_body(answer.response).await.len() < 2000);
}

#[actix_web::test]
async fn a_body_above_its_limit_is_answered_413() {
    let app = app(routes).await;
    let long = |bytes: usize| format!(r#""{}""#, "a".repeat(bytes));

    for (uri, bytes) in [("/bags", 5 << 20), ("/bags", 64 << 10), ("/join", 4 << 10)] {
        let problem = send(&app, post(uri, long(bytes))).await.problem(413).await;
        assert_eq!(problem["code"], "body_too_large");
    }
}

#[actix_web::test]
async fn a_body_of_another_media_type_is_answered_415() {
    let app = app(routes).await;
    let body = r#"{"roomId": "1", "title": "t"}"#;
    let request = || test::TestRequest::post().uri("/bags").set_payload(body);

    for request in [
        request(),
        request().insert_header(("content-type", "text/plain")),
        request().insert_header(("content-type", "application/x-www-form-urlencoded")),
        post("/bags", body).insert_header(("content-encoding", "gzip")),
        test::TestRequest::post().uri("/join").set_payload("{}"),
    ] {
        send(&app, request).await.problem(415).await;
    }
}

#[actix_web::test]
async fn an_optional_body_may_be_left_out() {
    let app = app(routes).await;

    for (request, expected) in [
        (test::TestRequest::post().uri("/join"), "none"),
        (post("/join", ""), "none"),
        (post("/join", "{}"), "none"),
        (post("/join", r#"{"deviceId": "d"}"#), "d"),
    ] {
        let answer = send(&app, request).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(test::read_body(answer.response).await, expected);
    }
    for body in [r#"{"userId": "9"}"#, "[]", "null"] {
        send(&app, post("/join", body)).await.problem(422).await;
    }
}

#[actix_web::test]
async fn a_client_that_sends_far_too_much_still_gets_its_answer() {
    let (base, server) = serve(routes);
    let client = reqwest::Client::new();

    for _ in 0..3 {
        let request = client
            .post(format!("{base}/bags"))
            .header("content-type", "application/json")
            .body("1".repeat(5 << 20));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 413);
        let problem: Value = answer.json().await.unwrap();
        assert_eq!(problem["code"], "body_too_large");
    }
    server.stop(false).await;
}
