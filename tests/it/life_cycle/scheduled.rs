//! Openings at a set time.

use std::time::Duration;

use futures_util::future::join_all;
use luckybag::kernel::{ActivityId, Clock, SystemClock, Timestamp, format_timestamp};
use serde_json::{Value, json};

use super::{event_with, events_until};
use crate::harness::{Api, Bag, BagSpec, World, eventually};

/// Ready to open in eight seconds.
async fn scheduled(api: &Api, room: u64, extra: Value) -> (ActivityId, String) {
    let start_at = format_timestamp(SystemClock.now() + Duration::from_secs(8));
    let mut extra = extra;
    extra["startAt"] = json!(start_at);
    let spec = BagSpec {
        room,
        countdown_secs: 600,
        extra,
        ..BagSpec::default()
    };
    (api.ready(&spec).await, start_at)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduled_activity_opens_by_itself_or_tells_why_not_until_it_can_or_is_cancelled() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let mut events = amqp
        .listen(&world.topology().events_exchange(), "activity.*")
        .await;
    let rare = api.library_prize("Rare mug", Some(1)).await;
    let two_rare = json!({ "prizes": [{ "prizeId": rare, "quantity": 2 }] });

    let (first, start_at) = scheduled(&api, 1, json!({})).await;
    let (short, _) = scheduled(&api, 2, two_rare).await;
    check_before_opening(&api, first, &start_at).await;
    check_opened(&api, first, &start_at).await;
    let (second, _) = scheduled(&api, 1, json!({})).await;
    let (third, _) = scheduled(&api, 1, json!({})).await;
    for id in [second, third] {
        check_waiting(&api, id, "room 1 has a running activity already").await;
    }
    check_waiting(&api, short, "there is not enough stock of: Rare mug").await;

    // Its drawAt, counted from its start, has come near: it can no longer open.
    let over = "UPDATE activity SET start_at = NOW(3) - INTERVAL 596 SECOND WHERE id =";
    world.execute(&format!("{over} {third}")).await;
    check_given_up(&api, third).await;
    // What was in the way of the others goes away.
    api.step(first, "cancel").await.expect(200);
    let path = format!("/v1/prizes/{rare}");
    let more = api
        .patch(&api.operator(), &path, json!({ "stockTotal": 2 }))
        .await;
    more.expect(200);
    for id in [second, short] {
        check_opened_at_last(&api, id).await;
    }
    assert_eq!(world.stock(rare).await, (2, 0));

    let heard = events_until(&mut events, &format!("opened:{short}")).await;
    let cancelled = event_with(&heard, &format!("cancelled:{third}"));
    assert_eq!(cancelled["data"]["wasOpened"], false, "{cancelled}");
    world.expect_room(1, &[(first, "0"), (second, "1")]).await;
    world.expect_empty_outbox().await;

    amqp.close().await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_activities_that_cannot_open_do_not_block_those_behind_them() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let later = format_timestamp(SystemClock.now() + Duration::from_mins(10));
    let in_room = |room| BagSpec {
        room,
        countdown_secs: 600,
        extra: json!({ "startAt": later }),
        ..BagSpec::default()
    };
    api.open_bag(&BagSpec {
        room: 1,
        countdown_secs: 600,
        ..BagSpec::default()
    })
    .await;
    let blocked = in_room(1);
    // Not more at once than may be at MySQL.
    for _ in 0..10 {
        join_all((0..5).map(|_| api.ready(&blocked))).await;
    }
    let behind = api.ready(&in_room(2)).await;

    let due = "UPDATE activity SET start_at = NOW(3) - INTERVAL (3 - room_id) SECOND";
    world
        .execute(&format!("{due} WHERE status = 'ready'"))
        .await;

    api.detail_with(behind, "status", "open").await;
    process.stop().await;
    world.end().await;
}

/// Viewers may know of it, and cannot join yet.
async fn check_before_opening(api: &Api, id: ActivityId, start_at: &str) {
    let path = format!("/v1/activities/{id}");
    let shown = api.get(&api.viewer(5), &path).await.expect(200);
    if shown["status"] == "ready" {
        assert_eq!(shown["startAt"], start_at, "{shown}");
        assert_eq!(shown["participants"], 0, "{shown}");
    }
    let early = "not yet open, or open by now on a slow machine";
    let join = api
        .post(&api.viewer(5), &format!("{path}/join"), None)
        .await;
    match join.status.as_u16() {
        202 => assert!(SystemClock.now() >= time(start_at), "{early}: {join:?}"),
        _ => drop(join.expect_problem(409, "activity_not_open")),
    }
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

async fn check_opened(api: &Api, id: ActivityId, start_at: &str) {
    let opened = api.detail_with(id, "status", "open").await;
    let opened_at = time(opened["startAt"].as_str().expect("startAt"));
    let draw_at = time(opened["drawAt"].as_str().expect("drawAt"));
    assert!(opened_at >= time(start_at), "{opened}");
    assert_eq!((draw_at - opened_at).num_milliseconds(), 600_000);
    let by_whom = api.audited(id).await.pop().expect("a record");
    assert_eq!(by_whom, ("sweeper".to_owned(), "activity.open".to_owned()));
    let bag = Bag {
        id,
        room: 1,
        draw_at,
    };
    api.join_all(&bag, [6]).await;
    assert_eq!(api.settled(&bag, 6).await["participation"], "joined");
}

async fn check_waiting(api: &Api, id: ActivityId, reason: &str) {
    let waiting = api.detail_with(id, "statusReason", reason).await;
    assert_eq!(waiting["status"], "ready", "{waiting}");
    let by_whom = api.audited(id).await.pop().expect("a record");
    let expected = ("sweeper".to_owned(), "activity.open_failed".to_owned());
    assert_eq!(by_whom, expected);
}

async fn check_given_up(api: &Api, id: ActivityId) {
    let cancelled = api.detail_with(id, "status", "cancelled").await;
    let reason = "room 1 has a running activity already";
    assert_eq!(cancelled["statusReason"], reason, "{cancelled}");
    let by_whom = api.audited(id).await.pop().expect("a record");
    assert_eq!(
        by_whom,
        ("sweeper".to_owned(), "activity.cancel".to_owned())
    );
    // It never opened, so there is nothing for viewers to know. A process may remember the state
    // before for a moment.
    eventually("viewers to see nothing of it", async || {
        let path = format!("/v1/activities/{id}");
        let shown = api.get(&api.viewer(5), &path).await;
        if shown.status == 404 {
            Ok(())
        } else {
            Err(shown)
        }
    })
    .await;
}

async fn check_opened_at_last(api: &Api, id: ActivityId) {
    let opened = api.detail_with(id, "status", "open").await;
    assert!(opened.get("statusReason").is_none(), "{opened}");
    // One reason is told once, however often the opening is tried.
    let failures = api.audited(id).await;
    let failures = failures
        .iter()
        .filter(|(_, action)| action == "activity.open_failed");
    assert_eq!(failures.count(), 1);
}
