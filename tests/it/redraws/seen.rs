//! What people, other systems and readers of Redis see of a redraw, in every process.

use std::collections::BTreeMap;

use fred::{
    interfaces::{HashesInterface, KeysInterface},
    types::Expiration,
};
use futures_util::future::join_all;
use luckybag::kernel::{PrizeId, UserId};
use serde_json::{Value, json};

use super::{drawn_bag, number, standings, until_all_tell, users_of};
use crate::{
    harness::{Api, Bag, Win, World, eventually},
    proxy::Proxy,
};

/// The users shown in the list of winners, by seat.
async fn listed(api: &Api, bag: &Bag, query: &str) -> Vec<(u64, u64)> {
    let path = bag.path(&format!("/winners{query}"));
    let page = api.get(&api.operator(), &path).await.expect(200);
    let items = page["items"].as_array().expect("a list").clone();
    let shown = |item: &Value| {
        let seat = item["seat"].as_u64().expect("a seat");
        (seat, number(&item["userId"]))
    };
    items.iter().map(shown).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_process_shows_the_new_round_soon() {
    let world = World::new().await;
    let processes = join_all((0..2).map(|_| world.serve())).await;
    let apis = join_all(processes.iter().map(|process| world.api(process))).await;
    let bag = drawn_bag(&world, &apis[0], 5).await;
    let best = standings(&world, &bag).await;
    // Both keep the first round in memory.
    let before = [(best[1], "won"), (best[3], "notWon"), (best[4], "notWon")];
    until_all_tell(&apis, &bag, &before).await;
    let wins = world.wins(bag.id).await;

    apis[0].redraw(&bag, &[wins[1].id]).await.expect(200);

    let after = [
        (best[0], "won"),
        (best[1], "revoked"),
        (best[2], "won"),
        (best[3], "won"),
        (best[4], "notWon"),
    ];
    until_all_tell(&apis, &bag, &after).await;
    for api in &apis {
        let result = api.result(&bag, best[3]).await;
        assert_eq!(result["round"], 2, "{result}");
        assert_eq!(result["win"]["rank"], 2, "{result}");
        assert_eq!(result["win"]["prize"]["name"], "Mug", "{result}");
        let all = [(1, best[0]), (2, best[3]), (3, best[2])];
        assert_eq!(listed(api, &bag, "").await, all);
        let phones = format!("?prizeId={}", wins[0].prize_id);
        assert_eq!(listed(api, &bag, &phones).await, all[..1]);
        let mugs = format!("?prizeId={}", wins[1].prize_id);
        assert_eq!(listed(api, &bag, &mugs).await, all[1..]);
        let first = listed(api, &bag, "?limit=2").await;
        assert_eq!(first, all[..2]);
        let detail = api.get(&api.viewer(5), &bag.path("")).await.expect(200);
        assert_eq!(detail["round"], 2, "{detail}");
    }

    for process in processes {
        process.stop().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_detail_from_before_the_redraw_does_not_bring_the_old_round_back() {
    const LOOKS: u32 = 20;
    let world = World::new().await;
    let process = world
        .serve_with(&[("ACTIVITY__DETAIL_MEMORY_MS", "20")])
        .await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api, 5).await;
    let best = standings(&world, &bag).await;
    world.nothing_owed().await;
    let key = world.keys().activity(bag.id);
    let old: String = world.redis.get(&key).await.unwrap();
    assert!(old.contains(r#""round":1"#), "{old}");
    let before = [(best[1], "won"), (best[3], "notWon")];
    until_all_tell(std::slice::from_ref(&api), &bag, &before).await;
    let second = world.holder(&bag, 2).await.id;
    api.redraw(&bag, &[second]).await.expect(200);
    let after = [(best[1], "revoked"), (best[3], "won")];
    until_all_tell(std::slice::from_ref(&api), &bag, &after).await;
    world.nothing_owed().await;

    // As a replica does that was behind when it was promoted.
    let life = Some(Expiration::EX(86_400));
    let _: () = world.redis.set(&key, old, life, None, false).await.unwrap();
    for _ in 0..LOOKS {
        let result = api.result(&bag, best[1]).await;
        assert_eq!(result["result"], "revoked", "{result}");
        assert_eq!(api.result(&bag, best[3]).await["result"], "won");
        let detail = api.get(&api.viewer(5), &bag.path("")).await.expect(200);
        assert_eq!(detail["round"], 2, "{detail}");
    }
    eventually("the old copy to be replaced", async || {
        api.result(&bag, best[1]).await;
        let shown: String = world.redis.get(&key).await.unwrap();
        if shown.contains(r#""round":2"#) {
            Ok(())
        } else {
            Err(shown)
        }
    })
    .await;

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_systems_hear_who_lost_and_who_won_in_which_round() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let exchange = world.topology().events_exchange();
    let mut events = amqp.listen(&exchange, "result.*").await;
    let bag = drawn_bag(&world, &api, 5).await;
    world.nothing_owed().await;
    events.until_now().await;
    let best = standings(&world, &bag).await;
    let lost = world.holder(&bag, 2).await;

    let answer = api.redraw(&bag, &[lost.id]).await.expect(200);
    world.nothing_owed().await;

    let by_type: BTreeMap<String, Value> = events
        .until_now()
        .await
        .into_iter()
        .map(|event| (event["type"].as_str().expect("a type").to_owned(), event))
        .collect();
    assert_eq!(by_type.len(), 2, "{by_type:?}");
    let revoked = &by_type["result.revoked"];
    assert_eq!(revoked["id"], format!("revoked:{}:{}", bag.id, lost.id));
    let won = &by_type["result.won"];
    let taken = number(&answer["replaced"][0]["winRecordId"]);
    assert_eq!(won["id"], format!("won:{}:{taken}", bag.id));
    for (event, user, record) in [(revoked, best[1], lost.id), (won, best[3], taken)] {
        let data = &event["data"];
        assert_eq!(data["activityId"], bag.id.to_string(), "{event}");
        assert_eq!(data["roomId"], bag.room.to_string(), "{event}");
        assert_eq!(data["round"], 2, "{event}");
        assert_eq!(number(&data["userId"]), user, "{event}");
        assert_eq!(number(&data["winRecordId"]), record, "{event}");
        assert_eq!(data["rank"], 2, "{event}");
        assert_eq!(data["prize"]["name"], "Mug", "{event}");
    }

    amqp.close().await;
    process.stop().await;
    world.end().await;
}

/// Somebody wins in a redraw before it was told that it did not win the draw.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_wins_before_the_others_are_told_is_not_told_that_it_lost() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let exchange = world.topology().events_exchange();
    let mut events = amqp.listen(&exchange, "result.*").await;
    world
        .execute(
            "CREATE TRIGGER hold BEFORE INSERT ON notify_progress FOR EACH ROW \
             SET NEW.not_before = NOW(3) + INTERVAL 1 HOUR",
        )
        .await;
    let bag = drawn_bag(&world, &api, 6).await;
    let best = standings(&world, &bag).await;
    let second = world.holder(&bag, 2).await.id;
    api.redraw(&bag, &[second]).await.expect(200);

    world
        .execute("UPDATE notify_progress SET not_before = NOW(3)")
        .await;
    world.nothing_owed().await;

    let mut told: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    for event in events.until_now().await {
        let data = &event["data"];
        let users = match data["userIds"].as_array() {
            Some(users) => users.iter().map(number).collect(),
            None => vec![number(&data["userId"])],
        };
        for user in users {
            let kind = event["type"].as_str().expect("a type").to_owned();
            let round = data["round"].as_u64().expect("a round");
            told.entry(user).or_default().push((kind, round));
        }
    }
    let once = |kind: &str, round| vec![(kind.to_owned(), round)];
    let expected = BTreeMap::from([
        (best[0], once("result.won", 1)),
        (best[1], once("result.revoked", 2)),
        (best[2], once("result.won", 1)),
        (best[3], once("result.won", 2)),
        (best[4], once("result.not_won", 2)),
        (best[5], once("result.not_won", 2)),
    ]);
    assert_eq!(told, expected);

    amqp.close().await;
    process.stop().await;
    world.end().await;
}

/// The lists, single wins and cool-downs in Redis are those of the current round.
async fn assert_redis_shows(world: &World, bag: &Bag, round: u32) {
    let keys = world.keys();
    let wins = world.wins(bag.id).await;
    let held: Vec<&Win> = wins.iter().filter(|win| win.status == "won").collect();
    assert_list(world, &keys.win_list(bag.id), round, &held).await;
    for rank in [1, 2] {
        let of_rank = |win: &&Win| win.prize_rank == rank;
        let prize = wins.iter().find(of_rank).expect("a win").prize_id;
        let of_prize: Vec<&Win> = held.iter().copied().filter(of_rank).collect();
        let key = keys.win_list_of_prize(bag.id, PrizeId(prize));
        assert_list(world, &key, round, &of_prize).await;
    }
    for win in &wins {
        let user = UserId(win.user_id);
        let shown: String = world.redis.get(keys.win_user(bag.id, user)).await.unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["status"], win.status, "{shown}");
        assert_eq!(shown["round"], win.round, "{shown}");
        let period: Option<String> = world.redis.get(keys.win_period(user)).await.unwrap();
        let held = (win.status == "won").then(|| win.id.to_string());
        assert_eq!(period, held, "the cool-down of {win:?}");
    }
}

async fn assert_list(world: &World, key: &str, round: u32, wins: &[&Win]) {
    let mut shown: BTreeMap<String, String> = world.redis.hgetall(key).await.unwrap();
    let mark: Value = serde_json::from_str(&shown.remove("-").expect("the mark")).unwrap();
    let shown_of = [&mark["round"], &mark["rows"]];
    assert_eq!(shown_of, [&json!(round), &json!(wins.len())], "{key}");
    let mut ids: Vec<String> = wins.iter().map(|win| win.id.to_string()).collect();
    ids.sort();
    assert_eq!(shown.into_keys().collect::<Vec<_>>(), ids, "{key}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_redis_find_the_new_round_and_an_empty_list_where_nobody_is_left() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api, 4).await;
    world.nothing_owed().await;
    assert_redis_shows(&world, &bag, 1).await;

    for round in 2..=4 {
        let phone = world.holders(&bag).await;
        let seat = if phone.iter().any(|held| held.0 == 1) {
            1
        } else {
            2
        };
        let holder = world.holder(&bag, seat).await.id;
        api.redraw(&bag, &[holder]).await.expect(200);
        world.nothing_owed().await;
        assert_redis_shows(&world, &bag, round).await;
    }
    assert_eq!(world.holders(&bag).await.len(), 1);

    process.stop().await;
    world.end().await;
}

/// A process that is slow to show the draw in Redis does so after another one has shown the redraw.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_projection_of_the_draw_does_not_overwrite_the_redraw() {
    let world = World::new().await;
    let redis = Proxy::start(world.redis_url.trim_start_matches("redis://")).await;
    let url = format!("redis://{}", redis.addr());
    let slow = world
        .serve_with(&[
            ("REDIS__URL", url.as_str()),
            ("REDIS__COMMAND_TIMEOUT_MS", "25000"),
        ])
        .await;
    let api = world.api(&slow).await;
    let bag = api.open_bag(&super::three_seats(8001)).await;
    api.join_all(&bag, users_of(&bag, 5)).await;
    for user in users_of(&bag, 5) {
        api.settled(&bag, user).await;
    }
    redis.stall();
    world.draw_soon(&[]).await;
    world.all_drawn(&[bag]).await;
    let claimed = "SELECT COUNT(*) FROM outbox WHERE dedupe_key LIKE 'project:winners:%' \
         AND attempts > 0";
    eventually("the slow one to begin", async || {
        match world.number(claimed).await {
            0 => Err("not yet"),
            _ => Ok(()),
        }
    })
    .await;

    let quick = world.serve().await;
    let other = world.api(&quick).await;
    let second = world.holder(&bag, 2).await.id;
    other.redraw(&bag, &[second]).await.expect(200);
    eventually("the redraw to be shown", async || {
        let mark: Option<String> = world
            .redis
            .hget(world.keys().win_list(bag.id), "-")
            .await
            .unwrap();
        match mark {
            Some(mark) if mark.contains(r#""round":2"#) => Ok(()),
            other => Err(other),
        }
    })
    .await;
    redis.resume();
    world.nothing_owed().await;

    assert_redis_shows(&world, &bag, 2).await;
    quick.stop().await;
    slow.stop().await;
    world.end().await;
}
