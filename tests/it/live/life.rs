//! What a listener hears, from before the opening to the last round.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Event, Stream, ask, names};
use crate::harness::{Api, Bag, BagSpec, World};

fn is_status(word: &'static str) -> impl Fn(&Value) -> bool {
    move |data| data["status"] == word
}

fn is_count(count: u64) -> impl Fn(&Value) -> bool {
    move |data| data["count"] == count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_hears_the_whole_life_of_a_bag() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let spec = BagSpec {
        winners: 1,
        ..BagSpec::waiting()
    };
    let id = api.ready(&spec).await;
    let path = format!("/v1/activities/{id}/events");
    let mut stream = Stream::open(&api, &api.viewer(7), &path).await;

    let first = stream.next().await.expect("the state at once");
    assert_eq!(
        (first.name.as_str(), &first.data["status"]),
        ("status", &json!("ready"))
    );
    assert_eq!(
        stream.next_named("participants").await.data,
        json!({ "count": 0 })
    );
    let bag = api.open(&spec, id).await;
    let opened = stream.next_named("status").await.data;
    check_status(&opened, &api, &bag).await;
    api.join_all(&bag, 900_000_001..=900_000_003).await;
    stream.next_where("participants", is_count(3)).await;
    world.draw_soon(&[bag]).await;
    let drawn = stream.next_named("drawn").await;
    check_drawn(&drawn, 1, &api, &bag).await;

    let win = world.wins(bag.id).await[0].id;
    api.redraw(&bag, &[win]).await.expect(200);
    let redrawn = stream.next_named("drawn").await;
    check_drawn(&redrawn, 2, &api, &bag).await;

    assert!(
        !stream.text.contains("90000000"),
        "somebody is named:\n{}",
        stream.text
    );
    check_ids(&stream.text);
    let retry_ms = stream.retry_ms.expect("an advice");
    assert!((1_000..=3_000).contains(&retry_ms), "{retry_ms}");
    process.stop().await;
    world.end().await;
}

/// The same as the detail says.
async fn check_status(data: &Value, api: &Api, bag: &Bag) {
    let detail = api.get(&api.viewer(7), &bag.path("")).await.expect(200);
    for field in ["status", "startAt", "drawAt", "drawnAt", "round", "version"] {
        assert_eq!(data[field], detail[field], "{field}");
    }
    assert!(data["serverTime"].is_string(), "{data}");
    assert_eq!(data["status"], "open");
}

/// Told of what is committed, and with an advice that spreads the listeners.
async fn check_drawn(event: &Event, round: u64, api: &Api, bag: &Bag) {
    let data = &event.data;
    assert_eq!(data["round"], round, "{data}");
    assert_eq!(data["winnerCount"], 1, "{data}");
    assert!(
        data["nextPollMs"]
            .as_u64()
            .is_some_and(|wait| wait <= 2_000),
        "{data}"
    );
    let result = api
        .get(&api.viewer(7), &bag.path("/result"))
        .await
        .expect(200);
    assert_eq!(result["result"], "notWon", "{result}");
    assert_eq!(result["round"], round, "{result}");
    let detail = api.get(&api.viewer(7), &bag.path("")).await.expect(200);
    assert_eq!(data["drawnAt"], detail["drawnAt"], "{data}");
}

/// Each event has an id of its own.
fn check_ids(text: &str) {
    let ids: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("id: "))
        .collect();
    let different: BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), different.len(), "{text}");
    assert_eq!(ids.len(), text.matches("event: ").count(), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_bag_ends_the_stream_and_a_client_that_knows_need_not_come_again() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let mut stream = api.listen(&bag, 7).await;
    stream.next_where("participants", is_count(0)).await;

    let body = json!({ "reason": "the host is ill" });
    let host = api.host_of(bag.room);
    api.post(&host, &bag.path("/cancel"), Some(body))
        .await
        .expect(200);

    let events = stream.rest().await;
    assert_eq!(names(&events), ["status", "end"]);
    assert!(is_status("cancelled")(&events[0].data));
    assert_eq!(events[0].data["statusReason"], "the host is ill");
    assert_eq!(events[1].data, json!({ "reason": "over" }));
    let path = bag.path("/events");
    let again = ask(&api, &api.viewer(7), &path, Some(&stream.last_id)).await;
    assert_eq!(again.status(), 204);
    let head = reqwest::Client::new()
        .head(format!("{}{path}", api.url))
        .bearer_auth(api.viewer(7))
        .header("last-event-id", &stream.last_id);
    let head = head.send().await.expect("an answer");
    assert_eq!(head.status(), 204, "as GET says");
    let late = api.listen(&bag, 8).await.rest().await;
    assert_eq!(names(&late)[0], "status");
    assert_eq!(names(&late).last(), Some(&"end"));

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drawn_bag_ends_the_stream_after_a_while() {
    let world = World::new().await;
    let process = world.serve_with(&[("LIVE__LINGER_SECS", "5")]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 101..=102).await;
    let mut stream = api.listen(&bag, 7).await;
    world.draw_soon(&[bag]).await;

    let events = stream.rest().await;

    let lingered =
        "SELECT TIMESTAMPDIFF(MICROSECOND, drawn_at, NOW(6)) FROM activity WHERE id = ID";
    let lingered = world.number_of(bag.id, lingered).await;
    // What the process takes for the database's time may be a little ahead of it.
    assert!(lingered >= 4_000_000, "{lingered} µs:\n{}", stream.text);
    let drawn = events.iter().filter(|event| event.name == "drawn").count();
    assert_eq!(drawn, 1, "{}", stream.text);
    let end = events.last().expect("an end");
    assert_eq!(
        (end.name.as_str(), &end.data),
        ("end", &json!({ "reason": "over" }))
    );
    // The proof may be news still, but after that there is none.
    let path = bag.path("/events");
    let mut again = ask(&api, &api.viewer(7), &path, Some(&stream.last_id)).await;
    if again.status() == 200 {
        let mut news = Stream::of(again);
        news.rest().await;
        again = ask(&api, &api.viewer(7), &path, Some(&news.last_id)).await;
    }
    assert_eq!(again.status(), 204);

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_connects_again_is_told_only_what_is_new_at_whatever_process() {
    let world = World::new().await;
    // Draws nothing itself, and hears of nothing before it looks.
    let passive = [
        ("SWEEPER__ENABLED", "false"),
        ("DRAW__MESSAGES_ENABLED", "false"),
    ];
    let (a, b) = (world.serve().await, world.serve_with(&passive).await);
    let (at_a, at_b) = (world.api(&a).await, world.api(&b).await);
    let bag = at_a.open_bag(&BagSpec::waiting()).await;
    let path = bag.path("/events");
    at_a.join_all(&bag, 101..=104).await;
    let mut stream = at_a.listen(&bag, 7).await;
    stream.next_where("participants", is_count(4)).await;
    let mut last_id = stream.last_id.clone();
    drop(stream);

    for (api, user) in [(&at_a, 105), (&at_b, 106), (&at_b, 107)] {
        let mut stream = Stream::reopen(api, &api.viewer(7), &path, &last_id).await;
        api.join_all(&bag, [user]).await;
        let next = stream.next().await.expect("what is new");
        assert_eq!(next.name, "participants", "{}", stream.text);
        assert_eq!(next.data["count"], user - 100, "{}", stream.text);
        last_id.clone_from(&stream.last_id);
    }

    let mut stream = Stream::reopen(&at_b, &at_b.viewer(7), &path, &last_id).await;
    world.draw_soon(&[bag]).await;
    let drawn = stream.next_named("drawn").await;
    assert_eq!(drawn.data["round"], 1);
    let mut again = Stream::reopen(&at_a, &at_a.viewer(7), &path, &drawn.id).await;
    let win = world.wins(bag.id).await[0].id;
    at_a.redraw(&bag, &[win]).await.expect(200);
    assert_eq!(
        again.next_named("drawn").await.data["round"],
        2,
        "{}",
        again.text
    );
    assert_eq!(
        stream.next_named("drawn").await.data["round"],
        2,
        "{}",
        stream.text
    );
    for id in [
        "",
        "nonsense",
        "1.4000000000.9.1",
        "99999999999999999999.1.1.1",
    ] {
        let mut stream = Stream::reopen(&at_b, &at_b.viewer(7), &path, id).await;
        let first = stream.next().await.expect("the state");
        assert_eq!(first.name, "status", "{id}: {}", stream.text);
    }

    a.stop().await;
    b.stop().await;
    world.end().await;
}
