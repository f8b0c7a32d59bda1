//! What a host is told of its activity: the same from the pool and from the rows, at every time.

use chrono::TimeDelta;
use luckybag::{
    candidate::{JoinRequest, StreamMessage, partition_of},
    kernel::{ActivityId, Timestamp, UserId},
};
use serde_json::{Value, json};

use crate::harness::{
    Api, Bag, BagSpec, Process, Proxies, World, completion, eventually, metric, metrics_page,
    named_down, presence,
};

const NO_SWEEPER: (&str, &str) = ("SWEEPER__ENABLED", "false");

async fn stats_of(api: &Api, id: ActivityId, room: u64) -> Value {
    let path = format!("/v1/activities/{id}/stats");
    api.get(&api.host_of(room), &path).await.expect(200)
}

/// The figures that were counted after this call.
async fn fresh(world: &World, api: &Api, bag: &Bag) -> Value {
    let asked_at = world.now().await + TimeDelta::milliseconds(100);
    eventually("fresh figures", async || {
        let mut stats = stats_of(api, bag.id, bag.room).await;
        let as_of: Timestamp = stats["asOf"]
            .as_str()
            .expect("asOf")
            .parse()
            .expect("a time");
        if as_of > asked_at {
            stats.as_object_mut().expect("an object").remove("asOf");
            Ok(stats)
        } else {
            Err(stats)
        }
    })
    .await
}

/// How often this process has counted in the pool, and in the rows.
async fn counted(process: &Process) -> (f64, f64) {
    let page = metrics_page(&process.url().await).await;
    let path = |path: &str| {
        let series = format!("luckybag_stats_total{{path=\"{path}\"}}");
        metric(&page, &series).unwrap_or_default()
    };
    (path("pool"), path("rows"))
}

#[track_caller]
fn assert_adds_up(stats: &Value) {
    let number = |name: &str| stats[name].as_u64().expect(name);
    let parts = [
        "eligible",
        "absent",
        "tasksUnfinished",
        "absentAndTasksUnfinished",
        "forfeited",
    ];
    let sum: u64 = parts.into_iter().map(number).sum();
    assert_eq!(sum, number("joined"), "{stats}");
    assert!(number("trimmed") <= number("joined"), "{stats}");
}

/// A join past the door: one that cannot be right, or one that came too late.
async fn slip_in(world: &World, bag: &Bag, user: u64, accepted_at: Timestamp) {
    let (broker, stop) = world.broker().await;
    let joins = vec![JoinRequest {
        activity_id: bag.id,
        user_id: UserId(user),
        device_id: None,
        completed_tasks: vec![],
        accepted_at,
        request_id: format!("r-{user}"),
    }];
    let partition = partition_of(UserId(user), broker.topology().partitions());
    let message = StreamMessage::Joins { joins }.into_outgoing(partition, format!("m-{user}"));
    broker.publish(message).await.expect("a confirm");
    stop.cancel();
}

async fn deny(world: &World, user: u64) {
    world
        .execute(&format!(
            "INSERT INTO deny_list (scope, user_id, created_by, created_at) \
             VALUES (0, {user}, 1, NOW(3))"
        ))
        .await;
}

async fn won_before(world: &World, user: u64) {
    world
        .execute(&format!(
            "INSERT INTO win_record (id, activity_id, user_id, seat, round, prize_id, \
             prize_rank, score, status, fulfilment, drawn_at) VALUES ({user}, 5, {user}, \
             {user}, 1, 1, 1, 0.5, 'won', 'pending', NOW(3))"
        ))
        .await;
}

/// Somebody of every kind: users `base` + 1 to 20.
async fn crowd(world: &World, api: &Api, bag: &Bag, base: u64, rule: &str) {
    deny(world, base + 11).await;
    deny(world, base + 12).await;
    won_before(world, base + 13).await;
    for user in 1..=10 {
        api.join_from(bag, base + user, &format!("phone {user}"))
            .await;
        api.settled(bag, base + user).await;
    }
    for user in [11, 12, 13] {
        api.join_from(bag, base + user, &format!("phone {user}"))
            .await;
    }
    // The phone of the first; none at all; after drawAt.
    api.join_from(bag, base + 14, "phone 1").await;
    slip_in(world, bag, base + 15, world.now().await).await;
    slip_in(world, bag, base + 16, bag.draw_at).await;
    for user in 11..=16 {
        api.settled(bag, base + user).await;
    }

    let now = world.now().await;
    let done = (1..=7).map(|user| completion(bag, base + user, "follow", now));
    let done: Vec<Value> = done.collect();
    api.report("tasks", &done).await;
    let leaves = [5, 6, 10].map(|user| presence(bag, base + user, "leave", now));
    api.report("presence", &leaves).await;
    for user in 1..=10 {
        let eligibility = match user {
            5 | 6 | 10 if rule == "forfeit" => "forfeited",
            5 | 6 => "absent",
            10 => "absentAndTasksUnfinished",
            8 | 9 => "tasksUnfinished",
            _ => "eligible",
        };
        api.becomes(bag, base + user, eligibility).await;
    }
    eventually("the pool", async || world.check_pool(bag).await).await;
}

/// What the host of such a crowd is told.
fn of_crowd(bag: &Bag, status: &str, split: &Value) -> Value {
    let mut told = json!({
        "activityId": bag.id, "status": status, "joined": 10, "eligible": 5,
        "tasksUnfinished": 2, "absent": 0, "absentAndTasksUnfinished": 0, "forfeited": 0,
        "trimmed": 0, "late": 1,
        "rejected": { "blocked": 2, "cooldown": 1, "duplicateDevice": 1, "invalid": 1 },
        "winnerCount": 5, "fillsAllSeats": true,
    });
    for (name, value) in split.as_object().expect("an object") {
        told[name] = value.clone();
    }
    told
}

fn spec(room: u64, rule: &str) -> BagSpec {
    BagSpec {
        room,
        winners: 5,
        extra: json!({
            "presenceRule": rule, "oneEntryPerDevice": true,
            "tasks": [{ "taskId": "follow", "title": "Follow" }],
        }),
        ..BagSpec::waiting()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_and_the_rows_give_the_same_figures_and_a_crowd_of_hosts_counts_once() {
    let world = World::new().await;
    // A busy machine must not look like a silent Redis.
    let patient = ("REDIS__COMMAND_TIMEOUT_MS", "5000");
    let process = world.serve_with(&[NO_SWEEPER, patient]).await;
    let api = world.api(&process).await;

    for (room, rule, split) in [
        (
            1,
            "pause",
            json!({ "absent": 2, "absentAndTasksUnfinished": 1 }),
        ),
        (2, "forfeit", json!({ "forfeited": 3 })),
    ] {
        let bag = api.open_bag(&spec(room, rule)).await;
        crowd(&world, &api, &bag, room * 1_000, rule).await;
        let expected = of_crowd(&bag, "open", &split);

        let before = counted(&process).await;
        let many = (0..40).map(|_| stats_of(&api, bag.id, bag.room));
        let many = futures_util::future::join_all(many).await;
        let after = counted(&process).await;
        let asked = after.0 - before.0;
        assert!(
            (1.0..=5.0).contains(&asked),
            "counted {asked} times for 40 hosts"
        );
        assert!((after.1 - before.1).abs() < 0.1, "the pool was whole");
        let mut first = many[0].clone();
        first.as_object_mut().expect("an object").remove("asOf");
        assert_eq!(first, expected);
        assert_adds_up(&first);

        world.forget_redis().await;
        assert_eq!(fresh(&world, &api, &bag).await, expected);
        let from_rows = counted(&process).await.1 - after.1;
        assert!(from_rows >= 1.0, "the pool was empty");
        let operator = api.get(&api.operator(), &bag.path("/stats")).await;
        operator.expect(200);
    }
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seat_more_than_there_are_eligible_is_not_filled() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api
        .open_bag(&BagSpec {
            winners: 4,
            extra: json!({ "presenceRule": "pause" }),
            ..BagSpec::waiting()
        })
        .await;
    api.join_all(&bag, 1..=4).await;
    for user in 1..=4 {
        api.settled(&bag, user).await;
    }
    assert_eq!(fresh(&world, &api, &bag).await["fillsAllSeats"], true);

    let leaves = presence(&bag, 4, "leave", world.now().await);
    api.report("presence", &[leaves]).await;
    api.becomes(&bag, 4, "absent").await;

    let stats = fresh(&world, &api, &bag).await;
    assert_eq!(stats["eligible"], 3, "{stats}");
    assert_eq!(stats["fillsAllSeats"], false, "{stats}");
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_figures_before_the_opening_while_drawing_after_the_draw_and_after_the_end() {
    let world = World::new().await;
    let died = ("LUCKYBAG_DIE_AT", "draw.frozen");
    let doomed = world.serve_with(&[died]).await;
    let idle = [NO_SWEEPER, ("DRAW__MESSAGES_ENABLED", "false")];
    let api = world.api(&doomed).await;
    let nothing = |id: ActivityId, status: &str| {
        json!({
            "activityId": id, "status": status, "joined": 0, "eligible": 0, "absent": 0,
            "tasksUnfinished": 0, "absentAndTasksUnfinished": 0, "forfeited": 0, "trimmed": 0,
            "late": 0, "winnerCount": 5, "fillsAllSeats": false,
            "rejected": { "blocked": 0, "cooldown": 0, "duplicateDevice": 0, "invalid": 0 },
        })
    };
    let without_time = |mut stats: Value| {
        assert!(stats["asOf"].is_string(), "{stats}");
        stats.as_object_mut().expect("an object").remove("asOf");
        stats
    };
    let draft = api.draft(&spec(3, "pause")).await;
    let shown = without_time(stats_of(&api, draft, 3).await);
    assert_eq!(shown, nothing(draft, "draft"));
    let ready = api.ready(&spec(3, "pause")).await;
    let shown = without_time(stats_of(&api, ready, 3).await);
    assert_eq!(shown, nothing(ready, "ready"));
    let cancelled = api.open_bag(&spec(2, "pause")).await;
    api.join_from(&cancelled, 7, "phone").await;
    api.settled(&cancelled, 7).await;
    api.post(&api.host_of(2), &cancelled.path("/cancel"), None)
        .await
        .expect(200);
    let shown = fresh(&world, &api, &cancelled).await;
    assert_eq!(shown["status"], "cancelled", "{shown}");
    assert_eq!(shown["joined"], 1, "{shown}");
    assert_eq!(shown["fillsAllSeats"], Value::Null, "{shown}");
    let bag = api.open_bag(&spec(1, "pause")).await;
    crowd(&world, &api, &bag, 1_000, "pause").await;
    let split = json!({ "absent": 2, "absentAndTasksUnfinished": 1 });

    let observer = world.serve_with(&idle).await;
    world.draw_soon(&[bag]).await;
    let status = doomed.exit_status().await;
    assert!(!status.success(), "it died: {status}");
    let api = world.api(&observer).await;
    let shown = fresh(&world, &api, &bag).await;
    assert_eq!(shown, of_crowd(&bag, "drawing", &split));

    let heir = world.serve_with(&[("SWEEPER__INTERVAL_MS", "200")]).await;
    let api = world.api(&heir).await;
    api.drawn(&bag).await;
    // Whoever comes now is late.
    slip_in(&world, &bag, 1_017, bag.draw_at).await;
    api.settled(&bag, 1_017).await;
    let mut expected = of_crowd(&bag, "drawn", &split);
    expected["late"] = json!(2);
    assert_eq!(fresh(&world, &api, &bag).await, expected);
    world.forget_redis().await;
    assert_eq!(fresh(&world, &api, &bag).await, expected);
    tokio::join!(observer.stop(), heir.stop());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_are_trimmed_are_counted_with_the_others() {
    let world = World::new().await;
    let changes = [
        ("CANDIDATE__TRIM_AFTER", "10"),
        ("CANDIDATE__TRIM_FLOOR", "0.9"),
    ];
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    let extra = json!({ "presenceRule": "pause" });
    let bag = api
        .open_bag(&BagSpec {
            extra,
            ..BagSpec::waiting()
        })
        .await;
    // One after another, so that counting has begun before the last ones come.
    for users in [1..=20, 21..=60] {
        api.join_all(&bag, users.clone()).await;
        for user in users {
            api.settled(&bag, user).await;
        }
    }
    let now = world.now().await;
    let leaves: Vec<Value> = (1..=60)
        .filter(|user| user % 3 == 0)
        .map(|user| presence(&bag, user, "leave", now))
        .collect();
    api.report("presence", &leaves).await;
    for user in 1..=60 {
        let eligibility = if user % 3 == 0 { "absent" } else { "eligible" };
        api.becomes(&bag, user, eligibility).await;
    }

    let stats = fresh(&world, &api, &bag).await;

    assert_adds_up(&stats);
    let figures = ["joined", "eligible", "absent"].map(|name| stats[name].as_u64());
    assert_eq!(figures, [Some(60), Some(40), Some(20)], "{stats}");
    let trimmed = world
        .number("SELECT COUNT(*) FROM participation WHERE is_trimmed")
        .await;
    assert!(trimmed > 0, "nobody was trimmed");
    assert_eq!(stats["trimmed"].as_i64(), Some(trimmed), "{stats}");
    let (in_pool, _) = counted(&process).await;
    assert!(in_pool < 0.1, "the pool cannot tell");
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_the_rows_are_counted_and_without_mysql_the_host_is_told_to_try_later() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let process = world.serve_with(&proxies.changes()).await;
    let url = process.url().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 1..=5).await;
    for user in 1..=5 {
        api.settled(&bag, user).await;
    }

    proxies.redis.refuse();
    named_down(&url, 200, &["redis"]).await;
    let stats = fresh(&world, &api, &bag).await;
    assert_eq!(stats["eligible"], 5, "{stats}");
    assert_adds_up(&stats);
    proxies.redis.resume();
    named_down(&url, 200, &[]).await;

    proxies.mysql.refuse();
    named_down(&url, 200, &["mysql"]).await;
    let (token, path) = (api.operator(), bag.path("/stats"));
    let refused = eventually("the last figures to be forgotten", async || {
        let answer = api.get(&token, &path).await;
        if answer.status.as_u16() == 200 {
            Err(answer)
        } else {
            Ok(answer)
        }
    })
    .await;
    assert!(!refused.header("retry-after").is_empty());
    refused.expect_problem(503, "unavailable");
    proxies.mysql.resume();
    named_down(&url, 200, &[]).await;
    assert_eq!(fresh(&world, &api, &bag).await["joined"], 5);
    process.stop().await;
    world.end().await;
}
