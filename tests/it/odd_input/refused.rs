//! Odd text where it must not be, in what `api_input` does not go through.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Api, BagSpec, World};

/// What no line of text may be, whatever it is for.
fn bad_lines() -> Vec<String> {
    let mut bad: Vec<String> = [
        "a\rb",
        "a\nb",
        "a\r\nb",
        "a\u{1b}[2Jb",
        "a\0b",
        "a\u{8}b",
        "a\u{7f}b",
        "a\u{9b}31mb",
        "a\u{85}b",
        "a\u{2028}b",
        "a\u{2029}b",
        "a\u{202e}b",
        "\u{202a}a\u{202c}",
        "a\u{2066}b",
        "a\u{2069}",
        "\u{200b}",
        "\u{2800}\n",
        "\u{feff}\u{3164}",
        "\u{e0001}\u{e0061}",
    ]
    .map(str::to_owned)
    .to_vec();
    bad.extend(["x".repeat(10_000), "🎁".repeat(10_000), "ن".repeat(10_000)]);
    bad
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_lines_are_refused_by_the_name_of_their_field_wherever_they_are() {
    let world = World::new().await;
    let process = world.serve_with(&[("SWEEPER__ENABLED", "false")]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let import = json!({ "userIds": ["78"] });
    let redraw = json!({ "winRecordIds": ["7"] });
    let claimed = json!({ "state": "claimed" });
    let calls = [
        (
            Method::PUT,
            "/v1/deny-list/77".to_owned(),
            "reason",
            json!({}),
        ),
        (
            Method::POST,
            "/v1/deny-list/import".to_owned(),
            "reason",
            import.clone(),
        ),
        (Method::PUT, bag.path("/deny-list/77"), "reason", json!({})),
        (
            Method::POST,
            bag.path("/deny-list/import"),
            "reason",
            import,
        ),
        (Method::POST, bag.path("/redraws"), "reason", redraw),
        (Method::POST, bag.path("/cancel"), "reason", json!({})),
        (
            Method::POST,
            "/v1/win-records/7/fulfilment".to_owned(),
            "reference",
            claimed,
        ),
        (Method::POST, bag.path("/join"), "deviceId", json!({})),
    ];

    for (method, path, field, body) in calls {
        for line in bad_lines() {
            let mut body = body.clone();
            body[field] = json!(line);
            let call = (method.clone(), path.as_str());
            expect_named(&api, call, field, &body.to_string()).await;
        }
        check_half_characters(&api, (method, &path), field, &body).await;
    }
    let listed = api.get(&api.operator(), "/v1/deny-list").await.expect(200);
    assert_eq!(listed["items"], json!([]), "{listed}");
    let detail = api.get(&api.operator(), &bag.path("")).await.expect(200);
    assert_eq!(detail["status"], "open", "{detail}");

    process.stop().await;
    world.end().await;
}

async fn send(api: &Api, (method, path): (Method, &str), body: &str) -> crate::harness::Answer {
    let token = if path.contains("/win-records/") {
        api.service()
    } else {
        api.operator()
    };
    let request = api
        .http
        .request(method, format!("{}{path}", api.url))
        .bearer_auth(token)
        .header("content-type", "application/json")
        .body(body.to_owned());
    api.send(request).await
}

/// 10,000 characters are more than the small calls take at all.
async fn expect_named(api: &Api, call: (Method, &str), field: &str, body: &str) {
    let answer = send(api, call, body).await;
    if answer.status == 413 {
        assert!(body.len() > 4_096, "{body}");
        answer.expect_problem(413, "body_too_large");
        return;
    }
    assert_eq!(
        answer.faulty_fields(),
        [field],
        "{body:.99}: {}",
        answer.body
    );
    answer.expect_problem(422, "invalid_request");
}

/// Halves of a pair of escapes, which no text can hold.
async fn check_half_characters(api: &Api, call: (Method, &str), field: &str, body: &Value) {
    for half in [
        r"\ud83c",
        r"\udf81",
        r"\udf81\ud83c",
        r"\ud83cx",
        r"\ud83c\u0041",
    ] {
        let mut body = body.clone();
        body[field] = json!("HALF");
        let body = body.to_string().replace("HALF", half);
        let answer = send(api, call.clone(), &body).await;
        let status = answer.status.as_u16();
        assert!([400, 422].contains(&status), "{body}: {}", answer.body);
        if status == 422 {
            assert_eq!(answer.faulty_fields(), [field], "{body}");
        }
    }
}
