//! One running activity a room, and what becomes of a cancelled one.

use futures_util::future::join_all;
use luckybag::kernel::ActivityId;
use serde_json::{Value, json};

use super::{event_with, events_until};
use crate::harness::{Api, Bag, BagSpec, Process, World, eventually};

const ROOM: u64 = 8001;

#[tokio::test(flavor = "multi_thread")]
async fn of_ten_openings_in_one_room_at_two_processes_one_succeeds() {
    let world = World::new().await;
    let without_sweeper = [("SWEEPER__ENABLED", "false")];
    let (one, other) = tokio::join!(
        world.serve_with(&without_sweeper),
        world.serve_with(&without_sweeper)
    );
    let apis = [world.api(&one).await, world.api(&other).await];
    let spec = BagSpec {
        countdown_secs: 600,
        ..BagSpec::default()
    };
    let drafts = join_all((0..10).map(|_| apis[0].ready(&spec))).await;

    let openings = (0..).zip(&drafts).map(|(number, id)| {
        let api = &apis[number % 2];
        async move { (*id, api.step(*id, "open").await) }
    });
    let answers = join_all(openings).await;

    let mut opened = Vec::new();
    for (id, answer) in answers {
        if answer.status == 200 {
            opened.push(id);
        } else {
            answer.expect_problem(409, "room_busy");
        }
    }
    let [first] = opened[..] else {
        panic!("one opening succeeds: {opened:?}");
    };
    // The others took nothing.
    let reserved = "SELECT CAST(SUM(reserved) AS SIGNED) FROM prize";
    assert_eq!(world.number(reserved).await, 3);
    let ready = "SELECT COUNT(*) FROM activity WHERE status = 'ready' AND commitment IS NULL";
    assert_eq!(world.number(ready).await, 9);
    world.expect_room(ROOM, &[(first, "1")]).await;
    expect_listed(&apis, first).await;

    // The room is free again as soon as it is cancelled.
    let second = drafts.into_iter().find(|id| *id != first).expect("others");
    apis[0]
        .step(second, "open")
        .await
        .expect_problem(409, "room_busy");
    apis[1].step(first, "cancel").await.expect(200);
    apis[0].step(second, "open").await.expect(200);
    world
        .expect_room(ROOM, &[(first, "0"), (second, "1")])
        .await;
    expect_listed(&apis, second).await;
    world.expect_empty_outbox().await;

    one.stop().await;
    other.stop().await;
    world.end().await;
}

/// Every process shows the room's only running activity.
async fn expect_listed(apis: &[Api; 2], id: ActivityId) {
    let path = format!("/v1/rooms/{ROOM}/activities");
    for api in apis {
        eventually("the room's list", async || {
            let listed = api.get(&api.viewer(5), &path).await.expect(200);
            let ids: Vec<&Value> = listed["items"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|item| &item["id"])
                .collect();
            if ids == [&json!(id)] {
                Ok(())
            } else {
                Err(listed)
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_activity_gives_everything_back_and_is_never_drawn() {
    let world = World::new().await;
    // The first process has the stream, the second is the one that is asked.
    let consumer = world.serve_reader(&[("SWEEPER__ENABLED", "false")]).await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let mut events = amqp.listen(&world.topology().events_exchange(), "#").await;
    let prize = api.library_prize("Mug", Some(5)).await;
    let spec = BagSpec {
        countdown_secs: 20,
        extra: json!({ "prizes": [{ "prizeId": prize, "quantity": 2 }] }),
        ..BagSpec::default()
    };
    let bag = api.open_bag(&spec).await;
    api.join_all(&bag, [11]).await;
    assert_eq!(api.settled(&bag, 11).await["participation"], "joined");
    assert_eq!(world.stock(prize).await, (2, 0));

    cancel_with_joins_under_way(&api, &bag, &consumer).await;
    check_given_back(&world, &api, &bag).await;
    assert_eq!(world.stock(prize).await, (0, 0));

    // The same room, drawn after the cancelled one would have been.
    let next = api.open_bag(&spec).await;
    assert!(next.draw_at > bag.draw_at);
    api.join_all(&next, [12]).await;
    api.drawn(&next).await;
    check_never_drawn(&world, &api, &bag).await;
    assert_eq!(world.stock(prize).await, (0, 1));
    api.step(next.id, "cancel")
        .await
        .expect_problem(409, "illegal_transition");
    api.step(bag.id, "open")
        .await
        .expect_problem(409, "illegal_transition");
    world
        .expect_room(ROOM, &[(bag.id, "0"), (next.id, "0")])
        .await;

    let heard = events_until(&mut events, &format!("drawn:{}", next.id)).await;
    check_events(&heard, &bag, &next);
    world.expect_empty_outbox().await;

    amqp.close().await;
    process.stop().await;
    consumer.stop().await;
    world.end().await;
}

/// Joins that were accepted before the cancellation and are handled after it.
async fn cancel_with_joins_under_way(api: &Api, bag: &Bag, consumer: &Process) {
    consumer.signal("STOP");
    api.join_all(bag, 21..=26).await;
    let me = api.get(&api.viewer(21), &bag.path("/me")).await.expect(200);
    assert_eq!(me["participation"], "processing", "{me}");
    let reason = json!({ "reason": "No more mugs" });
    let cancelled = api
        .post(&api.host_of(ROOM), &bag.path("/cancel"), Some(reason))
        .await
        .expect(200);
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    assert_eq!(cancelled["statusReason"], "No more mugs", "{cancelled}");
    consumer.signal("CONT");

    for user in 21..=26 {
        let me = api.settled(bag, user).await;
        assert_eq!(me["participation"], "late", "{me}");
        assert_eq!(me["reason"], "cancelled", "{me}");
    }
}

async fn check_given_back(world: &World, api: &Api, bag: &Bag) {
    world.expect_room(ROOM, &[(bag.id, "0")]).await;
    eventually("the hot copy", async || {
        let hot = world.hot_detail(bag.id).await;
        if hot["status"] == "cancelled" {
            Ok(())
        } else {
            Err(hot)
        }
    })
    .await;
    let path = format!("/v1/rooms/{ROOM}/activities");
    let listed = api.get(&api.viewer(5), &path).await.expect(200);
    assert_eq!(listed["items"], json!([]), "{listed}");
    let late = api.post(&api.viewer(27), &bag.path("/join"), None).await;
    late.expect_problem(409, "activity_closed");
    // Whoever knew of it may see what became of it.
    let shown = api.get(&api.viewer(5), &bag.path("")).await.expect(200);
    assert_eq!(shown["status"], "cancelled", "{shown}");
    assert_eq!(shown["participants"], 1, "{shown}");
}

async fn check_never_drawn(world: &World, api: &Api, bag: &Bag) {
    let wins = format!(
        "SELECT COUNT(*) FROM win_record WHERE activity_id = {}",
        bag.id
    );
    assert_eq!(world.number(&wins).await, 0);
    assert_eq!(api.detail(bag.id).await["status"], "cancelled");
    for user in [11, 21] {
        let result = api.get(&api.viewer(user), &bag.path("/result")).await;
        assert_eq!(result.expect(200)["result"], "notDrawn");
    }
    let draw = api.step(bag.id, "draw").await;
    draw.expect_problem(409, "activity_cancelled");
}

fn check_events(heard: &[Value], bag: &Bag, next: &Bag) {
    let opened = event_with(heard, &format!("opened:{}", bag.id));
    assert_eq!(opened["type"], "activity.opened");
    assert_eq!(opened["data"]["roomId"], ROOM.to_string(), "{opened}");
    assert_eq!(opened["data"]["winnerCount"], 2, "{opened}");
    assert!(opened["data"].get("seed").is_none(), "{opened}");
    let cancelled = event_with(heard, &format!("cancelled:{}", bag.id));
    assert_eq!(cancelled["type"], "activity.cancelled");
    assert_eq!(cancelled["data"]["reason"], "No more mugs", "{cancelled}");
    assert_eq!(cancelled["data"]["wasOpened"], true, "{cancelled}");
    let version = |event: &Value| event["data"]["version"].as_u64().expect("a version");
    assert!(version(cancelled) > version(opened));
    event_with(heard, &format!("opened:{}", next.id));

    let after_draws = ["activity.drawn", "result.won", "result.not_won"];
    for event in heard {
        let is_of_bag = event["data"]["activityId"] == bag.id.to_string();
        let is_of_draw = after_draws.iter().any(|kind| event["type"] == *kind);
        assert!(!(is_of_bag && is_of_draw), "{event}");
    }
}
