//! Bad messages: they leave with their reason, and the good ones behind them are none the worse.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use luckybag::{
    candidate::partition_of,
    infra::broker::{Broker, DeadLetter, Queue},
    kernel::{Timestamp, UserId, format_timestamp},
};
use serde_json::{Value, json};

use crate::harness::{Amqp, Bag, BagSpec, World, eventually};

/// Waits for this many dead letters; each says why it is there and from which queue it came.
async fn dead_letters(broker: &Broker, count: usize, queue: &str) -> Vec<DeadLetter> {
    let letters = eventually("the dead letters", async || {
        let letters = broker
            .dead_letters(200)
            .await
            .expect("the dead letters are read");
        if letters.len() == count {
            Ok(letters)
        } else {
            Err((
                letters.len(),
                letters.iter().map(summary).collect::<Vec<_>>(),
            ))
        }
    })
    .await;
    for letter in &letters {
        let body = summary(letter);
        assert!(!reason(letter).is_empty(), "{body}");
        let origin = letter.origin.as_deref().unwrap_or_default();
        assert!(origin.contains(queue), "{origin}: {body}");
    }
    letters
}

fn reason(letter: &DeadLetter) -> &str {
    letter.reason.as_deref().unwrap_or_default()
}

/// The start of its body.
fn summary(letter: &DeadLetter) -> String {
    beginning(&letter.body)
}

fn beginning(body: &[u8]) -> String {
    // A JSON body has no order of fields.
    let parsed: Result<Value, _> = serde_json::from_slice(body);
    let text = parsed.map_or_else(
        |_| String::from_utf8_lossy(body).into_owned(),
        |json| json.to_string(),
    );
    text.chars().take(300).collect()
}

fn joins(joins: &[Value]) -> Vec<u8> {
    let message = json!({ "v": 1, "kind": "joins", "joins": joins });
    message.to_string().into_bytes()
}

fn events(kind: &str, events: &[Value]) -> Vec<u8> {
    let message = json!({ "v": 1, "kind": kind, "events": events });
    message.to_string().into_bytes()
}

/// A join as it is in a message of the stream.
fn join_of(activity: &Value, user: u64, at: Timestamp) -> Value {
    json!({
        "activityId": activity, "userId": user.to_string(), "deviceId": format!("phone {user}"),
        "completedTasks": [], "acceptedAt": format_timestamp(at), "requestId": format!("r-{user}"),
    })
}

/// Users of one of two partitions, from 1,000 on.
fn users_of(partition: u16) -> impl Iterator<Item = u64> {
    (1_000..).filter(move |user| partition_of(UserId(*user), 2) == partition)
}

fn long() -> BagSpec {
    BagSpec {
        countdown_secs: 600,
        ..BagSpec::default()
    }
}

/// Messages that cannot be read at all.
fn unreadable() -> Vec<Vec<u8>> {
    let texts = [
        "",
        "}{",
        "null",
        "[]",
        "7",
        "{}",
        r#"{"v":1}"#,
        r#"{"v":1,"kind":"joins"}"#,
        r#"{"v":1,"kind":"joins","joins":{}}"#,
        r#"{"v":1,"kind":"jump","joins":[]}"#,
        r#"{"v":2,"kind":"joins","joins":[]}"#,
        r#"{"v":"1","kind":"joins","joins":[]}"#,
        r#"{"v":1,"kind":"barrier","passes":[{"activityId":"0","drawToken":1}]}"#,
        r#"{"v":1,"kind":"barrier","passes":[{"activityId":"1","drawToken":-1}]}"#,
        r#"{"v":1,"kind":"barrier","passes":"all"}"#,
    ];
    let mut bodies: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).into();
    bodies.push(vec![0xff, 0xfe, 0x00]);
    bodies.push(b"{\"v\":1,\"kind\":\"\xc3\x28\"}".to_vec());
    bodies.push("[".repeat(100_000).into_bytes());
    bodies
}

/// Joins of a batch that cannot be answered, since they do not say whose or where they are.
fn unanswerable(bag: &Bag, draft: &Value, at: Timestamp) -> Vec<Value> {
    let unknown = json!("1");
    vec![
        json!({ "activityId": bag.id, "userId": "0" }),
        json!({ "activityId": bag.id, "userId": "9223372036854775808" }),
        json!({ "activityId": bag.id, "userId": "-1" }),
        json!({ "activityId": bag.id, "userId": "007" }),
        json!({ "activityId": bag.id, "userId": 1.5 }),
        json!({ "activityId": bag.id }),
        json!({ "userId": "5" }),
        json!("join"),
        json!(null),
        join_of(&unknown, 5, at),
        join_of(draft, 5, at),
    ]
}

/// Events that do not say what happened.
fn meaningless_events(bag: &Bag, at: Timestamp) -> Vec<Vec<u8>> {
    let at = format_timestamp(at);
    let presence = [
        json!({ "roomId": "8001", "userId": "5", "kind": "vanish", "occurredAt": at }),
        json!({ "roomId": "8001", "userId": "5", "kind": "leave", "occurredAt": "noon" }),
        json!({ "roomId": "0", "userId": "5", "kind": "leave", "occurredAt": at }),
    ];
    let task = json!({ "activityId": bag.id, "userId": "5", "completedAt": at });
    let mut bodies: Vec<Vec<u8>> = presence
        .iter()
        .map(|event| events("presence", std::slice::from_ref(event)))
        .collect();
    bodies.push(events("tasks", &[task]));
    bodies
}

/// What a test put into a partition.
#[derive(Default)]
struct Sent {
    /// Each has to be set aside, as it is or as a message of its own.
    bad: Vec<Vec<u8>>,
    /// Each has to be admitted.
    users: BTreeSet<u64>,
}

impl Sent {
    /// A bad message with a good one behind it.
    async fn alone(&mut self, amqp: &Amqp, queue: &str, bad: Vec<u8>, good: Value) {
        amqp.put(queue, &bad).await;
        self.bad.push(bad);
        self.note(&good);
        amqp.put(queue, &joins(&[good])).await;
    }

    /// Bad joins with as many good ones between them.
    async fn in_one_batch(&mut self, amqp: &Amqp, queue: &str, bad: Vec<Value>, good: Vec<Value>) {
        for join in &good {
            self.note(join);
        }
        let mixed: Vec<Value> = bad
            .iter()
            .zip(good)
            .flat_map(|(bad, good)| [bad.clone(), good])
            .collect();
        amqp.put(queue, &joins(&mixed)).await;
        self.bad.extend(bad.into_iter().map(|bad| joins(&[bad])));
    }

    fn note(&mut self, good: &Value) {
        let user = good["userId"].as_str().expect("text").parse();
        self.users.insert(user.expect("a user id"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_messages_of_the_stream_are_set_aside_and_the_good_ones_behind_them_are_admitted() {
    let world = World::new().await;
    let amqp = world.amqp().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (broker, stop) = world.broker().await;
    let bag = api.open_bag(&long()).await;
    let draft = json!(api.draft(&long()).await);
    let now = world.now().await;

    let mut sent = Sent::default();
    for partition in 0..2 {
        let queue = world.topology().queue_name(Queue::Stream(partition));
        let mut users = users_of(partition);
        let mut good = || join_of(&json!(bag.id), users.next().expect("endless"), now);
        let events = meaningless_events(&bag, now);
        for body in unreadable().into_iter().chain(events) {
            sent.alone(&amqp, &queue, body, good()).await;
        }
        let bad = unanswerable(&bag, &draft, now);
        let good = bad.iter().map(|_| good()).collect();
        sent.in_one_batch(&amqp, &queue, bad, good).await;
        // About a room in which nothing runs: of no use to anybody, but not bad.
        let elsewhere = json!({ "roomId": "4711", "userId": "5", "kind": "leave",
            "occurredAt": format_timestamp(now) });
        amqp.put(&queue, &self::events("presence", &[elsewhere]))
            .await;
    }

    let letters = dead_letters(&broker, sent.bad.len(), ".v1.stream.").await;
    let mut found: Vec<String> = letters.iter().map(summary).collect();
    let mut expected: Vec<String> = sent.bad.iter().map(|body| beginning(body)).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    for (body, why) in [
        ("}{", "not a message of the stream"),
        (r#"{"joins":[],"kind":"joins","v":2}"#, "version 2"),
    ] {
        let letter = letters.iter().find(|letter| summary(letter) == body);
        let reason = reason(letter.expect(body));
        assert!(reason.contains(why), "{body}: {reason}");
    }
    eventually("the good ones", async || {
        let admitted = world.participants(&bag, "joined").await;
        if admitted == sent.users {
            Ok(())
        } else {
            Err(admitted)
        }
    })
    .await;
    eventually("the pool", async || world.check_pool(&bag).await).await;
    api.join_all(&bag, [1, 2, 3, 4]).await;
    for user in 1..=4 {
        api.assert_settled(&bag, user, ("joined", None)).await;
    }
    stop.cancel();
    process.stop().await;
    amqp.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_whose_content_cannot_be_right_is_rejected_and_its_neighbours_are_not() {
    let world = World::new().await;
    let amqp = world.amqp().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (broker, stop) = world.broker().await;
    let bag = api.open_bag(&long()).await;
    let now = world.now().await;
    let faults = [
        ("deviceId", json!("x".repeat(65))),
        ("deviceId", json!("x".repeat(200_000))),
        ("deviceId", json!(7)),
        ("acceptedAt", json!("soon")),
        ("acceptedAt", json!(null)),
        ("completedTasks", json!("follow")),
        ("completedTasks", json!([1])),
    ];
    let users: Vec<u64> = users_of(0).take(2 * faults.len()).collect();
    let (bad, good) = users.split_at(faults.len());
    let join = |user: &u64| join_of(&json!(bag.id), *user, now);
    let batch: Vec<Value> = bad
        .iter()
        .zip(good)
        .zip(faults)
        .flat_map(|((bad, good), (field, value))| {
            let mut wrong = join(bad);
            wrong[field] = value;
            [wrong, join(good)]
        })
        .collect();

    let queue = world.topology().queue_name(Queue::Stream(0));
    amqp.put(&queue, &joins(&batch)).await;

    for user in bad {
        let invalid = ("rejected", Some("invalid"));
        api.assert_settled(&bag, *user, invalid).await;
    }
    for user in good {
        api.assert_settled(&bag, *user, ("joined", None)).await;
    }
    eventually("the pool", async || world.check_pool(&bag).await).await;
    dead_letters(&broker, 0, "").await;
    stop.cancel();
    process.stop().await;
    world.assert_drained(&amqp).await;
    amqp.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_that_nobody_asked_for_does_not_let_a_draw_overtake_the_joins() {
    let world = World::new().await;
    let amqp = world.amqp().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (broker, stop) = world.broker().await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let barrier = |activity: Value, token: u64| {
        json!({ "v": 1, "kind": "barrier", "passes": [
            { "activityId": activity, "drawToken": token }
        ]})
        .to_string()
    };

    for partition in 0..2 {
        let queue = world.topology().queue_name(Queue::Stream(partition));
        for token in 0..=3 {
            amqp.put(&queue, barrier(json!(bag.id), token).as_bytes())
                .await;
        }
        amqp.put(&queue, barrier(json!("1"), 1).as_bytes()).await;
    }
    let letters = dead_letters(&broker, 10, ".v1.stream.").await;
    assert!(reason(&letters[0]).contains("nobody asked"));
    let noted = "SELECT COUNT(*) FROM stream_barrier";
    assert_eq!(world.number(noted).await, 0);
    api.join_all(&bag, 1..=20).await;
    world.draw_soon(&[bag]).await;

    let detail = api.drawn(&bag).await;
    assert_eq!(detail["participants"], 20, "{detail}");
    assert_eq!(world.number(noted).await, 0, "forgotten with the draw");
    stop.cancel();
    process.stop().await;
    amqp.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_draw_messages_are_set_aside_and_the_good_ones_behind_them_draw() {
    let world = World::new().await;
    let amqp = world.amqp().await;
    let process = world.serve_with(&[("SWEEPER__ENABLED", "false")]).await;
    let api = world.api(&process).await;
    let (broker, stop) = world.broker().await;
    let bag = api
        .open_bag(&BagSpec {
            countdown_secs: 25,
            ..BagSpec::default()
        })
        .await;
    let draft = api.draft(&BagSpec::default()).await;
    let in_time = format_timestamp(bag.draw_at);
    let bad = [
        json!("draw"),
        json!({}),
        json!({ "activityId": bag.id }),
        json!({ "activityId": "0", "drawAt": in_time }),
        json!({ "activityId": bag.id, "drawAt": "soon" }),
        json!({ "activityId": "1", "drawAt": in_time }),
    ];
    let mut bodies: Vec<Vec<u8>> = bad.map(|body| body.to_string().into_bytes()).into();
    bodies.extend([vec![], b"}{".to_vec(), vec![0xff; 3]]);
    // Not bad: too early, of a wrong time, of what is not open, twice.
    let early = format_timestamp(bag.draw_at - TimeDelta::hours(1));
    let late = format_timestamp(bag.draw_at + TimeDelta::hours(1));
    let harmless = [
        json!({ "activityId": bag.id, "drawAt": early }),
        json!({ "activityId": bag.id, "drawAt": late }),
        json!({ "activityId": draft, "drawAt": in_time }),
        json!({ "activityId": bag.id, "drawAt": in_time }),
    ];

    let queue = world.topology().queue_name(Queue::Draw);
    for body in &bodies {
        amqp.put(&queue, body).await;
    }
    for body in harmless {
        amqp.put(&queue, body.to_string().as_bytes()).await;
    }
    api.join_all(&bag, 1..=20).await;

    let letters = dead_letters(&broker, bodies.len(), ".v1.draw").await;
    let unknown = letters
        .iter()
        .find(|letter| reason(letter).contains("does not exist"));
    assert!(unknown.is_some_and(|letter| summary(letter).contains(r#""1""#)));
    let detail = api.drawn(&bag).await;
    assert_eq!(detail["participants"], 20, "{detail}");
    let drawn_at = detail["drawnAt"].as_str().expect("drawnAt");
    let drawn_at: Timestamp = drawn_at.parse().expect("a time");
    assert!(drawn_at >= bag.draw_at, "{detail}");
    let records = world.number("SELECT COUNT(*) FROM win_record").await;
    assert_eq!(records, 3);
    stop.cancel();
    process.stop().await;
    amqp.close().await;
    world.end().await;
}
