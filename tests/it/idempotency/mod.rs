//! A call that is repeated under its `Idempotency-Key` happens once and is answered the same.

mod later_calls;

use futures_util::future::join_all;
use reqwest::Method;
use sea_orm::{ConnectionTrait, TransactionTrait};
use serde_json::{Value, json};

use crate::harness::{Answer, Api, BagSpec, Process, World, eventually};

const ROOM: u64 = 8001;
const COUNT_ACTIVITIES: &str = "SELECT COUNT(*) FROM activity";

fn draft() -> Value {
    json!({
        "roomId": ROOM.to_string(),
        "title": "Friday bag",
        "prizes": [{ "name": "Coupon", "kind": "virtual", "quantity": 3 }],
        "countdownSeconds": 600,
    })
}

/// A call with a key.
struct Keyed {
    method: Method,
    token: String,
    path: String,
    body: Option<Value>,
}

impl Keyed {
    fn post(token: &str, path: impl Into<String>, body: Option<Value>) -> Self {
        Self {
            method: Method::POST,
            token: token.to_owned(),
            path: path.into(),
            body,
        }
    }

    fn patch(token: &str, path: impl Into<String>, body: Value) -> Self {
        Self {
            method: Method::PATCH,
            ..Self::post(token, path, Some(body))
        }
    }

    async fn send(&self, api: &Api, key: &str) -> Answer {
        self.send_keys(api, &[key]).await
    }

    async fn send_keys(&self, api: &Api, keys: &[&str]) -> Answer {
        api.send(self.request(api, keys)).await
    }

    fn request(&self, api: &Api, keys: &[&str]) -> reqwest::RequestBuilder {
        let mut request = api
            .http
            .request(self.method.clone(), format!("{}{}", api.url, self.path))
            .bearer_auth(&self.token);
        for key in keys {
            request = request.header("Idempotency-Key", *key);
        }
        match &self.body {
            Some(body) => request.json(body),
            None => request,
        }
    }
}

fn assert_replayed(first: &Answer, again: &Answer) {
    assert_eq!(again.header("idempotency-replayed"), "true", "{again:?}");
    assert_eq!(first.header("idempotency-replayed"), "", "{first:?}");
    assert_eq!(again.status, first.status);
    assert_eq!(again.body, first.body);
    for name in ["location", "content-type"] {
        assert_eq!(again.header(name), first.header(name), "{name}");
    }
}

/// Calls twice under one key and expects one answer.
async fn twice(api: &Api, key: &str, call: &Keyed, status: u16) -> Value {
    let first = call.send(api, key).await;
    assert_eq!(first.status.as_u16(), status, "{} {first:?}", call.path);
    let again = call.send(api, key).await;
    assert_replayed(&first, &again);
    first.body
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_that_creates_or_changes_happens_once_under_a_key() {
    let world = World::new().await;
    let review = [("ACTIVITY__REVIEW_REQUIRED", "true")];
    let process = world.serve_with(&review).await;
    let api = world.api(&process).await;
    let (host, operator) = (api.host_of(ROOM), api.operator());
    let id_of = |body: &Value| body["id"].as_str().expect("an id").to_owned();

    let create = Keyed::post(&host, "/v1/activities", Some(draft()));
    let created = twice(&api, "create", &create, 201).await;
    let rejected = id_of(&twice(&api, "create-another", &create, 201).await);
    let path = format!("/v1/activities/{}", id_of(&created));
    let edit = Keyed::patch(&host, &path, json!({ "title": "Saturday bag" }));
    let edited = twice(&api, "edit", &edit, 200).await;
    assert_eq!(edited["version"], 2, "{edited}");
    for (token, step, status) in [
        (&host, "submit", "in_review"),
        (&operator, "approve", "ready"),
        (&host, "open", "open"),
        (&host, "cancel", "cancelled"),
    ] {
        let call = Keyed::post(token, format!("{path}/{step}"), None);
        let moved = twice(&api, step, &call, 200).await;
        assert_eq!(moved["status"], status, "{moved}");
    }
    let path = format!("/v1/activities/{rejected}");
    let submitted = api.post(&host, &format!("{path}/submit"), None).await;
    submitted.expect(200);
    let reason = Some(json!({ "reason": "no" }));
    let reject = Keyed::post(&operator, format!("{path}/reject"), reason);
    twice(&api, "reject", &reject, 200).await;
    let prize = json!({ "name": "Mug", "kind": "physical", "stockTotal": 5 });
    let prize = Keyed::post(&operator, "/v1/prizes", Some(prize));
    let prize = twice(&api, "prize", &prize, 201).await;
    let path = format!("/v1/prizes/{}", id_of(&prize));
    let edit = Keyed::patch(&operator, path, json!({ "stockTotal": 7 }));
    twice(&api, "edit-prize", &edit, 200).await;

    assert_eq!(world.number(COUNT_ACTIVITIES).await, 2);
    let prizes = "SELECT COUNT(*) FROM prize WHERE is_private = FALSE";
    assert_eq!(world.number(prizes).await, 1);
    // Each of them did something once.
    assert_eq!(world.number("SELECT COUNT(*) FROM audit").await, 11);
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_belongs_to_one_call_of_one_user() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let host = api.host_of(ROOM);
    let create = Keyed::post(&host, "/v1/activities", Some(draft()));
    let first = create.send(&api, "key").await;
    let path = format!(
        "/v1/activities/{}",
        first.body["id"].as_str().expect("an id")
    );

    // Another body, another path, another method.
    let mut other = draft();
    other["title"] = json!("Another bag");
    for call in [
        Keyed::post(&host, "/v1/activities", Some(other)),
        Keyed::post(&host, format!("{path}/submit"), None),
        Keyed::patch(&host, path.clone(), draft_without_room()),
    ] {
        let answer = call.send(&api, "key").await;
        answer.expect_problem(422, "idempotency_key_reused");
    }
    let submit = Keyed::post(&host, format!("{path}/submit"), None);
    submit.send(&api, "move").await.expect(200);
    let open = Keyed::post(&host, format!("{path}/open"), None);
    let answer = open.send(&api, "move").await;
    answer.expect_problem(422, "idempotency_key_reused");
    // Keys differ in every letter, and other people have keys of their own.
    let others = [("KEY", host.clone()), ("key", api.operator())];
    for (key, token) in others {
        let call = Keyed {
            token,
            ..Keyed::post(&host, "/v1/activities", Some(draft()))
        };
        let answer = call.send(&api, key).await;
        assert_eq!(answer.header("idempotency-replayed"), "");
        assert_ne!(answer.expect(201)["id"], first.body["id"]);
    }
    // Who may not do it hears nothing of the answer.
    let viewer = Keyed::post(&api.viewer(42), "/v1/activities", Some(draft()));
    viewer
        .send(&api, "key")
        .await
        .expect_problem(403, "forbidden");
    let again = create.send(&api, "key").await;
    assert_replayed(&first, &again);

    assert_eq!(world.number(COUNT_ACTIVITIES).await, 3);
    process.stop().await;
    world.end().await;
}

fn draft_without_room() -> Value {
    let mut body = draft();
    body.as_object_mut().expect("an object").remove("roomId");
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_visible_ascii_up_to_255_characters() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let create = Keyed::post(&api.host_of(ROOM), "/v1/activities", Some(draft()));

    let too_long = "k".repeat(256);
    for keys in [
        &[""][..],
        &["two words"],
        &["tab\tbed"],
        &["schlüssel"],
        &[&too_long],
        &["one", "two"],
    ] {
        let answer = create.send_keys(&api, keys).await;
        assert_eq!(answer.faulty_fields(), ["Idempotency-Key"], "{keys:?}");
        answer.expect_problem(422, "invalid_request");
    }
    assert_eq!(world.number(COUNT_ACTIVITIES).await, 0);
    let longest = "~".repeat(255);
    twice(&api, &longest, &create, 201).await;
    twice(&api, "!", &create, 201).await;

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_refused_can_be_made_again_under_its_key() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let spec = BagSpec::waiting();
    let running = api.open_bag(&spec).await;
    let id = api.ready(&spec).await;
    let host = api.host_of(spec.room);

    let open = Keyed::post(&host, format!("/v1/activities/{id}/open"), None);
    let refused = open.send(&api, "open").await;
    refused.expect_problem(409, "room_busy");
    let cancel = api.post(&host, &running.path("/cancel"), None).await;
    cancel.expect(200);
    let opened = twice(&api, "open", &open, 200).await;

    assert_eq!(opened["status"], "open", "{opened}");
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_same_calls_at_once_in_two_processes_one_is_carried_out() {
    let world = World::new().await;
    let processes = [world.serve().await, world.serve().await];
    let apis = [
        world.api(&processes[0]).await,
        world.api(&processes[1]).await,
    ];
    let host = apis[0].host_of(ROOM);
    let create = Keyed::post(&host, "/v1/activities", Some(draft()));

    for round in 0..5 {
        let key = format!("create-{round}");
        let created = all_at_once(&apis, &create, &key, 201).await;
        let path = format!("/v1/activities/{}", created["id"].as_str().expect("an id"));
        assert_eq!(world.number(COUNT_ACTIVITIES).await, round + 1);
        let submit = Keyed::post(&host, format!("{path}/submit"), None);
        all_at_once(&apis, &submit, &format!("submit-{round}"), 200).await;
    }
    assert_eq!(world.number("SELECT COUNT(*) FROM audit").await, 10);

    for process in processes {
        process.stop().await;
    }
    world.end().await;
}

/// Ten calls at the same time: each is answered as the one that was carried out, or told to wait.
async fn all_at_once(apis: &[Api; 2], call: &Keyed, key: &str, status: u16) -> Value {
    let calls = apis.iter().cycle().take(10);
    let answers = join_all(calls.map(|api| call.send(api, key))).await;
    let (done, waiting): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .partition(|answer| answer.status.as_u16() == status);
    for answer in waiting {
        assert_eq!(answer.header("retry-after"), "1");
        answer.expect_problem(409, "idempotency_in_progress");
    }
    let replayed = |answer: &&Answer| answer.header("idempotency-replayed") == "true";
    assert_eq!(done.iter().filter(replayed).count() + 1, done.len());
    let bodies: Vec<&Value> = done.iter().map(|answer| &answer.body).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    bodies[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_the_same_call_is_stuck_is_told_to_wait() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let create = Keyed::post(&api.host_of(ROOM), "/v1/activities", Some(draft()));
    create.send(&api, "shape").await.expect(201);

    // Another process that is about to commit the same key, and takes its time.
    let stuck = world.db.begin().await.expect("a transaction");
    let insert = "INSERT INTO idempotency SELECT principal, 'stuck', request_hash, status, \
         location, body, created_at FROM idempotency";
    stuck.execute_unprepared(insert).await.expect("the row");
    let waiting = create.send(&api, "stuck").await;
    waiting.expect_problem(409, "idempotency_in_progress");
    stuck.rollback().await.expect("a rollback");

    assert_eq!(world.number(COUNT_ACTIVITIES).await, 1);
    twice(&api, "stuck", &create, 201).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_got_no_answer_from_a_process_that_died_after_the_commit_gets_it_from_another() {
    let world = World::new().await;
    let victim = world
        .serve_with(&[("LUCKYBAG_DIE_AT", "call.settled")])
        .await;
    let api = world.api(&victim).await;
    let create = Keyed::post(&api.host_of(ROOM), "/v1/activities", Some(draft()));

    let unanswered = create.request(&api, &["key"]).send().await;
    assert!(unanswered.is_err(), "{unanswered:?}");
    assert!(!victim.exit_status().await.success());
    let other = world.serve().await;
    let api = world.api(&other).await;
    let again = create.send(&api, "key").await;
    let once_more = create.send(&api, "key").await;

    assert_eq!(again.status.as_u16(), 201, "{again:?}");
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.body, once_more.body);
    let path = again.header("location").to_owned();
    let shown = api.get(&api.host_of(ROOM), &path).await.expect(200);
    assert_eq!(shown["id"], again.body["id"]);
    assert_eq!(world.number(COUNT_ACTIVITIES).await, 1);
    other.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_at_any_moment_has_done_all_of_a_call_or_nothing() {
    let world = World::new().await;
    let other = world.serve().await;
    let survivor = world.api(&other).await;
    let create = Keyed::post(&survivor.host_of(ROOM), "/v1/activities", Some(draft()));
    let mut answered = 0;

    for round in 0..4 {
        let victim = world.serve().await;
        answered += killed_among_calls(&world, victim, &create, round).await;
    }
    for round in 0..4 {
        for call in 0..CALLS {
            let key = key(round, call);
            let again = create.send(&survivor, &key).await;
            again.expect(201);
        }
    }

    assert!(answered > 0, "nothing was done before a process was killed");
    let all = i64::try_from(4 * CALLS).expect("a count");
    assert_eq!(world.number(COUNT_ACTIVITIES).await, all);
    other.stop().await;
    world.end().await;
}

const CALLS: usize = 30;

fn key(round: usize, call: usize) -> String {
    format!("round-{round}-call-{call}")
}

/// Many calls, and a kill once some of them have been carried out; tells how many were answered.
async fn killed_among_calls(world: &World, victim: Process, create: &Keyed, round: usize) -> usize {
    let api = world.api(&victim).await;
    let before = world.number(COUNT_ACTIVITIES).await;
    let calls = (0..CALLS).map(|call| create.request(&api, &[&key(round, call)]).send());
    let killing = async {
        eventually("some calls to be carried out", async || {
            match world.number(COUNT_ACTIVITIES).await - before {
                0..2 => Err("not yet"),
                _ => Ok(()),
            }
        })
        .await;
        victim.kill().await;
    };
    let (answers, ()) = tokio::join!(join_all(calls), killing);
    answers.into_iter().flatten().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_kept_for_a_day() {
    let world = World::new().await;
    let process = world.serve_with(&[("SWEEPER__ENABLED", "false")]).await;
    let api = world.api(&process).await;
    let create = Keyed::post(&api.host_of(ROOM), "/v1/activities", Some(draft()));
    let old = create.send(&api, "old").await.expect(201);
    create.send(&api, "young").await.expect(201);
    world
        .execute(
            "UPDATE idempotency SET created_at = created_at - INTERVAL CASE idempotency_key \
             WHEN 'old' THEN 1441 ELSE 1438 END MINUTE",
        )
        .await;

    let sweeping = world.serve_with(&[("SWEEPER__INTERVAL_MS", "20")]).await;
    eventually("the old answer to be forgotten", async || {
        match world.number("SELECT COUNT(*) FROM idempotency").await {
            1 => Ok(()),
            rows => Err(rows),
        }
    })
    .await;
    let young = create.send(&api, "young").await;
    assert_eq!(young.header("idempotency-replayed"), "true");
    let new = create.send(&api, "old").await.expect(201);
    assert_ne!(new["id"], old["id"]);

    sweeping.stop().await;
    process.stop().await;
    world.end().await;
}
