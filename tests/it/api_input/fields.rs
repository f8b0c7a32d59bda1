//! Field by field.

use std::time::Duration;

use luckybag::kernel::{Clock, SystemClock, format_timestamp};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    draft_with,
    faults::{self, Fault},
    good_draft, serve,
};
use crate::harness::{Answer, Api, BagSpec, World};

/// Sends each faulty body, made of the fault by `complete`, and expects its field to be named.
async fn expect_named(
    api: &Api,
    (method, path): (Method, &str),
    faults: Vec<Fault>,
    complete: impl Fn(&Value) -> Value,
) {
    for (fault, field) in faults {
        let request = api
            .http
            .request(method.clone(), format!("{}{path}", api.url))
            .bearer_auth(api.operator())
            .json(&complete(&fault));
        let answer = api.send(request).await;
        let case = format!("{method} {path} with {fault:.200}");
        assert_eq!(answer.status, 422, "{case}: {}", answer.body);
        assert_eq!(answer.body["code"], "invalid_request", "{case}");
        assert_eq!(answer.faulty_fields(), [field], "{case}: {}", answer.body);
    }
}

fn alone(fault: &Value) -> Value {
    fault.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_faulty_field_is_named_whatever_is_wrong_with_it() {
    let world = World::new().await;
    let process = serve(&world).await;
    let api = world.api(&process).await;
    let draft = api.draft(&BagSpec::default()).await;
    let prize = json!({ "name": "Mug", "kind": "physical" });
    let created = api
        .post(&api.operator(), "/v1/prizes", Some(prize.clone()))
        .await;
    let prize_id = created.expect(201)["id"].clone();
    let extra = json!({ "tasks": [{ "taskId": "follow", "title": "Follow" }] });
    let bag = api
        .open_bag(&BagSpec {
            room: 8002,
            countdown_secs: 600,
            extra,
            ..BagSpec::default()
        })
        .await;

    let create = (Method::POST, "/v1/activities");
    let new_drafts = [faults::of_drafts(), faults::of_new_drafts()].concat();
    expect_named(&api, create, new_drafts, draft_with_nulls_below).await;
    let change = format!("/v1/activities/{draft}");
    expect_named(&api, (Method::PATCH, &change), faults::of_drafts(), alone).await;
    let reject = format!("{change}/reject");
    let with_reason = |fault: &Value| merged(&json!({ "reason": "Incomplete" }), fault);
    expect_named(
        &api,
        (Method::POST, &reject),
        faults::of_reasons(),
        with_reason,
    )
    .await;
    let no_reason = vec![(json!({}), "reason"), (json!({ "reason": null }), "reason")];
    expect_named(&api, (Method::POST, &reject), no_reason, alone).await;
    let cancel = format!("{change}/cancel");
    expect_named(&api, (Method::POST, &cancel), faults::of_reasons(), alone).await;
    let join = bag.path("/join");
    expect_named(&api, (Method::POST, &join), faults::of_joins(), alone).await;
    let of_prize = |fault: &Value| merged(&prize, fault);
    let add_prize = (Method::POST, "/v1/prizes");
    expect_named(&api, add_prize, faults::of_library_prizes(), of_prize).await;
    let change_prize = format!("/v1/prizes/{}", prize_id.as_str().expect("an id"));
    let changes = (Method::PATCH, change_prize.as_str());
    expect_named(&api, changes, faults::of_library_prizes(), alone).await;

    for verb in ["submit", "approve", "open", "draw"] {
        let path = format!("{change}/{verb}");
        let fields = vec![(json!({ "drawAt": "2036-01-31T20:00:00Z" }), "drawAt")];
        expect_named(&api, (Method::POST, &path), fields, alone).await;
    }
    let unchanged = api.get(&api.operator(), &change).await.expect(200);
    assert_eq!(unchanged["version"], 1, "{unchanged}");

    process.stop().await;
    world.end().await;
}

/// A null at the top leaves a field out, but for one that no draft has.
fn draft_with_nulls_below(fault: &Value) -> Value {
    let mut draft = draft_with(fault);
    if fault.get("bogus").is_some() {
        draft["bogus"] = fault["bogus"].clone();
    }
    draft
}

fn merged(base: &Value, changes: &Value) -> Value {
    let mut whole = base.clone();
    for (name, value) in changes.as_object().expect("an object") {
        whole[name] = value.clone();
    }
    whole
}

#[tokio::test(flavor = "multi_thread")]
async fn all_faults_are_named_at_once_and_what_is_right_is_stored_and_shown() {
    let world = World::new().await;
    let process = serve(&world).await;
    let api = world.api(&process).await;

    let operator = api.operator();
    let faulty = json!({
        "roomId": "007", "titel": "x", "title": "a\rb", "bogus": 1,
        "prizes": [{ "prizeId": "9", "quantity": 0 }, [], { "name": "a", "kind": "b", "color": 1 }],
        "tasks": 5, "presenceRule": "stay", "countdownSeconds": 4, "startAt": "soon",
    });
    let named = [
        "bogus",
        "titel",
        "roomId",
        "title",
        "prizes[0].quantity",
        "prizes[0].prizeId",
        "prizes[1]",
        "prizes[2].color",
        "prizes[2].quantity",
        "prizes[2].kind",
        "tasks",
        "presenceRule",
        "countdownSeconds",
        "startAt",
    ];
    let answer = api
        .post(&operator, "/v1/activities", Some(faulty.clone()))
        .await;
    assert_eq!(answer.faulty_fields(), named, "{}", answer.body);
    let faulty_prize = json!({ "name": "", "kind": "gold", "stockTotal": -1, "bogus": 1 });
    let answer = api.post(&operator, "/v1/prizes", Some(faulty_prize)).await;
    let named = ["bogus", "name", "kind", "stockTotal"];
    assert_eq!(answer.faulty_fields(), named, "{}", answer.body);

    check_faults_of_type(&api).await;
    check_kept_as_sent(&api).await;
    check_limits_that_are_right(&api).await;

    process.stop().await;
    world.end().await;
}

/// Calls whose fields have one type each.
async fn check_faults_of_type(api: &Api) {
    let bag = api
        .open_bag(&BagSpec {
            room: 8003,
            countdown_secs: 600,
            ..BagSpec::default()
        })
        .await;
    for (verb, body, named) in [
        (
            "join",
            json!({ "userId": 5, "deviceId": 5, "completedTasks": [7], "bogus": 1 }),
            vec!["bogus", "completedTasks[0]", "deviceId", "userId"],
        ),
        (
            "join",
            json!({ "deviceId": "", "completedTasks": ["follow"] }),
            vec!["completedTasks[0]", "deviceId"],
        ),
        (
            "reject",
            json!({ "reason": 5, "bogus": 1 }),
            vec!["bogus", "reason"],
        ),
        ("reject", json!({ "Reason": "x" }), vec!["Reason", "reason"]),
        (
            "cancel",
            json!({ "reason": [], "bogus": 1 }),
            vec!["bogus", "reason"],
        ),
        (
            "open",
            json!({ "drawAt": 1, "startAt": 2 }),
            vec!["drawAt", "startAt"],
        ),
    ] {
        let path = bag.path(&format!("/{verb}"));
        let answer = api.post(&api.operator(), &path, Some(body)).await;
        let mut fields = answer.faulty_fields();
        fields.sort_unstable();
        assert_eq!(fields, named, "{verb}: {}", answer.body);
        assert_eq!(answer.status, 422);
    }
}

async fn create(api: &Api, body: Value) -> Answer {
    api.post(&api.operator(), "/v1/activities", Some(body))
        .await
}

/// Text of every script comes back as it went in.
async fn check_kept_as_sent(api: &Api) {
    let longest = "🎁".repeat(100);
    for title in [
        "福袋",
        "🎁👩‍👩‍👧‍👦 Friday",
        "حقيبة الحظ 7",
        "a'; DROP TABLE activity; --",
        "<script>\"\\/&amp;%s{}",
        &longest,
    ] {
        let conditions = format!("{title}\n\tand more");
        let body = draft_with(&json!({
            "title": title,
            "conditions": conditions,
            "prizes": [{ "name": title, "kind": "virtual", "quantity": 1, "image": title }],
            "tasks": [{ "taskId": "a.B_9-", "title": title }],
        }));
        let id = create(api, body).await.expect(201)["id"].clone();
        let path = format!("/v1/activities/{}", id.as_str().expect("a string"));
        let shown = api.get(&api.operator(), &path).await.expect(200);

        assert_eq!(shown["title"], title);
        assert_eq!(shown["conditions"], conditions);
        assert_eq!(shown["prizes"][0]["name"], title);
        assert_eq!(shown["prizes"][0]["image"], title);
        assert_eq!(shown["tasks"][0]["title"], title);
    }
}

/// The last values on the right side of each limit.
async fn check_limits_that_are_right(api: &Api) {
    let ahead = |seconds| format_timestamp(SystemClock.now() + Duration::from_secs(seconds));
    let prize = |quantity: u32| json!({ "name": "a", "kind": "virtual", "quantity": quantity });
    let many_tasks: Vec<Value> = (0..20)
        .map(|number| json!({ "taskId": format!("task-{number}"), "title": "x" }))
        .collect();
    for (changes, winners) in [
        (json!({ "countdownSeconds": 5 }), 23),
        (json!({ "countdownSeconds": 2_592_000 }), 23),
        (json!({ "countdownSeconds": null, "drawAt": ahead(60) }), 23),
        (
            json!({ "countdownSeconds": null, "drawAt": ahead(25 * 86_400) }),
            23,
        ),
        (json!({ "startAt": ahead(60), "countdownSeconds": 5 }), 23),
        (json!({ "prizes": [prize(1)] }), 1),
        (json!({ "prizes": [prize(1_000)] }), 1_000),
        (json!({ "prizes": vec![prize(1_000); 10] }), 10_000),
        (json!({ "prizes": vec![prize(1); 100] }), 100),
        (json!({ "tasks": many_tasks }), 23),
        (json!({ "cooldownSeconds": 0 }), 23),
        (json!({ "conditions": "x".repeat(2_000) }), 23),
    ] {
        let draft = create(api, draft_with(&changes)).await.expect(201);
        assert_eq!(draft["winnerCount"], winners, "{changes:.200}");
    }
    let draft = create(api, good_draft()).await.expect(201);
    assert_eq!(draft["drawAt"], Value::Null, "{draft}");
    assert_eq!(draft["countdownSeconds"], 300, "{draft}");
}

/// Each fault in an event of its own, all in one call, between events that are right.
async fn expect_named_by_path(api: &Api, feed: &str, right: &Value, faults: Vec<Fault>) {
    let mut events = vec![right.clone()];
    let mut paths = Vec::new();
    for (fault, field) in faults {
        paths.push(format!("events[{}].{field}", events.len()));
        events.push(merged(right, &fault));
    }
    events.push(right.clone());

    let answer = api.try_report(feed, &events).await;

    assert_eq!(answer.faulty_fields(), paths, "{}", answer.body);
    answer.expect_problem(422, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_faulty_field_of_every_event_is_named() {
    let world = World::new().await;
    let process = serve(&world).await;
    let api = world.api(&process).await;
    let at = "2026-01-31T20:00:00.000Z";
    let presence = json!({ "roomId": "1", "userId": 7, "kind": "leave", "occurredAt": at });
    let completion = json!({
        "activityId": 5, "userId": "7", "taskId": "follow", "completedAt": at,
    });

    expect_named_by_path(&api, "presence", &presence, faults::of_presence_events()).await;
    expect_named_by_path(&api, "tasks", &completion, faults::of_task_events()).await;
    for (feed, right) in [("presence", &presence), ("tasks", &completion)] {
        for (events, path) in [
            (json!([right, 5]), "events[1]"),
            (json!([[right]]), "events[0]"),
            (json!([]), "events"),
            (json!(vec![right; 1_001]), "events"),
            (json!({ "0": right }), "events"),
            (json!(null), "events"),
        ] {
            let body = json!({ "events": events });
            let answer = api.report_body(feed, body).await;
            assert_eq!(answer.faulty_fields(), [path], "{}", answer.body);
            answer.expect_problem(422, "invalid_request");
        }
        let body = json!({ "events": [right], "bogus": 1 });
        let answer = api.report_body(feed, body).await;
        assert_eq!(answer.faulty_fields(), ["bogus"], "{}", answer.body);
        api.try_report(feed, std::slice::from_ref(right))
            .await
            .expect(202);
    }

    process.stop().await;
    world.end().await;
}
