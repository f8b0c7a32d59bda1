//! Two processes side by side, sharing everything.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Api, Bag, BagSpec, World, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_serve_the_same_activities_and_one_goes_on_alone() {
    let world = World::new().await;
    let (a, b) = (world.serve().await, world.serve().await);
    let (at_a, at_b) = (world.api(&a).await, world.api(&b).await);

    let bag = at_a.open_bag(&BagSpec::waiting()).await;
    assert_is_open(&at_b, &bag).await;
    tokio::join!(
        at_a.join_all(&bag, (101..=180).step_by(2)),
        at_b.join_all(&bag, (102..=180).step_by(2)),
    );
    // Whoever took the join, both know of it.
    for (api, user) in [(&at_a, 102), (&at_b, 101)] {
        let me = api.settled(&bag, user).await;
        assert_eq!(me["participation"], "joined", "{me}");
    }
    same_detail(&at_a, &at_b, &bag, 80).await;

    a.kill().await;
    at_b.join_all(&bag, 201..=220).await;
    world.draw_soon(&[bag]).await;
    let detail = at_b.drawn(&bag).await;

    assert_eq!(detail["participants"], 100, "{detail}");
    let winners = at_b.winners(&bag).await;
    assert_eq!(winners.len(), 3, "{winners:?}");
    for user in (101..=180).chain(201..=220) {
        let me = at_b.settled(&bag, user).await;
        assert_eq!(me["participation"], "joined", "{user}: {me}");
    }
    // A new A knows all of it.
    let a = world.serve().await;
    let at_a = world.api(&a).await;
    assert_eq!(at_a.winners(&bag).await, winners);
    same_detail(&at_a, &at_b, &bag, 100).await;
    a.stop().await;
    b.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_at_one_process_ends_joins_at_the_other_within_its_memory() {
    /// `activity.detail_memory_ms`.
    const MEMORY: Duration = Duration::from_secs(1);
    /// For the calls themselves, on a busy machine.
    const ALLOWANCE: Duration = Duration::from_secs(20);
    let world = World::new().await;
    let (a, b) = (world.serve().await, world.serve().await);
    let (at_a, at_b) = (world.api(&a).await, world.api(&b).await);
    let bag = at_a
        .open_bag(&BagSpec {
            countdown_secs: 600,
            ..BagSpec::default()
        })
        .await;
    at_b.join_all(&bag, [101]).await;
    at_b.settled(&bag, 101).await;

    let host = at_a.host_of(bag.room);
    at_a.post(&host, &bag.path("/cancel"), None)
        .await
        .expect(200);
    let cancelled = Instant::now();

    at_a.post(&at_a.viewer(102), &bag.path("/join"), None)
        .await
        .expect_problem(409, "activity_closed");
    let mut accepted_late = Vec::new();
    for user in 103.. {
        // What counts is when it was asked, not how long the answer took.
        let asked_after = cancelled.elapsed();
        let answer = at_b
            .post(&at_b.viewer(user), &bag.path("/join"), None)
            .await;
        if answer.status != 202 {
            answer.expect_problem(409, "activity_closed");
            break;
        }
        accepted_late.push(user);
        assert!(asked_after < MEMORY + ALLOWANCE, "still accepted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Nobody who was told 202 is left without a verdict, and none of them is in.
    for user in accepted_late {
        let me = at_a.settled(&bag, user).await;
        assert_ne!(me["participation"], "joined", "{user}: {me}");
    }
    let detail = same_detail(&at_a, &at_b, &bag, 1).await;
    assert_eq!(detail["status"], "cancelled", "{detail}");
    // The room is free for the next one, at either process.
    at_b.open_bag(&BagSpec::default()).await;
    a.stop().await;
    b.stop().await;
    world.end().await;
}

async fn assert_is_open(api: &Api, bag: &Bag) {
    let viewer = api.viewer(7);
    let detail = api.get(&viewer, &bag.path("")).await.expect(200);
    assert_eq!(detail["status"], "open", "{detail}");
    let path = format!("/v1/rooms/{}/activities", bag.room);
    let room = api.get(&viewer, &path).await.expect(200);
    assert_eq!(room["items"][0]["id"], json!(bag.id), "{room}");
}

/// Waits until both processes show the same, with as many participants.
async fn same_detail(a: &Api, b: &Api, bag: &Bag, participants: u64) -> Value {
    let read = async |api: &Api| {
        let answer = api.get(&api.viewer(7), &bag.path("")).await;
        let mut detail = answer.expect(200);
        detail["serverTime"] = Value::Null;
        detail
    };
    eventually("the same detail at both", async || {
        let (at_a, at_b) = (read(a).await, read(b).await);
        if at_a == at_b && at_a["participants"] == participants {
            Ok(at_a)
        } else {
            Err((at_a, at_b))
        }
    })
    .await
}
