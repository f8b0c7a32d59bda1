//! Ids that mean something to paths, patterns and keys of Redis.

use futures_util::TryStreamExt;
use serde_json::json;

use super::raw;
use crate::harness::{Api, BagSpec, World};

/// Percent-encoded where a path needs it.
const ODD_IDS: [&str; 28] = [
    "1:2",
    "1%3A2",
    "%3A1",
    "{1}",
    "%7B1%7D",
    "{lb:candidate:1:0}",
    "*",
    "1*",
    "%2A",
    "?",
    "[1]",
    "%5B1-9%5D",
    "1%2F2",
    "..%2F1",
    "%2E%2E",
    "1%00",
    "1%0d%0aX-Forged:%201",
    "1%20",
    "%201",
    "%09",
    "1%E2%80%AE",
    "%EF%BC%97",
    "%D9%A7",
    "%F0%9F%8E%81",
    "1;2",
    "1%2C2",
    "%2B7",
    "0x7",
];

#[tokio::test(flavor = "multi_thread")]
async fn odd_ids_are_refused_by_name_and_leave_no_trace() {
    let world = World::new().await;
    let process = world.serve_with(&[("SWEEPER__ENABLED", "false")]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;

    check_paths(&api).await;
    check_queries(&api, &bag.path("/winners")).await;
    check_bodies(&api).await;
    check_keys(&world).await;

    process.stop().await;
    world.end().await;
}

async fn check_paths(api: &Api) {
    let long = "9".repeat(5_000);
    let token = api.operator();
    for id in ODD_IDS
        .into_iter()
        .chain([long.as_str(), "..", "%25%33%37"])
    {
        for (path, field) in [
            (format!("/v1/activities/{id}"), "activityId"),
            (format!("/v1/activities/{id}/result"), "activityId"),
            (format!("/v1/activities/{id}/events"), "activityId"),
            (format!("/v1/rooms/{id}/activities"), "roomId"),
            (format!("/v1/activities/{id}/deny-list"), "activityId"),
        ] {
            let (status, text) = raw::send(&api.url, &raw::get(&path, &token, &[])).await;
            // What is no path of ours, or no path at all, may be refused as that.
            assert!([400, 404, 422].contains(&status), "{path:.99}: {text:.999}");
            let names_it = text.contains(&format!("\"field\":\"{field}\""));
            assert!(status != 422 || names_it, "{path:.99}: {text:.999}");
            assert!(
                !text.to_lowercase().contains("\nx-forged"),
                "{path:.99}: {text}"
            );
            assert!(!text.contains("activity_not_found"), "{path:.99}: {text}");
        }
    }
}

async fn check_queries(api: &Api, winners: &str) {
    for id in ODD_IDS {
        for (path, field) in [
            (format!("/v1/activities?roomId={id}"), "roomId"),
            (format!("{winners}?prizeId={id}"), "prizeId"),
            (format!("{winners}?cursor={id}"), "cursor"),
        ] {
            let request = raw::get(&path, &api.operator(), &[]);
            let (status, text) = raw::send(&api.url, &request).await;
            assert_eq!(status, 422, "{path}: {text}");
            assert!(
                text.contains(&format!("\"field\":\"{field}\"")),
                "{path}: {text}"
            );
        }
    }
}

async fn check_bodies(api: &Api) {
    for id in [
        "1:2",
        "{1}",
        "*",
        "1*",
        "../1",
        "1\0",
        "1\r\n2",
        " 1",
        "\u{202e}1",
        "７",
        "١",
        "1\u{301}",
    ] {
        let import = json!({ "userIds": ["5", id] });
        let answer = api
            .post(&api.operator(), "/v1/deny-list/import", Some(import))
            .await;
        assert_eq!(
            answer.faulty_fields(),
            ["userIds[1]"],
            "{id:?}: {}",
            answer.body
        );
        let draft = json!({ "roomId": id, "title": "x", "countdownSeconds": 300,
            "prizes": [{ "name": "x", "kind": "virtual", "quantity": 1 }] });
        let answer = api
            .post(&api.operator(), "/v1/activities", Some(draft))
            .await;
        assert_eq!(
            answer.faulty_fields(),
            ["roomId"],
            "{id:?}: {}",
            answer.body
        );
        let event = json!({ "activityId": id, "userId": 7, "taskId": "follow",
            "completedAt": "2026-01-31T20:00:00.000Z" });
        let answer = api.try_report("tasks", &[event]).await;
        assert_eq!(
            answer.faulty_fields(),
            ["events[0].activityId"],
            "{id:?}: {}",
            answer.body
        );
    }
}

/// Every key that the calls have left is one of ours.
async fn check_keys(world: &World) {
    let pattern = format!("{}:*", world.namespace);
    let keys = world.redis.next().scan_buffered(pattern, Some(1_000), None);
    let keys: Vec<_> = keys.try_collect().await.expect("all keys");
    for key in &keys {
        let is_ours = |byte: &u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":{}_-".contains(byte)
        };
        assert!(key.as_bytes().iter().all(is_ours), "{key:?}");
    }
    assert!(!keys.is_empty(), "the open activity has keys");
}
