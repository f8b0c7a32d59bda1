//! Presence and task events, from the door to the draw, whatever happens on their way.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use chrono::TimeDelta;
use fred::interfaces::SortedSetsInterface;
use luckybag::{
    candidate::partition_of,
    infra::broker::{DeadLetter, Queue},
    kernel::{Timestamp, UserId},
};
use serde_json::{Value, json};

use crate::harness::{
    Amqp, Answer, Api, Bag, BagSpec, Proxies, World, completion, eventually, metric, metrics_page,
    named_down, presence, readyz,
};

/// A bag in a room of its own, with a prize for everybody, that is drawn when a test says so.
fn waiting(room: u64, extra: Value) -> BagSpec {
    BagSpec {
        room,
        winners: 100,
        extra,
        ..BagSpec::waiting()
    }
}

fn tasks(ids: &[&str]) -> Value {
    let task = |id: &&str| json!({ "taskId": id, "title": id });
    ids.iter().map(task).collect()
}

fn ms(millis: i64) -> TimeDelta {
    TimeDelta::milliseconds(millis)
}

/// So many users who share one partition, so that what is sent about them is handled in order.
fn together(from: u64, count: usize) -> Vec<u64> {
    let users = from..;
    let is_there = |user: &u64| partition_of(UserId(*user), 2) == 0;
    users.filter(is_there).take(count).collect()
}

async fn joined(api: &Api, bag: &Bag, users: &[u64]) {
    api.join_all(bag, users.iter().copied()).await;
    for user in users {
        api.assert_settled(bag, *user, ("joined", None)).await;
    }
}

/// What the pool holds for a user.
async fn pool_score(world: &World, bag: &Bag, user: u64) -> Option<f64> {
    let shard = world.activity(bag).await.shard_of(UserId(user));
    let key = world.keys().candidate(bag.id, shard);
    world
        .redis
        .zscore(key, user.to_string())
        .await
        .expect("Redis answers")
}

async fn assert_flag(world: &World, bag: &Bag, user: u64, flag: f64) {
    eventually("the pool to say so", async || {
        let score = pool_score(world, bag, user).await;
        if score == Some(flag) {
            Ok(())
        } else {
            Err(score)
        }
    })
    .await;
}

/// Draws all open bags and expects exactly these winners of each.
async fn assert_winners(world: &World, api: &Api, expected: &[(Bag, BTreeSet<u64>)]) {
    let bags: Vec<Bag> = expected.iter().map(|(bag, _)| *bag).collect();
    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;
    for (bag, winners) in expected {
        api.drawn(bag).await;
        let won: BTreeSet<u64> = api.winners(bag).await.into_iter().collect();
        assert_eq!(won, *winners, "{bag:?}");
    }
}

/// What a user does after its join, what `/me` says then under a rule, and whether it wins.
struct Story {
    /// `-` leaves, `+` enters, each a millisecond after the one before; sent in this order.
    goes: &'static [(&'static str, i64)],
    said: BTreeMap<&'static str, (&'static str, Option<bool>)>,
}

const EVER: (&str, Option<bool>) = ("eligible", None);
const AWAY: (&str, Option<bool>) = ("absent", Some(true));
const GONE: (&str, Option<bool>) = ("forfeited", Some(false));

fn stories() -> Vec<Story> {
    let story = |goes, under_pause, under_forfeit| Story {
        goes,
        said: [
            ("ignore", EVER),
            ("pause", under_pause),
            ("forfeit", under_forfeit),
        ]
        .into(),
    };
    vec![
        story(&[], EVER, EVER),
        story(&[("leave", 1)], AWAY, GONE),
        story(&[("leave", 1), ("enter", 2)], EVER, GONE),
        // The same, swapped on its way and sent twice.
        story(
            &[("enter", 2), ("leave", 1), ("leave", 1), ("enter", 2)],
            EVER,
            GONE,
        ),
        story(&[("leave", 1), ("enter", 2), ("leave", 3)], AWAY, GONE),
        // A leave of an old connection that is told after the newer enter.
        story(&[("enter", 5), ("leave", 4)], EVER, GONE),
        story(&[("leave", 6), ("enter", 6)], AWAY, GONE),
        // Before the join, which counts as an enter.
        story(&[("leave", -600_000)], EVER, EVER),
        story(&[("enter", 7)], EVER, EVER),
        // Left at last: once this is stored, everything before it has been handled.
        story(&[("leave", 8)], AWAY, GONE),
    ]
}

/// Plays the stories in a bag with this rule; answers who can win.
async fn play(world: &World, api: &Api, bag: &Bag, rule: &str) -> BTreeSet<u64> {
    let users = together(bag.room * 1_000, stories().len());
    joined(api, bag, &users).await;
    let now = world.now().await;
    let mut events = Vec::new();
    for (user, story) in users.iter().zip(stories()) {
        let goes = story.goes.iter();
        events.extend(goes.map(|(kind, at)| presence(bag, *user, kind, now + ms(*at))));
    }
    api.report("presence", &events).await;

    let left = "SELECT COUNT(last_leave_at) FROM presence WHERE activity_id = ID";
    eventually("the events to be handled", async || {
        match world.number_of(bag.id, left).await {
            8 => Ok(()),
            left => Err(left),
        }
    })
    .await;
    let mut eligible = BTreeSet::new();
    for (user, story) in users.iter().zip(stories()) {
        let (eligibility, restorable) = story.said[rule];
        let me = api.becomes(bag, *user, eligibility).await;
        let case = format!("{rule}, {:?}: {me}", story.goes);
        assert_eq!(me["restorable"].as_bool(), restorable, "{case}");
        if eligibility == "eligible" {
            eligible.insert(*user);
        } else {
            assert_flag(world, bag, *user, -1.0).await;
        }
    }
    eventually("the pool", async || world.check_pool(bag).await).await;
    eligible
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_and_returning_count_by_the_bags_rule_up_to_the_draw() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let rules = ["ignore", "pause", "forfeit"];
    let specs: Vec<BagSpec> = (1_u64..)
        .zip(rules)
        .map(|(room, rule)| waiting(room, json!({ "presenceRule": rule })))
        .collect();
    let bags = api.open_bags(&specs).await;

    let mut expected = Vec::new();
    for (bag, rule) in bags.iter().zip(rules) {
        let eligible = play(&world, &api, bag, rule).await;
        expected.push((*bag, eligible));
    }

    assert_winners(&world, &api, &expected).await;
    for (bag, rule) in bags.iter().zip(rules) {
        let left = together(bag.room * 1_000, 2)[1];
        let me = api.me(bag, left).await;
        // What was to be restored no longer is.
        let restorable = if rule == "ignore" { None } else { Some(false) };
        assert_eq!(me["restorable"].as_bool(), restorable, "{rule}: {me}");
    }
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn returning_in_the_last_moment_counts_and_what_happened_at_draw_at_does_not() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let spec = BagSpec {
        countdown_secs: 20,
        winners: 10,
        extra: json!({ "presenceRule": "pause" }),
        ..BagSpec::default()
    };
    let bag = api.open_bag(&spec).await;
    let users = together(1, 4);
    joined(&api, &bag, &users).await;
    let now = world.now().await;
    let (last, over) = (bag.draw_at - ms(1), bag.draw_at);

    api.report(
        "presence",
        &[
            presence(&bag, users[0], "leave", now),
            presence(&bag, users[0], "enter", last),
            presence(&bag, users[1], "leave", now),
            presence(&bag, users[1], "enter", over),
            presence(&bag, users[2], "leave", over),
            presence(&bag, users[3], "leave", last),
        ],
    )
    .await;
    api.becomes(&bag, users[3], "absent").await;

    api.drawn(&bag).await;
    let won: BTreeSet<u64> = api.winners(&bag).await.into_iter().collect();
    assert_eq!(won, [users[0], users[2]].into());
    let page = metrics_page(&process.url().await).await;
    let dropped = metric(
        &page,
        r#"luckybag_events_dropped_total{reason="afterDraw"}"#,
    );
    assert_eq!(dropped, Some(2.0));
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_counts_also_before_the_join_and_me_says_which_are_left() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let extra = json!({ "tasks": tasks(&["share", "follow"]), "presenceRule": "pause" });
    let bag = api.open_bag(&waiting(1, extra)).await;
    let now = world.now().await;
    let did = |user, task| completion(&bag, user, task, now);

    api.report(
        "tasks",
        &[
            did(1, "follow"),
            did(2, "share"),
            did(2, "follow"),
            did(3, "dance"),
        ],
    )
    .await;
    // Handled before the joins, which come behind them.
    joined(&api, &bag, &[1, 2, 3]).await;
    let me = api.becomes(&bag, 1, "tasksUnfinished").await;
    assert_eq!(me["tasksDone"], json!(["follow"]), "{me}");
    assert_eq!(me["tasksLeft"], json!(["share"]), "{me}");
    assert_eq!(me["restorable"], Value::Null, "{me}");
    let me = api.becomes(&bag, 2, "eligible").await;
    assert_eq!(me["tasksLeft"], json!([]), "{me}");
    let me = api.becomes(&bag, 3, "tasksUnfinished").await;
    assert_eq!(me["tasksDone"], json!([]), "an unknown task is none: {me}");
    assert_eq!(me["tasksLeft"], json!(["share", "follow"]), "{me}");

    let later = world.now().await;
    let goes = |user, kind, after| presence(&bag, user, kind, later + ms(after));
    api.report(
        "presence",
        &[
            goes(1, "leave", 1),
            goes(2, "leave", 1),
            goes(3, "leave", 1),
        ],
    )
    .await;
    let me = api.becomes(&bag, 1, "absentAndTasksUnfinished").await;
    assert_eq!(me["restorable"], true, "{me}");
    api.becomes(&bag, 2, "absent").await;
    api.becomes(&bag, 3, "absentAndTasksUnfinished").await;
    for (user, flag) in [(1, -3.0), (2, -1.0), (3, -3.0)] {
        assert_flag(&world, &bag, user, flag).await;
    }
    // Finished while absent; the one who returns still has something to do.
    api.report("tasks", &[did(1, "share"), did(1, "share")])
        .await;
    api.becomes(&bag, 1, "absent").await;
    api.report("presence", &[goes(1, "enter", 2), goes(3, "enter", 2)])
        .await;
    api.becomes(&bag, 1, "eligible").await;
    api.becomes(&bag, 3, "tasksUnfinished").await;
    assert_flag(&world, &bag, 3, -2.0).await;

    eventually("the pool", async || world.check_pool(&bag).await).await;
    assert_winners(&world, &api, &[(bag, [1].into())]).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_is_reported_to_the_task_system_whose_answer_makes_it_eligible() {
    let world = World::new().await;
    let process = world.serve_with(&[("JOIN__REPORT_ACCEPTED", "true")]).await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let exchange = world.topology().events_exchange();
    let mut reports = amqp.listen(&exchange, "join.accepted").await;
    let extra = json!({ "tasks": tasks(&["follow"]) });
    let bag = api.open_bag(&waiting(1, extra)).await;

    joined(&api, &bag, &[7]).await;
    let report = reports.next().await;
    assert_eq!(report["data"]["activityId"], json!(bag.id), "{report}");
    assert_eq!(report["data"]["userIds"], json!(["7"]), "{report}");
    api.becomes(&bag, 7, "tasksUnfinished").await;
    // The task system's own way, the queue.
    let done = completion(&bag, 7, "follow", world.now().await);
    leave(&world, &amqp, Queue::Tasks, &[done]).await;

    api.becomes(&bag, 7, "eligible").await;
    assert_winners(&world, &api, &[(bag, [7].into())]).await;
    amqp.close().await;
    process.stop().await;
    world.end().await;
}

/// Leaves events in an ingress queue, as another system does.
async fn leave(world: &World, amqp: &Amqp, queue: Queue, events: &[Value]) {
    let body = json!({ "events": events }).to_string();
    let queue = world.topology().queue_name(queue);
    amqp.put(&queue, body.as_bytes()).await;
}

/// How many users of a bag are known to have left or entered.
async fn known_users(world: &World, bag: &Bag) -> i64 {
    let query = "SELECT COUNT(*) FROM presence WHERE activity_id = ID";
    world.number_of(bag.id, query).await
}

async fn users_become_known(world: &World, bag: &Bag, count: i64) {
    eventually("the events to be handled", async || {
        let known = known_users(world, bag).await;
        if known >= count { Ok(()) } else { Err(known) }
    })
    .await;
    assert_eq!(known_users(world, bag).await, count);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_call_are_taken_together_or_not_at_all() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&waiting(1, json!({}))).await;
    let now = world.now().await;
    let enters = |users: std::ops::RangeInclusive<u64>| -> Vec<Value> {
        users
            .map(|user| presence(&bag, user, "enter", now))
            .collect()
    };

    // One too many, one bad one, one that happens too far ahead: none of them counts.
    let refused = api.try_report("presence", &enters(1..=1_001)).await;
    assert_eq!(refused.faulty_fields(), ["events"]);
    let mut with_bad = enters(2_001..=2_010);
    with_bad[4]["kind"] = json!("vanish");
    with_bad[4]["userId"] = json!(0);
    with_bad[7]["roomId"] = Value::Null;
    let refused = api.try_report("presence", &with_bad).await;
    assert_eq!(
        refused.faulty_fields(),
        ["events[4].userId", "events[4].kind", "events[7].roomId"]
    );
    let mut ahead = enters(2_001..=2_002);
    ahead[1] = presence(&bag, 2_002, "enter", now + TimeDelta::seconds(90));
    let refused = api.try_report("presence", &ahead).await;
    assert_eq!(refused.faulty_fields(), ["events[1].occurredAt"]);
    refused.expect_problem(422, "invalid_request");

    api.report("presence", &enters(1..=1_000)).await;
    users_become_known(&world, &bag, 1_000).await;
    let soon = presence(&bag, 3_000, "enter", now + TimeDelta::seconds(50));
    api.report("presence", &[soon]).await;
    users_become_known(&world, &bag, 1_001).await;
    // Nothing is too old, and an event that concerns nothing is taken, too.
    let long_ago = now - TimeDelta::days(3_000);
    let elsewhere = Bag { room: 2, ..bag };
    api.report(
        "presence",
        &[
            presence(&elsewhere, 1, "leave", now),
            presence(&bag, 3_001, "leave", long_ago),
        ],
    )
    .await;
    users_become_known(&world, &bag, 1_002).await;

    let page = metrics_page(&process.url().await).await;
    let count = |series: &str| metric(&page, series).unwrap_or_default();
    let of_http = r#"{source="http",kind="presence"}"#;
    assert!((count(&format!("luckybag_ingress_messages_total{of_http}")) - 6.0).abs() < 0.1);
    assert!((count(&format!("luckybag_ingress_events_total{of_http}")) - 1_003.0).abs() < 0.1);
    let refused =
        r#"luckybag_ingress_refused_total{source="http",kind="presence",reason="invalid"}"#;
    assert!((count(refused) - 1_013.0).abs() < 0.1, "{page}");
    process.stop().await;
    world.end().await;
}

fn assert_try_later(answer: &Answer) {
    assert_eq!(answer.status.as_u16(), 503, "{}", answer.body);
    let code = answer.body["code"].as_str().expect("a code");
    let codes = ["events_unavailable", "events_outcome_unknown"];
    assert!(codes.contains(&code), "{}", answer.body);
    let retry_after: u64 = answer.header("retry-after").parse().expect("seconds");
    assert!((1..=10).contains(&retry_after), "{retry_after}");
}

/// Repeats a call until it is taken, as its sender does.
async fn report_at_last(api: &Api, feed: &str, events: &[Value]) {
    eventually("the events to be taken", async || {
        let answer = api.try_report(feed, events).await;
        if answer.status.as_u16() == 202 {
            Ok(())
        } else {
            assert_try_later(&answer);
            Err(answer)
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_broker_events_are_told_to_try_later_and_without_mysql_they_are_taken() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let mut changes = proxies.changes();
    changes.push(("RABBITMQ__CONFIRM_TIMEOUT_MS", "2000"));
    let process = world.serve_with(&changes).await;
    let url = process.url().await;
    let api = world.api(&process).await;
    let bag = api
        .open_bag(&waiting(1, json!({ "presenceRule": "pause" })))
        .await;
    let users: Vec<u64> = (1..=40).collect();
    joined(&api, &bag, &users).await;
    let now = world.now().await;
    let goes = |kind: &'static str, after: i64| -> Vec<Value> {
        let event = |user: &u64| presence(&bag, *user, kind, now + ms(after));
        users.iter().map(event).collect()
    };
    let all_become = async |eligibility: &str| {
        for user in &users {
            api.becomes(&bag, *user, eligibility).await;
        }
    };

    proxies.rabbitmq.refuse();
    assert_try_later(&api.try_report("presence", &goes("leave", 1)).await);
    named_down(&url, 200, &["rabbitmq"]).await;
    assert_try_later(&api.try_report("presence", &goes("leave", 1)).await);
    proxies.rabbitmq.resume();
    report_at_last(&api, "presence", &goes("leave", 1)).await;
    all_become("absent").await;

    // Now it takes what it is given, and says nothing.
    proxies.rabbitmq.stall();
    let asked_at = std::time::Instant::now();
    assert_try_later(&api.try_report("presence", &goes("enter", 2)).await);
    let waited = asked_at.elapsed();
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    proxies.rabbitmq.resume();
    report_at_last(&api, "presence", &goes("enter", 2)).await;
    all_become("eligible").await;

    // Neither of the others is asked for anything.
    named_down(&url, 200, &[]).await;
    proxies.mysql.stall();
    proxies.redis.stall();
    named_down(&url, 200, &["mysql", "redis"]).await;
    // A busy machine may keep the confirm for longer than this process waits.
    report_at_last(&api, "presence", &goes("leave", 3)).await;
    let ahead = presence(&bag, 1, "leave", now + TimeDelta::days(1));
    api.try_report("presence", &[ahead])
        .await
        .expect_problem(422, "invalid_request");
    proxies.mysql.resume();
    proxies.redis.resume();
    all_become("absent").await;
    eventually("the pool", async || world.check_pool(&bag).await).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_know_yet_how_many_partitions_there_are_takes_no_events() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    proxies.mysql.refuse();
    let process = world.spawn(&proxies.changes());
    let api = world.api(&process).await;
    let url = process.url().await;
    let event = json!({
        "roomId": "1", "userId": "1", "kind": "enter", "occurredAt": "2026-01-31T20:00:00Z",
    });

    eventually("the broker to be reached", async || {
        let (_, body) = readyz(&url).await;
        if body["dependencies"]["rabbitmq"] == "up" {
            Ok(())
        } else {
            Err(body)
        }
    })
    .await;
    let refused = api
        .try_report("presence", std::slice::from_ref(&event))
        .await;
    assert_try_later(&refused);
    refused.expect_problem(503, "events_unavailable");
    proxies.mysql.resume();
    process.ready().await;
    api.report("presence", &[event]).await;
    process.stop().await;
    world.end().await;
}

/// The dead letters, once there are so many.
async fn dead_letters(world: &World, count: usize) -> Vec<DeadLetter> {
    let (broker, stop) = world.broker().await;
    let letters = eventually("the dead letters", async || {
        let letters = broker.dead_letters(100).await.expect("the broker answers");
        if letters.len() >= count {
            Ok(letters)
        } else {
            Err(letters)
        }
    })
    .await;
    stop.cancel();
    assert_eq!(letters.len(), count, "{letters:?}");
    letters
}

/// Each of the bad events is a letter of its own, as it came and to where it came from; the others
/// are whole messages.
fn assert_set_aside(letters: &[DeadLetter], alone: &BTreeSet<String>) {
    const OF_EVENTS: [&str; 3] = ["bogus: ", "occurredAt: ", "roomId: "];
    const OF_MESSAGES: [&str; 3] = [
        "there are 1 to 1000 events",
        "not a message with events",
        "the body is larger",
    ];
    let reason = |letter: &DeadLetter| letter.reason.clone().expect("a reason");
    let reasons: Vec<String> = letters.iter().map(reason).collect();
    for start in OF_EVENTS.iter().chain(&OF_MESSAGES) {
        let is_there = reasons.iter().any(|reason| reason.starts_with(start));
        assert!(is_there, "{start}: {reasons:?}");
    }
    let is_event = |letter: &&DeadLetter| {
        let reason = reason(letter);
        OF_EVENTS.iter().any(|start| reason.starts_with(start))
    };
    let events = letters.iter().filter(is_event).map(|letter| {
        let body: Value = serde_json::from_slice(&letter.body).expect("JSON");
        let origin = letter.origin.as_deref().expect("an origin");
        format!("{origin} {}", body["events"])
    });
    assert_eq!(events.collect::<BTreeSet<_>>(), *alone);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_in_the_queues_reaches_the_stream_and_what_is_bad_is_set_aside_alone() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let extra = json!({ "tasks": tasks(&["follow"]), "presenceRule": "pause" });
    let bag = api.open_bag(&waiting(1, extra)).await;
    joined(&api, &bag, &[1, 2, 3]).await;
    let now = world.now().await;
    let leaves = |user| presence(&bag, user, "leave", now + ms(1));
    let did = |user| completion(&bag, user, "follow", now);
    let mut nowhere = leaves(2);
    nowhere["roomId"] = json!("007");
    let ahead = presence(&bag, 2, "leave", now + TimeDelta::days(1));
    let mut strange = did(3);
    strange["bogus"] = json!(true);

    let put = [
        (
            Queue::Presence,
            json!({ "events": [leaves(1), nowhere, ahead, leaves(3)] }),
        ),
        (Queue::Tasks, json!({ "events": [did(1), strange, did(2)] })),
        (Queue::Tasks, json!({ "events": [] })),
        (Queue::Presence, json!({ "events": [leaves(2)], "v": 1 })),
        (Queue::Presence, json!("no object")),
    ];
    for (queue, body) in &put {
        let queue = world.topology().queue_name(*queue);
        amqp.put(&queue, body.to_string().as_bytes()).await;
    }
    let presence_queue = world.topology().queue_name(Queue::Presence);
    let large = json!({ "events": [{ "kind": "x".repeat(1 << 20) }] }).to_string();
    amqp.put(&presence_queue, large.as_bytes()).await;

    api.becomes(&bag, 1, "absent").await;
    api.becomes(&bag, 2, "eligible").await;
    api.becomes(&bag, 3, "absentAndTasksUnfinished").await;
    let tasks_queue = world.topology().queue_name(Queue::Tasks);
    let alone = [
        format!("{presence_queue} {}", json!([nowhere])),
        format!("{presence_queue} {}", json!([ahead])),
        format!("{tasks_queue} {}", json!([strange])),
    ];
    assert_set_aside(&dead_letters(&world, 7).await, &alone.into());

    process.stop().await;
    for queue in [presence_queue, tasks_queue] {
        assert_eq!(amqp.look(&queue).await.waiting, 0, "{queue}");
    }
    amqp.close().await;
    world.end().await;
}

/// Waits until nothing waits in these queues; a consumer may still have some of it in hand.
async fn are_empty(amqp: &Amqp, queues: &[String]) {
    for queue in queues {
        eventually("an empty queue", async || {
            match amqp.look(queue).await.waiting {
                0 => Ok(()),
                waiting => Err((queue, waiting)),
            }
        })
        .await;
    }
}

/// The process that has the message dies at `step`; another one takes over.
async fn events_survive_a_death_at(step: &str) {
    let world = World::new().await;
    let amqp = world.amqp().await;
    let doomed = world.serve_with(&[("LUCKYBAG_DIE_AT", step)]).await;
    let api = world.api(&doomed).await;
    let bag = api
        .open_bag(&waiting(1, json!({ "presenceRule": "pause" })))
        .await;
    let users: Vec<u64> = (1..=300).collect();
    joined(&api, &bag, &users).await;
    let now = world.now().await;
    let leaves = users
        .iter()
        .map(|user| presence(&bag, *user, "leave", now + ms(1)));
    let leaves: Vec<Value> = leaves.collect();

    leave(&world, &amqp, Queue::Presence, &leaves).await;
    let status = doomed.exit_status().await;
    assert!(!status.success(), "it died: {status}");
    let heir = world.serve().await;
    let api = world.api(&heir).await;

    for user in users.iter().step_by(29) {
        let me = api.becomes(&bag, *user, "absent").await;
        assert_eq!(me["restorable"], true, "{me}");
    }
    users_become_known(&world, &bag, 300).await;
    // The heir has the message too, whether or not its events were in the stream already.
    let url = heir.url().await;
    eventually("the message to be dealt with", async || {
        let series = r#"luckybag_ingress_events_total{source="amqp",kind="presence"}"#;
        match metric(&metrics_page(&url).await, series) {
            Some(count) if count >= 300.0 => Ok(()),
            count => Err(count),
        }
    })
    .await;
    let topology = world.topology();
    let partitions = (0..topology.partitions()).map(Queue::Stream);
    let queues = partitions.map(|queue| topology.queue_name(queue));
    are_empty(&amqp, &queues.collect::<Vec<_>>()).await;
    heir.stop().await;
    let queue = topology.queue_name(Queue::Presence);
    assert_eq!(amqp.look(&queue).await.waiting, 0);
    world.assert_drained(&amqp).await;
    // Nothing happened twice to anybody.
    let revised = "SELECT COUNT(*) FROM participation WHERE revision <> 2";
    assert_eq!(world.number(revised).await, 0);
    amqp.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_survive_a_death_before_they_are_in_the_stream() {
    events_survive_a_death_at("ingress.received").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_survive_a_death_between_their_confirm_and_the_ack() {
    events_survive_a_death_at("ingress.published").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_event_is_lost_while_the_connections_to_the_broker_break_again_and_again() {
    const MESSAGES: u64 = 60;
    const EVENTS: u64 = 20;
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let process = world.serve_with(&proxies.changes()).await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let bag = api.open_bag(&waiting(1, json!({}))).await;
    let now = world.now().await;

    for message in 0..MESSAGES {
        let users = message * EVENTS + 1..=(message + 1) * EVENTS;
        let events: Vec<Value> = users
            .map(|user| presence(&bag, user, "enter", now))
            .collect();
        leave(&world, &amqp, Queue::Presence, &events).await;
        if message % 15 == 14 {
            proxies.rabbitmq.cut();
        }
    }
    eventually("some to be handled", async || {
        match known_users(&world, &bag).await {
            0 => Err("none"),
            _ => Ok(()),
        }
    })
    .await;
    proxies.rabbitmq.refuse();
    named_down(&process.url().await, 200, &["rabbitmq"]).await;
    proxies.rabbitmq.resume();

    let all = i64::try_from(MESSAGES * EVENTS).expect("a number");
    users_become_known(&world, &bag, all).await;
    // What came back unacked is dealt with once more; what is in hand at the stop is finished.
    let topology = world.topology();
    are_empty(&amqp, &[topology.queue_name(Queue::Presence)]).await;
    process.stop().await;
    for queue in [Queue::Presence, Queue::Dead] {
        assert_eq!(
            amqp.look(&topology.queue_name(queue)).await.waiting,
            0,
            "{queue:?}"
        );
    }
    amqp.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_age_of_what_lies_in_the_queues_is_shown() {
    let world = World::new().await;
    let process = world.serve().await;
    let url = process.url().await;
    let amqp = world.amqp().await;
    let old = |now: Timestamp| {
        json!({
            "roomId": "1", "userId": "1", "kind": "enter",
            "occurredAt": luckybag::kernel::format_timestamp(now - TimeDelta::seconds(100)),
        })
    };

    eventually("the age", async || {
        // Shown for a second after it was dealt with.
        leave(&world, &amqp, Queue::Presence, &[old(world.now().await)]).await;
        let page = metrics_page(&url).await;
        let age = metric(&page, r#"luckybag_ingress_age_seconds{kind="presence"}"#);
        match age {
            Some(age) if (100.0..200.0).contains(&age) => Ok(()),
            age => Err(age),
        }
    })
    .await;
    eventually("nothing to be old any more", async || {
        let page = metrics_page(&url).await;
        let age = metric(&page, r#"luckybag_ingress_age_seconds{kind="presence"}"#);
        if age == Some(0.0) { Ok(()) } else { Err(age) }
    })
    .await;
    amqp.close().await;
    process.stop().await;
    world.end().await;
}
