//! What becomes of a join: once, for good, and told to its sender, whatever happens on its way.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use fred::interfaces::KeysInterface;
use luckybag::{
    candidate::{JoinRequest, StreamMessage, partition_of},
    infra::broker::Broker,
    kernel::{Timestamp, UserId},
};
use serde_json::{Value, json};

use crate::harness::{Answer, Api, Bag, BagSpec, Events, World, eventually};

const JOINED: (&str, Option<&str>) = ("joined", None);
const BLOCKED: (&str, Option<&str>) = ("rejected", Some("blocked"));
const COOLDOWN: (&str, Option<&str>) = ("rejected", Some("cooldown"));
const DUPLICATE_DEVICE: (&str, Option<&str>) = ("rejected", Some("duplicateDevice"));
const CLOSED: (&str, Option<&str>) = ("late", Some("closed"));
const CANCELLED: (&str, Option<&str>) = ("late", Some("cancelled"));

/// A bag that is not drawn while its test runs.
fn long(room: u64, extra: Value) -> BagSpec {
    BagSpec {
        room,
        countdown_secs: 600,
        extra,
        ..BagSpec::default()
    }
}

async fn deny(world: &World, scope: u64, user: u64) {
    world
        .execute(&format!(
            "INSERT INTO deny_list (scope, user_id, created_by, created_at) \
             VALUES ({scope}, {user}, 1, NOW(3))"
        ))
        .await;
}

fn join_request(bag: &Bag, user: u64, accepted_at: Timestamp) -> JoinRequest {
    JoinRequest {
        activity_id: bag.id,
        user_id: UserId(user),
        device_id: None,
        completed_tasks: vec!["follow".to_owned()],
        accepted_at,
        request_id: format!("request-{user}"),
    }
}

/// Sends a join past the door, as if a process had accepted it at `accepted_at`.
async fn slip_in(broker: &Broker, bag: &Bag, user: u64, accepted_at: Timestamp) {
    let joins = vec![join_request(bag, user, accepted_at)];
    let partition = partition_of(UserId(user), broker.topology().partitions());
    let message =
        StreamMessage::Joins { joins }.into_outgoing(partition, format!("slipped-in-{user}"));
    broker.publish(message).await.expect("a confirm");
}

async fn displayed_count(world: &World, api: &Api, bag: &Bag, expected: usize) {
    let (token, path) = (api.operator(), bag.path(""));
    eventually("the count that is shown", async || {
        let detail = api.get(&token, &path).await.expect(200);
        if detail["participants"] == expected {
            Ok(())
        } else {
            Err(detail["participants"].clone())
        }
    })
    .await;
    assert_eq!(world.shown_participants(bag).await.len(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_counts_once_however_often_it_is_sent_and_its_first_verdict_is_final() {
    let world = World::new().await;
    let (one, other) = tokio::join!(world.serve(), world.serve());
    let (api, other_api) = (world.api(&one).await, world.api(&other).await);
    let bag = api.open_bag(&long(1, json!({}))).await;
    deny(&world, 0, 103).await;
    deny(&world, bag.id.0, 104).await;
    deny(&world, bag.id.0 + 1, 105).await;

    for _ in 0..3 {
        api.try_join(&bag, 101, None).await.expect(202);
    }
    let at_once = (0..20).map(|turn| {
        let api = if turn % 2 == 0 { &api } else { &other_api };
        let bag = &bag;
        async move { api.try_join(bag, 102, None).await.expect(202) }
    });
    futures_util::future::join_all(at_once).await;
    api.join_all(&bag, 103..=105).await;

    let verdicts = [
        (101, JOINED),
        (102, JOINED),
        (103, BLOCKED),
        (104, BLOCKED),
        (105, JOINED),
    ];
    for (user, verdict) in verdicts {
        api.assert_settled(&bag, user, verdict).await;
    }
    // The other way round: whoever was let in is put on the list, whoever was on it is taken off.
    world.execute("DELETE FROM deny_list").await;
    deny(&world, 0, 101).await;
    other_api.join_all(&bag, 101..=105).await;
    // Once those behind them are settled, they have been handled again.
    other_api.join_all(&bag, 106..=125).await;
    for user in 106..=125 {
        api.assert_settled(&bag, user, JOINED).await;
    }
    for (user, verdict) in verdicts {
        // Both from what Redis shows and, without it, from MySQL.
        api.assert_settled(&bag, user, verdict).await;
        let state = world.keys().user_state(bag.id, UserId(user));
        let () = world.redis.del(state).await.expect("Redis answers");
        api.assert_settled(&bag, user, verdict).await;
    }

    let rows = world.number("SELECT COUNT(*) FROM participation").await;
    assert_eq!(rows, 25);
    let changed = "SELECT COUNT(*) FROM participation WHERE revision <> 1";
    assert_eq!(world.number(changed).await, 0);
    eventually("the pool", async || world.check_pool(&bag).await).await;
    displayed_count(&world, &api, &bag, 23).await;
    tokio::join!(one.stop(), other.stop());
    world.end().await;
}

/// Joins one after another until some are refused, then waits for the draw. Once the door has
/// closed it stays so, and everybody is told whether the join counts. Answers who was refused.
async fn join_across_draw_at(world: &World, api: &Api, bag: &Bag) -> BTreeSet<u64> {
    world.until(bag.draw_at - TimeDelta::seconds(6)).await;
    let mut accepted = BTreeSet::new();
    let mut refused = BTreeSet::new();
    let mut user = 1_000;
    while refused.len() < 5 {
        user += 1;
        let answer = api.try_join(bag, user, None).await;
        if answer.status.as_u16() == 202 {
            assert!(refused.is_empty(), "{refused:?} were refused before {user}");
            accepted.insert(user);
        } else {
            answer.expect_problem(409, "activity_closed");
            refused.insert(user);
        }
    }
    assert!(!accepted.is_empty(), "the door was open");

    api.drawn(bag).await;
    let joined = world.participants(bag, "joined").await;
    assert!(joined.is_superset(&accepted), "{accepted:?} in {joined:?}");
    for user in &refused {
        eventually("who was refused to be told what is so", async || {
            let me = api.me(bag, *user).await;
            // Sent in time and confirmed too late, it may lie on either side of the draw's barrier.
            let late = world.participants(bag, "late").await;
            let expected = if joined.contains(user) {
                "joined"
            } else if late.contains(user) {
                "late"
            } else {
                "none"
            };
            if me["participation"] == expected {
                Ok(())
            } else {
                Err((me, expected))
            }
        })
        .await;
    }
    refused
}

/// Besides these only those may be late whom the door refused: what it accepted never is.
async fn assert_late(world: &World, bag: &Bag, slipped_in: [u64; 2], refused: &BTreeSet<u64>) {
    let late = world.participants(bag, "late").await;
    let slipped_in = BTreeSet::from(slipped_in);
    assert!(late.is_superset(&slipped_in), "{late:?}");
    let others: BTreeSet<u64> = &late - &slipped_in;
    assert!(others.is_subset(refused), "{late:?}, refused {refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_door_closes_at_draw_at_and_what_slips_through_is_told_apart() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (broker, stop) = world.broker().await;
    let draft = api.draft(&long(1, json!({}))).await;
    let cancelled = api.open_bag(&long(2, json!({}))).await;
    api.post(&api.host_of(2), &cancelled.path("/cancel"), None)
        .await
        .expect(200);
    let ready = api.draft(&long(3, json!({}))).await;
    let submit = format!("/v1/activities/{ready}/submit");
    api.post(&api.host_of(3), &submit, None).await.expect(200);
    let with_time_to_spare = BagSpec {
        countdown_secs: 25,
        ..BagSpec::default()
    };
    let bag = api.open_bag(&with_time_to_spare).await;
    deny(&world, 0, 5).await;

    let join = async |id: u64| {
        let path = format!("/v1/activities/{id}/join");
        api.post(&api.viewer(1), &path, None).await
    };
    for (id, status, code) in [
        (draft.0, 404, "activity_not_found"),
        (bag.id.0 + 1, 404, "activity_not_found"),
        (ready.0, 409, "activity_not_open"),
        (cancelled.id.0, 409, "activity_closed"),
    ] {
        join(id).await.expect_problem(status, code);
    }
    let last_moment = bag.draw_at - TimeDelta::milliseconds(1);
    slip_in(&broker, &bag, 2, last_moment).await;
    slip_in(&broker, &bag, 3, bag.draw_at).await;
    slip_in(&broker, &cancelled, 4, world.now().await).await;
    api.try_join(&bag, 5, None).await.expect(202);

    api.assert_settled(&bag, 2, JOINED).await;
    api.assert_settled(&bag, 3, CLOSED).await;
    api.assert_settled(&cancelled, 4, CANCELLED).await;
    api.assert_settled(&bag, 5, BLOCKED).await;
    assert_eq!(api.me(&bag, 6).await["participation"], "none");

    let refused = join_across_draw_at(&world, &api, &bag).await;
    join(bag.id.0).await.expect_problem(409, "activity_closed");
    slip_in(&broker, &bag, 7, last_moment).await;
    api.assert_settled(&bag, 7, CLOSED).await;
    assert_late(&world, &bag, [3, 7], &refused).await;
    world.assert_drawn_once(&bag).await;
    stop.cancel();
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_win_within_the_cool_down_keeps_a_join_out_and_a_later_one_takes_nothing_away() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&long(1, json!({}))).await;
    let won = async |user: u64, minutes_ago: u64, status: &str| {
        world
            .execute(&format!(
                "INSERT INTO win_record (id, activity_id, user_id, seat, round, prize_id, \
                 prize_rank, score, status, fulfilment, drawn_at) VALUES ({user}, 5, {user}, \
                 {user}, 1, 1, 1, 0.5, '{status}', 'pending', NOW(3) - INTERVAL {minutes_ago} MINUTE)"
            ))
            .await;
    };
    won(11, 170, "won").await;
    won(12, 60, "revoked").await;
    won(13, 190, "won").await;
    let verdicts = [(11, COOLDOWN), (12, JOINED), (13, JOINED), (14, JOINED)];

    api.join_all(&bag, 11..=14).await;
    for (user, verdict) in verdicts {
        api.assert_settled(&bag, user, verdict).await;
    }
    won(14, 0, "won").await;
    api.join_all(&bag, 11..=14).await;
    // Once those behind them are settled, they have been handled again.
    api.join_all(&bag, 15..=30).await;
    for user in 15..=30 {
        api.assert_settled(&bag, user, JOINED).await;
    }

    for (user, verdict) in verdicts {
        api.assert_settled(&bag, user, verdict).await;
    }
    eventually("the pool", async || world.check_pool(&bag).await).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_taken_keeps_a_join_out_also_when_two_come_at_once() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let rule = json!({ "oneEntryPerDevice": true });
    let bag = api.open_bag(&long(1, rule)).await;

    let without = api.try_join(&bag, 21, None).await;
    assert_eq!(without.faulty_fields(), ["deviceId"]);
    without.expect_problem(422, "invalid_request");
    api.join_from(&bag, 21, "phone").await;
    api.assert_settled(&bag, 21, JOINED).await;
    for (user, device) in [(22, "phone"), (23, "Phone"), (21, "tablet"), (24, "tablet")] {
        api.join_from(&bag, user, device).await;
    }
    api.assert_settled(&bag, 22, DUPLICATE_DEVICE).await;
    for user in [21, 23, 24] {
        api.assert_settled(&bag, user, JOINED).await;
    }

    // Two users at once from each of 20 devices, in partitions that are handled side by side.
    let of_partition = |partition: u16| {
        (1_000_u64..).filter(move |user| partition_of(UserId(*user), 2) == partition)
    };
    let pairs: Vec<(u64, u64)> = of_partition(0).zip(of_partition(1)).take(20).collect();
    let joins = pairs.iter().enumerate().flat_map(|(device, (a, b))| {
        let (api, bag) = (&api, &bag);
        [*a, *b].map(|user| async move {
            api.join_from(bag, user, &format!("shared {device}")).await;
        })
    });
    futures_util::future::join_all(joins).await;
    for (a, b) in pairs {
        let both = tokio::join!(api.settled(&bag, a), api.settled(&bag, b));
        let mut verdicts = [&both.0, &both.1].map(|me| {
            let participation = me["participation"].as_str().expect("a status");
            (participation, me["reason"].as_str())
        });
        verdicts.sort_unstable();
        assert_eq!(verdicts, [JOINED, DUPLICATE_DEVICE], "{a}, {b}: {both:?}");
    }
    eventually("the pool", async || world.check_pool(&bag).await).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_the_app_reports_count_only_where_the_app_is_believed() {
    let world = World::new().await;
    let amqp = world.amqp().await;
    let doubting = world.serve().await;
    world.served(&amqp).await;
    let believing = world
        .serve_with(&[("JOIN__TRUST_COMPLETED_TASKS", "true")])
        .await;
    let (broker, stop) = world.broker().await;
    let api = world.api(&believing).await;
    let tasks = json!({ "tasks": [{ "taskId": "follow", "title": "Follow the host" }] });
    let bag = api.open_bag(&long(1, tasks)).await;
    let done = json!({ "completedTasks": ["follow"] });
    let eligibility = async |user: u64| {
        let me = api.settled(&bag, user).await;
        me["eligibility"].as_str().expect("joined").to_owned()
    };

    let unknown = json!({ "completedTasks": ["follow", "dance"] });
    let refused = api.try_join(&bag, 1, Some(unknown)).await;
    assert_eq!(refused.faulty_fields(), ["completedTasks[1]"]);
    refused.expect_problem(422, "invalid_request");
    // One process's door believes the app, but the process that admits does not.
    let join = api.try_join(&bag, 1, Some(done.clone()));
    join.await.expect(202);
    slip_in(&broker, &bag, 2, world.now().await).await;
    assert_eq!(eligibility(1).await, "tasksUnfinished");
    assert_eq!(eligibility(2).await, "tasksUnfinished");

    doubting.stop().await;
    world.served(&amqp).await;
    for user in [1, 3] {
        let join = api.try_join(&bag, user, Some(done.clone()));
        join.await.expect(202);
    }
    api.join_all(&bag, [4]).await;

    assert_eq!(eligibility(3).await, "eligible");
    assert_eq!(eligibility(4).await, "tasksUnfinished");
    // A repeated join changes nothing.
    assert_eq!(eligibility(1).await, "tasksUnfinished");
    eventually("the pool", async || world.check_pool(&bag).await).await;
    stop.cancel();
    believing.stop().await;
    amqp.close().await;
    world.end().await;
}

/// Sends joins as another process's door would: in batches of each partition, confirmed.
async fn accept_in_batches(
    broker: &Broker,
    bag: &Bag,
    users: std::ops::RangeInclusive<u64>,
    at: Timestamp,
) {
    let partitions = broker.topology().partitions();
    let mut messages = Vec::new();
    for partition in 0..partitions {
        let joins: Vec<JoinRequest> = users
            .clone()
            .filter(|user| partition_of(UserId(*user), partitions) == partition)
            .map(|user| join_request(bag, user, at))
            .collect();
        messages.extend(joins.chunks(256).map(|batch| {
            let joins = batch.to_vec();
            let id = format!("batch-{}", batch[0].user_id);
            StreamMessage::Joins { joins }.into_outgoing(partition, id)
        }));
    }
    for confirmed in broker.publish_all(messages).await {
        confirmed.expect("a confirm");
    }
}

/// Those who got a 202; the others came too late.
fn let_in(answers: BTreeMap<u64, Answer>) -> BTreeSet<u64> {
    let mut accepted = BTreeSet::new();
    for (user, answer) in answers {
        if answer.status.as_u16() == 202 {
            accepted.insert(user);
        } else {
            answer.expect_problem(409, "activity_closed");
        }
    }
    accepted
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_got_in_is_in_the_draw_although_the_consumers_slept_across_draw_at() {
    let world = World::new().await;
    let amqp = world.amqp().await;
    // Its connections outlast its sleep.
    let (servers, _) = world.rabbitmq_url.split_once('?').expect("a heartbeat");
    let outlasting = format!("{servers}?heartbeat=60");
    let sleeper = world.serve_with(&[("RABBITMQ__URL", &outlasting)]).await;
    world.served(&amqp).await;
    let door = world.serve().await;
    let api = world.api(&door).await;
    let (broker, stop) = world.broker().await;
    let bag = api
        .open_bag(&BagSpec {
            winners: 10,
            countdown_secs: 20,
            ..BagSpec::default()
        })
        .await;

    // 2,000 in the last seconds: as many as one door takes on a busy machine, the others at a
    // second one.
    world
        .until(bag.draw_at - TimeDelta::milliseconds(8_200))
        .await;
    sleeper.signal("STOP");
    world.until(bag.draw_at - TimeDelta::seconds(8)).await;
    let while_they_sleep = world.now().await;
    let elsewhere = async {
        accept_in_batches(&broker, &bag, 401..=2_000, while_they_sleep).await;
        assert!(world.now().await < bag.draw_at, "they were in time");
    };
    let (answers, ()) = tokio::join!(api.try_join_all(&bag, 1..=400), elsewhere);
    world
        .until(bag.draw_at + TimeDelta::milliseconds(500))
        .await;
    let admitted_asleep = world.number("SELECT COUNT(*) FROM participation").await;
    let woken_at = world.now().await;
    sleeper.signal("CONT");

    let detail = api.drawn(&bag).await;
    assert_eq!(admitted_asleep, 0, "the consumers slept");
    let mut accepted = let_in(answers);
    assert!(!accepted.is_empty(), "the door was open");
    accepted.extend(401..=2_000);
    let joined = world.participants(&bag, "joined").await;
    assert!(joined.is_superset(&accepted), "an accepted join is missing");
    assert_eq!(world.participants(&bag, "late").await, BTreeSet::new());
    let drawn_at = detail["drawnAt"].as_str().expect("drawnAt");
    let drawn_at: Timestamp = drawn_at.parse().expect("a time");
    assert!(
        drawn_at >= woken_at,
        "drawn at {drawn_at}, before {woken_at}"
    );
    assert_eq!(detail["participants"], joined.len(), "{detail}");
    world.assert_drawn_once(&bag).await;
    for user in accepted.iter().step_by(97) {
        api.assert_settled(&bag, *user, JOINED).await;
    }
    eventually("the pool", async || world.check_pool(&bag).await).await;
    stop.cancel();
    tokio::join!(door.stop(), sleeper.stop());
    world.assert_drained(&amqp).await;
    amqp.close().await;
    world.end().await;
}

/// Whom the events told about, by the event's id; a repeat says the same.
#[derive(Default)]
struct Told {
    said: BTreeMap<String, Value>,
    users: BTreeSet<u64>,
}

impl Told {
    /// Listens until all `users` have been told about.
    async fn all(events: &mut Events, users: &BTreeSet<u64>, ids: impl Fn(&Value) -> Vec<Value>) {
        let mut told = Self::default();
        while !told.users.is_superset(users) {
            let event = events.next().await;
            for id in ids(&event["data"]) {
                told.users
                    .insert(id.as_str().expect("text").parse().expect("an id"));
            }
            let id = event["id"].as_str().expect("an id").to_owned();
            if let Some(before) = told.said.insert(id, event["data"].clone()) {
                assert_eq!(before, event["data"], "a repeat says the same");
            }
        }
        assert_eq!(told.users, *users);
    }
}

/// The users of a `participation.updated`, each joined and new.
fn updated(data: &Value) -> Vec<Value> {
    let users = data["users"].as_array().expect("users").iter();
    users
        .map(|user| {
            assert_eq!(user["participation"], "joined", "{data}");
            assert_eq!(user["eligibility"], "eligible", "{data}");
            assert_eq!(user["revision"], 1, "{data}");
            user["userId"].clone()
        })
        .collect()
}

/// The users of a `join.accepted`.
fn accepted(data: &Value) -> Vec<Value> {
    data["userIds"].as_array().expect("users").clone()
}

/// Joins are admitted by a process that dies at `step`; another one takes over.
async fn joins_survive_a_death_at(step: &str) {
    let world = World::new().await;
    let amqp = world.amqp().await;
    let reporting = ("JOIN__REPORT_ACCEPTED", "true");
    let doomed = world
        .serve_with(&[("LUCKYBAG_DIE_AT", step), reporting])
        .await;
    world.served(&amqp).await;
    let heir = world.serve_with(&[reporting]).await;
    let exchange = world.topology().events_exchange();
    let mut updates = amqp.listen(&exchange, "participation.updated").await;
    let mut reports = amqp.listen(&exchange, "join.accepted").await;
    let api = world.api(&heir).await;
    let bag = api.open_bag(&long(1, json!({}))).await;
    let users: BTreeSet<u64> = (1..=40).collect();

    api.join_all(&bag, users.clone()).await;

    let status = doomed.exit_status().await;
    assert!(!status.success(), "it died: {status}");
    for user in &users {
        api.assert_settled(&bag, *user, JOINED).await;
    }
    assert_each_joined_once(&world, &bag, &users).await;
    for user in &users {
        eventually("the summary", async || {
            world.user_state(&bag, *user).await.ok_or("none")
        })
        .await;
    }
    Told::all(&mut updates, &users, updated).await;
    Told::all(&mut reports, &users, accepted).await;
    displayed_count(&world, &api, &bag, users.len()).await;
    heir.stop().await;
    world.assert_drained(&amqp).await;
    amqp.close().await;
    world.end().await;
}

/// These have joined, nobody else, and nothing happened twice to any of them.
async fn assert_each_joined_once(world: &World, bag: &Bag, users: &BTreeSet<u64>) {
    let joined = eventually("the joins to be admitted", async || {
        let joined = world.participants(bag, "joined").await;
        if joined.len() >= users.len() {
            Ok(joined)
        } else {
            Err(joined.len())
        }
    })
    .await;
    assert_eq!(joined, *users);
    let rows = world.number("SELECT COUNT(*) FROM participation").await;
    assert_eq!(usize::try_from(rows), Ok(users.len()));
    let changed = "SELECT COUNT(*) FROM participation WHERE revision <> 1";
    assert_eq!(world.number(changed).await, 0);
    eventually("the pool", async || world.check_pool(bag).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_survive_a_death_in_their_transaction() {
    joins_survive_a_death_at("admit.in_transaction").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_survive_a_death_between_the_commit_and_the_pool() {
    joins_survive_a_death_at("admit.committed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_survive_a_death_between_the_pool_and_the_event() {
    joins_survive_a_death_at("admit.projected").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_survive_a_death_between_the_event_and_the_ack() {
    joins_survive_a_death_at("admit.told").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_whose_door_died_before_the_answer_can_be_sent_again() {
    let world = World::new().await;
    let amqp = world.amqp().await;
    let step = ("LUCKYBAG_DIE_AT", "admit.in_transaction");
    let doomed = world.serve_with(&[step]).await;
    world.served(&amqp).await;
    let bag = world.api(&doomed).await.open_bag(&long(1, json!({}))).await;
    let url = format!("{}{}", doomed.url().await, bag.path("/join"));
    let api = world.api(&doomed).await;

    let join = api.http.post(&url).bearer_auth(api.viewer(1)).send();
    let (answer, status) = tokio::join!(join, doomed.exit_status());
    assert!(!status.success(), "it died: {status}");
    if let Ok(answer) = answer {
        assert_eq!(answer.status().as_u16(), 202);
    }
    let heir = world.serve().await;
    let api = world.api(&heir).await;
    api.join_all(&bag, [1, 2, 1]).await;

    api.assert_settled(&bag, 1, JOINED).await;
    assert_each_joined_once(&world, &bag, &[1, 2].into()).await;
    heir.stop().await;
    world.assert_drained(&amqp).await;
    amqp.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_goes_on_where_a_killed_one_stopped() {
    let users: BTreeSet<u64> = (1..=3_000).collect();
    let world = World::new().await;
    let amqp = world.amqp().await;
    let doomed = world.serve().await;
    world.served(&amqp).await;
    let heir = world.serve().await;
    let api = world.api(&heir).await;
    let bag = api.open_bag(&long(1, json!({}))).await;

    let kill = async {
        let admitted = eventually("some to be admitted", async || {
            let admitted = world.number("SELECT COUNT(*) FROM participation").await;
            if admitted >= 300 {
                Ok(admitted)
            } else {
                Err(admitted)
            }
        })
        .await;
        doomed.kill().await;
        admitted
    };
    let ((), admitted_before) = tokio::join!(api.join_all(&bag, users.clone()), kill);

    assert!(admitted_before < 3_000, "killed in the middle");
    assert_each_joined_once(&world, &bag, &users).await;
    displayed_count(&world, &api, &bag, users.len()).await;
    heir.stop().await;
    world.assert_drained(&amqp).await;
    amqp.close().await;
    world.end().await;
}
