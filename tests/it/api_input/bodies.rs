//! Bodies that are no JSON object, or too much of one.

use reqwest::{
    Method,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use serde_json::json;

use super::serve;
use crate::harness::{Answer, Api, BagSpec, World};

/// A call that takes a body.
struct Call {
    method: Method,
    path: String,
    /// Whether the body may be left out.
    is_optional: bool,
    /// What `{}` is answered, and the fields that it lacks.
    empty: (u16, &'static [&'static str]),
}

impl Call {
    fn new(method: Method, path: impl Into<String>, status: u16) -> Self {
        Self {
            method,
            path: path.into(),
            is_optional: false,
            empty: (status, &[]),
        }
    }

    fn optional(self) -> Self {
        Self {
            is_optional: true,
            ..self
        }
    }

    fn lacking(mut self, fields: &'static [&'static str]) -> Self {
        self.empty.1 = fields;
        self
    }

    async fn send(
        &self,
        api: &Api,
        content_type: Option<&str>,
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let mut request = api
            .http
            .request(self.method.clone(), format!("{}{}", api.url, self.path))
            .bearer_auth(api.operator())
            .body(body.into());
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        api.send(request).await
    }

    async fn send_json(&self, api: &Api, body: impl Into<Vec<u8>>) -> Answer {
        self.send(api, Some("application/json"), body).await
    }
}

/// Every call that takes a body, on things that exist; cancelling comes last.
async fn calls(api: &Api) -> Vec<Call> {
    let draft = api.draft(&BagSpec::default()).await;
    let bag = api
        .open_bag(&BagSpec {
            room: 8002,
            countdown_secs: 600,
            ..BagSpec::default()
        })
        .await;
    let prize = json!({ "name": "Mug", "kind": "physical" });
    let prize = api.post(&api.operator(), "/v1/prizes", Some(prize)).await;
    let prize = prize.expect(201)["id"].as_str().expect("an id").to_owned();
    let on_draft = |verb: &str| format!("/v1/activities/{draft}{verb}");
    vec![
        Call::new(Method::POST, "/v1/activities", 422).lacking(&[
            "roomId",
            "title",
            "prizes",
            "countdownSeconds",
        ]),
        Call::new(Method::PATCH, on_draft(""), 200),
        Call::new(Method::POST, on_draft("/reject"), 422).lacking(&["reason"]),
        Call::new(Method::POST, on_draft("/redraws"), 422).lacking(&["reason", "winRecordIds"]),
        Call::new(Method::POST, on_draft("/approve"), 409).optional(),
        Call::new(Method::POST, on_draft("/open"), 409).optional(),
        Call::new(Method::POST, on_draft("/draw"), 409).optional(),
        Call::new(Method::POST, bag.path("/join"), 202).optional(),
        Call::new(Method::POST, "/v1/prizes", 422).lacking(&["name", "kind"]),
        Call::new(Method::PATCH, format!("/v1/prizes/{prize}"), 200),
        Call::new(Method::POST, on_draft("/submit"), 200).optional(),
        Call::new(Method::POST, on_draft("/cancel"), 200).optional(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_json_object_is_refused_by_every_call_that_takes_one() {
    let world = World::new().await;
    let process = serve(&world).await;
    let api = world.api(&process).await;

    for call in calls(&api).await {
        check_not_json(&api, &call).await;
        check_not_an_object(&api, &call).await;
        check_media_types(&api, &call).await;
        check_size(&api, &call).await;

        let answer = call.send_json(&api, "{}").await;
        assert_eq!(answer.faulty_fields(), call.empty.1, "{}", answer.body);
        answer.expect(call.empty.0);
    }
    for (path, body, field) in [
        ("/v1/activities", r#"{"title": "a", "title": "b"}"#, "title"),
        (
            "/v1/activities",
            r#"{"prizes": [{"name": "a", "name": "b"}]}"#,
            "prizes[0]",
        ),
        ("/v1/prizes", r#"{"name": "a", "name": "b"}"#, "name"),
    ] {
        let answer = Call::new(Method::POST, path, 422)
            .send_json(&api, body)
            .await;
        assert!(answer.faulty_fields().contains(&field), "{}", answer.body);
        answer.expect(422);
    }

    process.stop().await;
    world.end().await;
}

async fn check_not_json(api: &Api, call: &Call) {
    let deep = "[".repeat(4_000);
    let deep_field = format!("{{\"a\":{deep}");
    for body in [
        b"{\"title\": \"a\xff\xfe\"}".as_slice(),
        b"\xef\xbb\xbf{}",
        b"{\"title\": \"Friday",
        b"{\"title\": \"Friday\"",
        b"{",
        b"   ",
        b"{} {}",
        b"{'title': 1}",
        b"{\"title\": 007}",
        b"{\"title\": NaN}",
        b"{\"title\": \"a\nb\"}",
        b"title=Friday",
        deep.as_bytes(),
        deep_field.as_bytes(),
    ] {
        let answer = call.send_json(api, body).await;
        answer.expect_problem(400, "malformed_json");
    }
    // What no number or text can hold; a call without that field may name it for being unknown.
    for body in [r#"{"title": 1e999}"#, r#"{"title": "\ud800"}"#] {
        let answer = call.send_json(api, body).await;
        assert!(
            [400, 422].contains(&answer.status.as_u16()),
            "{}",
            answer.body
        );
    }
    if !call.is_optional {
        let answer = call.send_json(api, "").await;
        answer.expect_problem(400, "malformed_json");
    }
}

async fn check_not_an_object(api: &Api, call: &Call) {
    for body in ["[]", "[{}]", "null", "5", "\"{}\"", "true"] {
        let answer = call.send_json(api, body).await;
        assert_eq!(answer.faulty_fields(), ["body"], "{body}");
        answer.expect_problem(422, "invalid_request");
    }
    let answer = call.send_json(api, r#"{"bogus": 1, "bogus": 2}"#).await;
    assert!(answer.faulty_fields().contains(&"bogus"), "{}", answer.body);
    answer.expect(422);
}

async fn check_media_types(api: &Api, call: &Call) {
    for content_type in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/jsonp"),
        Some("multipart/form-data; boundary=x"),
    ] {
        let answer = call.send(api, content_type, "{}").await;
        answer.expect_problem(415, "unsupported_media_type");
    }
    let compressed = api
        .http
        .request(call.method.clone(), format!("{}{}", api.url, call.path))
        .bearer_auth(api.operator())
        .header(CONTENT_TYPE, "application/json")
        .header(CONTENT_ENCODING, "gzip")
        .body("{}");
    let answer = api.send(compressed).await;
    answer.expect_problem(415, "unsupported_media_type");
    let answer = call
        .send(api, Some("Application/JSON; charset=utf-8"), "[]")
        .await;
    answer.expect(422);
}

async fn check_size(api: &Api, call: &Call) {
    let large = format!("{{\"title\": \"{}\"}}", "x".repeat(5 << 20));
    let answer = call.send_json(api, large).await;
    answer.expect_problem(413, "body_too_large");
}
