//! Odd text on its way through everything that keeps and shows it.

use fred::interfaces::KeysInterface;
use luckybag::{infra::mysql::sql, kernel::ActivityId};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

use super::ODD_TEXTS;
use crate::harness::{Api, Bag, BagSpec, Events, World, eventually};

const WINNER: u64 = 900;

fn spec(room: u64, text: &str) -> BagSpec {
    BagSpec {
        room,
        winners: 1,
        extra: json!({
            "title": text,
            "conditions": format!("{text}\n\t{text}"),
            "prizes": [{ "name": text, "kind": "virtual", "quantity": 1, "image": text }],
            "tasks": [],
            "cooldownSeconds": 0,
        }),
        ..BagSpec::waiting()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_text_is_the_same_everywhere_from_the_draft_to_the_winners() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let exchange = world.topology().events_exchange();
    let mut opened = amqp.listen(&exchange, "activity.opened").await;
    let mut won = amqp.listen(&exchange, "result.won").await;

    let mut bags = Vec::new();
    for (room, text) in (8001..).zip(ODD_TEXTS) {
        let bag = api.open_bag(&spec(room, text)).await;
        check_shown(&api, &bag, text).await;
        check_stored(&world, bag.id, text).await;
        let event = opened.next().await;
        assert_eq!(event["data"]["title"], text, "{event}");
        assert_eq!(event["data"]["prizes"][0]["name"], text, "{event}");
        api.join_all(&bag, [WINNER]).await;
        bags.push(bag);
    }
    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;
    for (bag, text) in bags.iter().zip(ODD_TEXTS) {
        check_won(&api, bag, text).await;
    }
    check_won_events(&mut won, &bags).await;
    for (bag, text) in bags.iter().zip(ODD_TEXTS) {
        check_words_about_a_win(&world, &api, bag, text).await;
    }

    amqp.close().await;
    process.stop().await;
    world.end().await;
}

async fn check_shown(api: &Api, bag: &Bag, text: &str) {
    let operator = api.operator();
    let detail = api.get(&operator, &bag.path("")).await.expect(200);
    let of_room = format!("/v1/activities?roomId={}", bag.room);
    let listed = api.get(&operator, &of_room).await.expect(200)["items"][0].clone();
    let in_room = format!("/v1/rooms/{}/activities", bag.room);
    let in_room = api.get(&api.viewer(5), &in_room).await.expect(200)["items"][0].clone();
    for shown in [detail, listed, in_room] {
        assert_eq!(shown["title"], text);
        assert_eq!(shown["conditions"], format!("{text}\n\t{text}"));
        assert_eq!(shown["prizes"][0]["name"], text);
        assert_eq!(shown["prizes"][0]["image"], text);
    }
}

async fn check_stored(world: &World, id: ActivityId, text: &str) {
    let query = "SELECT CAST(title AS BINARY) AS title FROM activity WHERE id = ?";
    let row = world.db.query_one_raw(sql(query, [id.into()])).await;
    let row = row.expect(query).expect("the activity");
    let stored: Vec<u8> = row.try_get("", "title").expect("bytes");
    assert_eq!(stored, text.as_bytes());

    let key = world.keys().activity(id);
    let hot: Value = eventually("the copy in Redis", async || {
        let copy: Option<String> = world.redis.get(&key).await.expect("Redis answers");
        copy.ok_or("none")
            .map(|copy| serde_json::from_str(&copy).expect("JSON"))
    })
    .await;
    assert_eq!(hot["title"], text);
}

async fn check_won(api: &Api, bag: &Bag, text: &str) {
    let result = eventually("the result", async || {
        let path = bag.path("/result");
        let result = api.get(&api.viewer(WINNER), &path).await.expect(200);
        if result["result"] == "won" {
            Ok(result)
        } else {
            Err(result)
        }
    })
    .await;
    assert_eq!(result["win"]["prize"]["name"], text);
    assert_eq!(result["win"]["prize"]["image"], text);
    let page = api
        .get(&api.operator(), &bag.path("/winners"))
        .await
        .expect(200);
    assert_eq!(page["items"][0]["prize"]["name"], text);
}

async fn check_won_events(won: &mut Events, bags: &[Bag]) {
    for _ in bags {
        let event = won.next().await;
        let data = &event["data"];
        let number = bags
            .iter()
            .position(|bag| data["activityId"] == bag.id.to_string());
        let text = ODD_TEXTS[number.expect("one of the bags")];
        assert_eq!(data["prize"]["name"], text, "{event}");
    }
}

/// References and reasons, which the audit shows.
async fn check_words_about_a_win(world: &World, api: &Api, bag: &Bag, text: &str) {
    let win = world.wins(bag.id).await[0].id;
    let body = json!({ "state": "claimed", "reference": text });
    let path = format!("/v1/win-records/{win}/fulfilment");
    let reported = api
        .post(&api.service(), &path, Some(body))
        .await
        .expect(200);
    assert_eq!(reported["reference"], text);
    let page = api
        .get(&api.operator(), &bag.path("/winners"))
        .await
        .expect(200);
    assert_eq!(page["items"][0]["fulfilment"]["reference"], text);
    let redraw = json!({ "winRecordIds": [win.to_string()], "reason": text });
    let path = bag.path("/redraws");
    api.post(&api.operator(), &path, Some(redraw))
        .await
        .expect(200);

    let audit = api
        .get(&api.operator(), &bag.path("/audit"))
        .await
        .expect(200);
    let told: Vec<&Value> = audit["items"].as_array().expect("a list").iter().collect();
    for (action, field) in [
        ("win.fulfilment", "reference"),
        ("activity.redraw", "reason"),
    ] {
        let record = told.iter().find(|record| record["action"] == action);
        let record = record.unwrap_or_else(|| panic!("no {action} in {audit}"));
        assert_eq!(record["detail"][field], text, "{record}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_reasons_of_cancellations_rejections_and_denials_are_kept() {
    let world = World::new().await;
    let reviewing = [("ACTIVITY__REVIEW_REQUIRED", "true")];
    let process = world.serve_with(&reviewing).await;
    let api = world.api(&process).await;
    let operator = api.operator();

    for (user, text) in (501..).zip(ODD_TEXTS) {
        for (verb, status) in [("reject", "rejected"), ("cancel", "cancelled")] {
            let id = api.ready(&BagSpec::waiting()).await;
            let path = format!("/v1/activities/{id}/{verb}");
            let body = json!({ "reason": text });
            let moved = api.post(&operator, &path, Some(body)).await.expect(200);
            assert_eq!(moved["status"], status);
            assert_eq!(moved["statusReason"], text);
        }
        let path = format!("/v1/deny-list/{user}");
        let body = json!({ "reason": text });
        let entry = api.put(&operator, &path, Some(body)).await.expect(200);
        assert_eq!(entry["reason"], text);
    }
    let listed = api.get(&operator, "/v1/deny-list").await.expect(200);
    for (entry, text) in listed["items"]
        .as_array()
        .expect("a list")
        .iter()
        .zip(ODD_TEXTS)
    {
        assert_eq!(entry["reason"], text);
    }

    process.stop().await;
    world.end().await;
}
