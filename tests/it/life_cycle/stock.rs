//! The library's stock: reserved at the opening, given back or handed out at the end.

use futures_util::future::join_all;
use luckybag::kernel::{ActivityId, PrizeId};
use serde_json::{Value, json};

use super::{event_with, events_until};
use crate::harness::{Api, Bag, BagSpec, World, eventually};

fn spec(room: u64, prizes: &Value) -> BagSpec {
    BagSpec {
        room,
        extra: json!({ "prizes": prizes }),
        ..BagSpec::waiting()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_is_reserved_whole_or_not_at_all_never_oversold_and_settled_at_the_end() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let mut events = amqp
        .listen(&world.topology().events_exchange(), "activity.drawn")
        .await;
    let mug = api.library_prize("Mug", Some(10)).await;
    let free = api.library_prize("Sticker", None).await;
    let three = json!([{ "prizeId": mug, "quantity": 3 }]);
    let specs: Vec<BagSpec> = (1..=8).map(|room| spec(room, &three)).collect();
    let drafts = join_all(specs.iter().map(|spec| api.ready(spec))).await;

    let openings = drafts.iter().map(|id| api.step(*id, "open"));
    let answers = join_all(openings).await;

    let (mut bags, mut refused) = (Vec::new(), Vec::new());
    for ((room, id), answer) in (1..).zip(&drafts).zip(answers) {
        if answer.status == 200 {
            bags.push(bag(*id, room, &answer.body));
        } else {
            let problem = answer.expect_problem(409, "stock_short");
            let detail = problem["detail"].as_str().unwrap_or_default();
            assert!(detail.contains("Mug"), "{problem}");
            refused.push((*id, room));
        }
    }
    assert_eq!((bags.len(), refused.len()), (3, 5));
    assert_eq!(world.stock(mug).await, (9, 0));
    check_library(&api, mug).await;
    check_whole_or_not_at_all(&world, &api, (mug, free)).await;

    // One gives its three back, another takes them.
    let cancelled = bags.remove(0);
    api.step(cancelled.id, "cancel").await.expect(200);
    assert_eq!(world.stock(mug).await, (6, 0));
    let (id, room) = refused[0];
    let opened = api.step(id, "open").await.expect(200);
    assert_eq!(world.stock(mug).await, (9, 0));
    bags.push(bag(id, room, &opened));

    check_draws(&world, &api, &bags, mug).await;
    let last = format!("drawn:{}", bags[2].id);
    event_with(&events_until(&mut events, &last).await, &last);
    world.expect_empty_outbox().await;

    amqp.close().await;
    process.stop().await;
    world.end().await;
}

fn bag(id: ActivityId, room: u64, opened: &Value) -> Bag {
    let draw_at = opened["drawAt"].as_str().expect("drawAt");
    Bag {
        id,
        room,
        draw_at: draw_at.parse().expect("a time"),
    }
}

/// What is promised cannot be taken out of the stock.
async fn check_library(api: &Api, mug: PrizeId) {
    let listed = api.get(&api.operator(), "/v1/prizes").await.expect(200);
    let shown = listed["items"].as_array().expect("a list");
    let shown = shown.iter().find(|prize| prize["id"] == mug.to_string());
    let shown = shown.expect("the mug");
    assert_eq!(
        (&shown["reserved"], &shown["issued"]),
        (&json!(9), &json!(0))
    );
    // Private prizes are none of the library's.
    assert_eq!(
        listed["items"].as_array().map(Vec::len),
        Some(2),
        "{listed}"
    );

    let path = format!("/v1/prizes/{mug}");
    let less = api
        .patch(&api.operator(), &path, json!({ "stockTotal": 8 }))
        .await;
    assert_eq!(less.faulty_fields(), ["stockTotal"], "{}", less.body);
    less.expect(422);
    let exactly = json!({ "stockTotal": 9, "name": "Blue mug" });
    let exactly = api.patch(&api.operator(), &path, exactly).await.expect(200);
    assert_eq!(exactly["stockTotal"], 9, "{exactly}");
}

/// Of two prizes the second is short: the first is not reserved either.
async fn check_whole_or_not_at_all(world: &World, api: &Api, (mug, free): (PrizeId, PrizeId)) {
    let both = json!([{ "prizeId": free, "quantity": 5 }, { "prizeId": mug, "quantity": 1 }]);
    let id = api.ready(&spec(20, &both)).await;

    let answer = api.step(id, "open").await;

    answer.expect_problem(409, "stock_short");
    assert_eq!(world.stock(free).await, (0, 0));
    assert_eq!(world.stock(mug).await, (9, 0));
    assert_eq!(api.detail(id).await["status"], "ready");
    // The room was not taken for it.
    let private = json!([{ "name": "Pen", "kind": "physical", "quantity": 1 }]);
    let other = api.ready(&spec(20, &private)).await;
    api.step(other, "open").await.expect(200);
    api.step(other, "cancel").await.expect(200);
}

/// More want the prizes than there are, fewer do, nobody does.
async fn check_draws(world: &World, api: &Api, bags: &[Bag], mug: PrizeId) {
    api.join_all(&bags[0], 11..=15).await;
    api.join_all(&bags[1], [21]).await;
    world.draw_soon(bags).await;
    for bag in bags {
        api.drawn(bag).await;
    }

    let winners = async |bag| api.winners(bag).await.len();
    assert_eq!(winners(&bags[0]).await, 3);
    assert_eq!(winners(&bags[1]).await, 1);
    assert_eq!(winners(&bags[2]).await, 0);
    assert_eq!(world.stock(mug).await, (0, 4));
    for bag in bags {
        check_left_behind(world, bag, mug).await;
        let mut audited = api.audited(bag.id).await;
        // The proof follows in the background.
        audited.retain(|(_, action)| action != "proof.publish");
        let by_whom = audited.pop().expect("a record");
        assert_eq!(by_whom, ("draw".to_owned(), "activity.draw".to_owned()));
    }
}

/// What Redis shows after a draw.
async fn check_left_behind(world: &World, bag: &Bag, mug: PrizeId) {
    let hot = eventually("the hot copy to be drawn", async || {
        let hot = world.hot_detail(bag.id).await;
        if hot["status"] == "drawn" {
            Ok(hot)
        } else {
            Err(hot)
        }
    })
    .await;
    assert_eq!(hot["round"], 1, "{hot}");
    assert!(hot.get("seed").is_none(), "{hot}");
    let prizes = world.hot_prizes(bag.id).await;
    let prize = prizes.get(&mug.to_string()).expect("the mug");
    let prize: Value = serde_json::from_str(prize).expect("JSON");
    // The name that was promised, not the library's of today.
    assert_eq!(prize["name"], "Mug", "{prize}");
    assert_eq!(prize["quantity"], 3, "{prize}");
    assert_eq!(prizes.len(), 1);
    world.expect_room(bag.room, &[(bag.id, "0")]).await;
}
