//! What callers send cannot pass for a line of the log, or steer a terminal that shows it.

use serde_json::{Value, json};

use super::{ODD_TEXTS, raw};
use crate::{
    harness::{Api, BagSpec, Process, World, eventually},
    proxy::free_address,
};

/// What would be lines of their own if a line break got through.
const FORGED_JSON: &str =
    r#"{"timestamp":"2026-01-01T00:00:00Z","level":"ERROR","message":"forged"}"#;
const FORGED_PRETTY: &str = "2026-01-01T00:00:00.000000Z ERROR luckybag: forged";

/// Everything is logged that there is to log, so that everything that is sent comes up.
const TELLING_ALL: (&str, &str) = ("LOG__FILTER", "debug,actix_http=off");

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_sent_forges_a_line_of_the_log_in_either_format() {
    let world = World::new().await;
    let trusted = ("SERVER__TRUSTED_PROXIES", "127.0.0.1");
    let plain = world.serve_with(&[TELLING_ALL, trusted]).await;
    let address = free_address().to_string();
    let pretty = [
        ("LOG__FORMAT", "pretty"),
        ("SERVER__BIND", &address),
        TELLING_ALL,
        trusted,
    ];
    let pretty = world.spawn(&pretty);
    let api = world.api(&plain).await;
    let mut at_pretty = api.clone();
    at_pretty.url = format!("http://{address}");
    answers(&at_pretty).await;

    for (room, api) in [(8001, &api), (9001, &at_pretty)] {
        send_odd_titles(api, room).await;
        send_odd_headers(api).await;
    }

    check_json_lines(&whole_log(&plain, &api).await);
    check_pretty_lines(&whole_log(&pretty, &at_pretty).await);
    plain.stop().await;
    pretty.stop().await;
    world.end().await;
}

async fn answers(api: &Api) {
    eventually("the other process", async || {
        let answer = reqwest::get(format!("{}/readyz", api.url)).await;
        match answer {
            Ok(answer) if answer.status().is_success() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Titles and reasons that are stored, and some that are refused, all of them with a forged line.
async fn send_odd_titles(api: &Api, room: u64) {
    for forged in [FORGED_JSON, FORGED_PRETTY] {
        for wrapped in [
            forged.to_owned(),
            format!("a\r\n{forged}\r\n"),
            format!("a\u{2028}{forged}"),
            format!("\u{1b}]0;{forged}\u{7}"),
        ] {
            let title = wrapped.chars().take(100).collect::<String>();
            let body = json!({ "roomId": room, "title": title, "countdownSeconds": 300, &wrapped: 1,
                "prizes": [{ "name": title, "kind": "virtual", "quantity": 1 }] });
            let answer = api
                .post(&api.operator(), "/v1/activities", Some(body))
                .await;
            assert_eq!(answer.status, 422, "{}", answer.body);
        }
    }
    for (number, text) in (0..).zip(ODD_TEXTS) {
        let spec = BagSpec {
            room: room + number,
            extra: json!({ "title": text }),
            ..BagSpec::waiting()
        };
        let bag = api.open_bag(&spec).await;
        let reason = json!({ "reason": text });
        api.post(&api.operator(), &bag.path("/cancel"), Some(reason))
            .await
            .expect(200);
    }
}

/// Headers that we read, and some that we do not, with bytes that are no text.
async fn send_odd_headers(api: &Api) {
    let names = [
        "User-Agent",
        "X-Request-Id",
        "X-Forwarded-For",
        "Forwarded",
        "Last-Event-ID",
        "Referer",
        "Idempotency-Key",
        "Traceparent",
        "Tracestate",
        "Cookie",
        "Accept",
        "Content-Type",
    ];
    for name in names {
        for value in [
            FORGED_JSON.as_bytes(),
            b"a\t\"b\\\" \xff\xfe\x80 \xc0\xaf",
            b"a\x1b[31m\x9b31m",
            b"a\rX-Forged: 1",
            b"a\nX-Forged: 1",
            b"a\0b",
            "\u{202e}\u{2028}127.0.0.1".as_bytes(),
            &[b'a'; 5_000],
        ] {
            let header = [name.as_bytes(), b": ", value].concat();
            let request = raw::get("/v1/activities/4711/result", &api.viewer(5), &[&header]);
            let (status, text) = raw::send(&api.url, &request).await;
            // What is no HTTP is refused as that, or the connection is closed.
            assert!(
                [0, 400, 404, 422, 431].contains(&status),
                "{header:?}: {text}"
            );
            assert!(
                !text.to_lowercase().contains("\nx-forged"),
                "{header:?}: {text}"
            );
        }
    }
}

/// The log, up to a last call of its own.
async fn whole_log(process: &Process, api: &Api) -> Vec<String> {
    let last = api.get(&api.viewer(5), "/v1/activities/4711/result").await;
    let id = last.header("x-request-id").to_owned();
    last.expect(404);
    eventually("the last call in the log", async || {
        let lines = process.log_lines();
        let is_last = |line: &String| line.contains("request answered") && line.contains(&id);
        if lines.iter().any(is_last) {
            Ok(lines)
        } else {
            Err(lines.len())
        }
    })
    .await
}

fn steers(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn check_json_lines(lines: &[String]) {
    for line in lines {
        assert!(!line.contains(steers), "{line:?}");
        let event: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(event.is_object() && event["message"] != "forged", "{line}");
        assert!(event["target"].is_string(), "{line}");
    }
}

fn check_pretty_lines(lines: &[String]) {
    for line in lines {
        assert!(!line.contains(steers), "{line:?}");
        assert!(
            !line.starts_with(FORGED_PRETTY) && !line.starts_with(FORGED_JSON),
            "{line}"
        );
        // Each line is an event of its own, with its time and level.
        let mut words = line.split_whitespace();
        let time = words.next().unwrap_or_default();
        assert!(
            time.parse::<luckybag::kernel::Timestamp>().is_ok(),
            "{line}"
        );
        let level = words.next().unwrap_or_default();
        assert!(
            ["DEBUG", "INFO", "WARN", "ERROR"].contains(&level),
            "{line}"
        );
    }
}
