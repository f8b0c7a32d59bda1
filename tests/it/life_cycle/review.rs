//! Drafts, their review, and what each state forbids.

use luckybag::{
    http::Role,
    kernel::{ActivityId, RoomId, Timestamp, UserId},
};
use serde_json::{Value, json};

use crate::harness::{Api, BagSpec, World};

const EXEMPT_HOST: UserId = UserId(77);

/// A draft that is not drawn while the test runs.
fn long(room: u64) -> BagSpec {
    BagSpec {
        room,
        countdown_secs: 600,
        ..BagSpec::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_is_reviewed_opens_and_is_cancelled_and_every_step_is_audited() {
    let world = World::new().await;
    // Nothing happens by itself.
    let process = world
        .serve_with(&[
            ("ACTIVITY__REVIEW_REQUIRED", "true"),
            ("ACTIVITY__REVIEW_EXEMPT_HOSTS", "77,78"),
            ("SWEEPER__ENABLED", "false"),
            ("DRAW__MESSAGES_ENABLED", "false"),
        ])
        .await;
    let api = world.api(&process).await;

    check_review(&api).await;
    check_rejection(&api).await;
    check_exempt_hosts(&api).await;
    check_forbidden_steps(&world, &api).await;
    world.expect_empty_outbox().await;

    process.stop().await;
    world.end().await;
}

async fn check_review(api: &Api) {
    let id = api.draft(&long(1)).await;
    let path = format!("/v1/activities/{id}");
    let edits = json!({
        "title": "Saturday bag", "countdownSeconds": 700, "presenceRule": "forfeit",
        "prizes": [{ "name": "Mug", "kind": "physical", "quantity": 2 }],
    });
    let changed = api.patch(&api.host_of(1), &path, edits).await.expect(200);
    assert_eq!(changed["version"], 2, "{changed}");
    assert_eq!(changed["title"], "Saturday bag", "{changed}");
    assert_eq!(changed["winnerCount"], 2, "{changed}");
    assert_eq!(changed["commitment"], Value::Null, "{changed}");

    let submitted = api.step(id, "submit").await.expect(200);
    assert_eq!(submitted["status"], "in_review", "{submitted}");
    let late_change = json!({ "title": "Sunday bag" });
    let answer = api.patch(&api.host_of(1), &path, late_change).await;
    answer.expect_problem(409, "illegal_transition");
    let own_approval = api
        .post(&api.host_of(1), &format!("{path}/approve"), None)
        .await;
    own_approval.expect_problem(403, "forbidden");
    let approved = api.step(id, "approve").await.expect(200);
    assert_eq!(approved["status"], "ready", "{approved}");
    let opened = api
        .post(&api.host_of(1), &format!("{path}/open"), None)
        .await;
    check_opening(&opened.expect(200), id);
    check_audit(api, id, &path).await;
}

fn check_opening(opened: &Value, id: ActivityId) {
    let time = |name: &str| -> Timestamp {
        let text = opened[name].as_str().expect(name);
        text.parse().expect("a time")
    };
    assert_eq!(opened["status"], "open", "{opened}");
    assert_eq!(
        (time("drawAt") - time("startAt")).num_milliseconds(),
        700_000
    );
    assert_eq!(
        opened["commitment"].as_str().map(str::len),
        Some(64),
        "{opened}"
    );
    assert_eq!(opened["rules"]["activityId"], id.to_string(), "{opened}");
    assert_eq!(opened["rules"]["drawAt"], opened["drawAt"], "{opened}");
    assert_eq!(opened["rules"]["presenceRule"], "forfeit", "{opened}");
    assert!(opened.get("seed").is_none(), "{opened}");
}

async fn check_audit(api: &Api, id: ActivityId, path: &str) {
    let request = api
        .http
        .post(format!("{}{path}/cancel", api.url))
        .bearer_auth(api.host_of(1))
        .header("x-request-id", "the-cancellation")
        .json(&json!({ "reason": "The host is ill" }));
    let cancelled = api.send(request).await.expect(200);
    assert_eq!(cancelled["statusReason"], "The host is ill", "{cancelled}");

    let expected = [
        ("user:2", "activity.create"),
        ("user:2", "activity.update"),
        ("user:1", "activity.submit"),
        ("user:1", "activity.approve"),
        ("user:2", "activity.open"),
        ("user:2", "activity.cancel"),
    ];
    let audited = api.audited(id).await;
    let audited: Vec<(&str, &str)> = audited
        .iter()
        .map(|(actor, action)| (actor.as_str(), action.as_str()))
        .collect();
    assert_eq!(audited, expected);

    // Page by page, to the last one.
    let (mut cursor, mut records) = (String::new(), Vec::new());
    loop {
        let page = format!("{path}/audit?limit=4{cursor}");
        let page = api.get(&api.operator(), &page).await.expect(200);
        records.extend(page["items"].as_array().expect("a list").clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(records.len(), expected.len());
    assert_eq!(records[5]["requestId"], "the-cancellation");
    let detail = json!({ "from": "open", "reason": "The host is ill" });
    assert_eq!(records[5]["detail"], detail);
    let hidden = api.get(&api.viewer(5), &format!("{path}/audit")).await;
    hidden.expect_problem(403, "forbidden");
}

async fn check_rejection(api: &Api) {
    let id = api.draft(&long(1)).await;
    api.step(id, "submit").await.expect(200);

    let rejected = api.step(id, "reject").await.expect(200);

    assert_eq!(rejected["status"], "rejected", "{rejected}");
    assert_eq!(rejected["statusReason"], "Prizes are missing", "{rejected}");
    let shown = api
        .get(&api.viewer(5), &format!("/v1/activities/{id}"))
        .await;
    shown.expect_problem(404, "activity_not_found");
}

/// It is the activity's host that is exempt, whoever submits it.
async fn check_exempt_hosts(api: &Api) {
    let exempt = api.token(EXEMPT_HOST, Role::Host, &[RoomId(1)]);
    let body = json!({
        "roomId": "1", "title": "Bag", "countdownSeconds": 300,
        "prizes": [{ "name": "Mug", "kind": "physical", "quantity": 1 }],
    });
    let own = api
        .post(&exempt, "/v1/activities", Some(body))
        .await
        .expect(201);
    assert_eq!(own["hostId"], EXEMPT_HOST.to_string(), "{own}");
    let own: ActivityId = serde_json::from_value(own["id"].clone()).expect("an id");
    let others = api.draft(&long(1)).await;

    let submitted = api.step(own, "submit").await.expect(200);
    assert_eq!(submitted["status"], "ready", "{submitted}");
    let path = format!("/v1/activities/{others}/submit");
    let submitted = api.post(&exempt, &path, None).await.expect(200);
    assert_eq!(submitted["status"], "in_review", "{submitted}");
}

const SUBMITTED: &[&str] = &["submit"];
const READY: &[&str] = &["submit", "approve"];
const OPEN: &[&str] = &["submit", "approve", "open"];
const ALL: &[&str] = &["edit", "submit", "approve", "reject", "open", "cancel"];

/// How an activity gets into a state, and what it refuses there.
struct Forbidden {
    state: &'static str,
    steps_before: &'static [&'static str],
    /// What the service alone would do, or time.
    change: Option<&'static str>,
    refused: &'static [&'static str],
}

const FORBIDDEN: &[Forbidden] = &[
    Forbidden {
        state: "draft",
        steps_before: &[],
        change: None,
        refused: &["approve", "reject", "open"],
    },
    Forbidden {
        state: "in_review",
        steps_before: SUBMITTED,
        change: None,
        refused: &["edit", "submit", "open"],
    },
    Forbidden {
        state: "rejected",
        steps_before: &["submit", "reject"],
        change: None,
        refused: ALL,
    },
    Forbidden {
        state: "ready",
        steps_before: READY,
        change: None,
        refused: &["edit", "submit", "approve", "reject"],
    },
    Forbidden {
        state: "open",
        steps_before: OPEN,
        change: None,
        refused: &["edit", "submit", "approve", "reject", "open"],
    },
    // It is due: nothing may come before its draw.
    Forbidden {
        state: "open",
        steps_before: OPEN,
        change: Some("draw_at = NOW(3) - INTERVAL 1 SECOND"),
        refused: ALL,
    },
    Forbidden {
        state: "drawing",
        steps_before: OPEN,
        change: Some("status = 'drawing', lease_until = NOW(3) + INTERVAL 1 HOUR"),
        refused: ALL,
    },
    Forbidden {
        state: "drawn",
        steps_before: OPEN,
        change: Some("status = 'drawn', round = 1, drawn_at = NOW(3)"),
        refused: ALL,
    },
    Forbidden {
        state: "cancelled",
        steps_before: &["cancel"],
        change: None,
        refused: ALL,
    },
];

async fn check_forbidden_steps(world: &World, api: &Api) {
    for (room, case) in (100..).zip(FORBIDDEN) {
        let id = api.draft(&long(room)).await;
        for verb in case.steps_before {
            api.step(id, verb).await.expect(200);
        }
        if let Some(change) = case.change {
            world
                .execute(&format!("UPDATE activity SET {change} WHERE id = {id}"))
                .await;
        }
        let row = format!(
            "SELECT COUNT(*) FROM activity WHERE id = {id} AND status = '{}' AND version = {}",
            case.state,
            case.steps_before.len() + 1,
        );
        let audit = format!("SELECT COUNT(*) FROM audit WHERE activity_id = {id}");
        assert_eq!(world.number(&row).await, 1, "{}", case.state);
        let audited = world.number(&audit).await;

        for verb in case.refused {
            let answer = if *verb == "edit" {
                let path = format!("/v1/activities/{id}");
                api.patch(&api.operator(), &path, json!({ "title": "x" }))
                    .await
            } else {
                api.step(id, verb).await
            };
            let problem = answer.expect(409);
            assert_eq!(problem["code"], "illegal_transition", "{verb}: {problem}");
        }
        assert_eq!(world.number(&row).await, 1, "{} was changed", case.state);
        assert_eq!(world.number(&audit).await, audited, "{}", case.state);
    }
    check_late_opening(world, api).await;
}

/// There is not enough time left for a draw on the announced second.
async fn check_late_opening(world: &World, api: &Api) {
    let id = api.draft(&long(99)).await;
    for verb in READY {
        api.step(id, verb).await.expect(200);
    }
    world
        .execute(&format!(
            "UPDATE activity SET draw_at = NOW(3) + INTERVAL 4 SECOND WHERE id = {id}"
        ))
        .await;

    let answer = api.step(id, "open").await;

    answer.expect_problem(409, "draw_too_soon");
    assert_eq!(api.detail(id).await["status"], "ready");
}
