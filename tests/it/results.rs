//! What people hear of a draw: committed facts only, the same from everywhere, whatever Redis loses.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fred::interfaces::{HashesInterface, KeysInterface, SortedSetsInterface};
use futures_util::future::join_all;
use luckybag::{
    candidate::{CandidateDeps, CandidateService, Standing},
    infra::{
        broker::{Broker, BrokerOptions},
        mysql::DatabaseClock,
    },
    kernel::{PrizeId, RoomId, UserId},
};
use sea_orm::{ConnectionTrait, TransactionTrait};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::harness::{Api, Bag, BagSpec, CONFIRM_TIMEOUT, Win, World, eventually, keep_alive};

const DAY_SECS: i64 = 86_400;

fn users_of(bag: &Bag, count: u64) -> Vec<u64> {
    let first = bag.room * 1_000;
    (first..first + count).collect()
}

/// Two phones and three mugs, or `sets` times that.
fn two_prizes(room: u64, sets: u32) -> BagSpec {
    BagSpec {
        room,
        extra: json!({ "prizes": [
            { "name": "Phone", "kind": "physical", "quantity": 2 * sets },
            { "name": "Mug", "kind": "physical", "quantity": 3 * sets },
        ]}),
        ..BagSpec::waiting()
    }
}

/// The results that one viewer got from one process, without repetitions, up to the final one;
/// counts the viewers who have heard that the draw runs.
async fn poll_to_the_end(
    world: &World,
    api: &Api,
    (bag, user): (&Bag, u64),
    heard_drawing: &AtomicUsize,
) -> Vec<String> {
    const PAUSE: Duration = Duration::from_millis(200);
    const DRAWN: &str = "SELECT COUNT(*) FROM activity WHERE id = ID AND status = 'drawn'";

    let (token, path) = (api.viewer(user), bag.path("/result"));
    let mut seen: Vec<String> = Vec::new();
    let mut finals = 0;
    // Some more after the first final one: it has to stay.
    while finals < 5 {
        let answer = api.get(&token, &path).await.expect(200);
        let result = answer["result"].as_str().expect("a result").to_owned();
        let is_final = ["won", "notWon"].contains(&result.as_str());
        if is_final {
            finals += 1;
        }
        if seen.last() != Some(&result) {
            if is_final {
                let committed = world.number_of(bag.id, DRAWN).await;
                assert_eq!(committed, 1, "{user} heard `{result}` before the commit");
            }
            if result == "drawing" {
                heard_drawing.fetch_add(1, Ordering::Relaxed);
            }
            seen.push(result);
        }
        tokio::time::sleep(PAUSE).await;
    }
    seen
}

/// Waits until everything but the commit is done, and every process knows that a draw runs.
async fn until_known_to_be_drawing(world: &World, apis: &[Api], bag: &Bag) {
    let drawing = "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE db = DATABASE() AND info LIKE 'UPDATE prize%'";
    eventually("the draw to wait", async || {
        match world.number(drawing).await {
            0 => Err("not yet"),
            _ => Ok(()),
        }
    })
    .await;
    for api in apis {
        eventually("the state to be known", async || {
            let detail = api.get(&api.viewer(1), &bag.path("")).await.expect(200);
            match detail["status"].as_str() {
                Some("drawing") => Ok(()),
                _ => Err(detail),
            }
        })
        .await;
    }
}

/// Each of `seen` comes where it belongs, and the last of `order` at the end.
fn assert_in_order(seen: &[String], order: [&str; 3]) {
    let place = |word: &String| order.iter().position(|known| known == word);
    let places: Vec<_> = seen.iter().map(place).collect();
    let is_known = places.iter().all(Option::is_some);
    assert!(is_known && places.is_sorted(), "{seen:?}");
    assert_eq!(places.last(), Some(&Some(2)), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_hears_a_result_before_it_is_committed_or_another_one_after() {
    let world = World::new().await;
    let processes = join_all((0..2).map(|_| world.serve())).await;
    let apis = join_all(processes.iter().map(|process| world.api(process))).await;
    let bag = apis[0]
        .open_bag(&BagSpec {
            winners: 8,
            ..BagSpec::waiting()
        })
        .await;
    let users = users_of(&bag, 20);
    apis[0].join_all(&bag, users.iter().copied()).await;

    // The draw cannot commit while its prizes are locked.
    let held = world.db.begin().await.unwrap();
    held.execute_unprepared("SELECT * FROM prize FOR UPDATE")
        .await
        .unwrap();
    let heard_drawing = AtomicUsize::new(0);
    let polling = join_all(users.iter().flat_map(|user| {
        let (world, bag, heard) = (&world, &bag, &heard_drawing);
        apis.iter()
            .map(move |api| poll_to_the_end(world, api, (bag, *user), heard))
    }));
    let holding = async {
        world.draw_soon(&[bag]).await;
        let heard = async {
            until_known_to_be_drawing(&world, &apis, &bag).await;
            eventually(
                "all to hear that the draw runs",
                async || match heard_drawing.load(Ordering::Relaxed) {
                    40 => Ok(()),
                    some => Err(some),
                },
            )
            .await;
        };
        tokio::select! {
            () = heard => (),
            () = keep_alive(&held) => unreachable!("it never ends"),
        }
        held.rollback().await.unwrap();
    };
    let (seen, ()) = tokio::join!(polling, holding);

    world.assert_drawn_once(&bag).await;
    let wins = world.wins(bag.id).await;
    let won: BTreeSet<u64> = wins.iter().map(|win| win.user_id).collect();
    assert_eq!(won.len(), 8);
    for (user, of_user) in users.iter().zip(seen.chunks(apis.len())) {
        let last = if won.contains(user) { "won" } else { "notWon" };
        for seen in of_user {
            assert_in_order(seen, ["notDrawn", "drawing", last]);
            assert!(seen.contains(&"drawing".to_owned()), "{user} saw {seen:?}");
        }
    }

    for process in processes {
        process.stop().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn winners_are_told_first_and_everybody_exactly_one_thing() {
    let world = World::new().await;
    let process = world.serve_with(&[("NOTIFICATIONS__PART_SIZE", "4")]).await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let exchange = world.topology().events_exchange();
    let mut results = amqp.listen(&exchange, "result.*").await;
    // Many winners, so that the others would overtake them if they could.
    let specs = [two_prizes(1, 30), two_prizes(2, 1)];

    let bags = api.open_bags(&specs).await;
    join_all(bags.iter().map(|bag| api.join_all(bag, users_of(bag, 170)))).await;
    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;
    world.nothing_owed().await;
    let events = results.until_now().await;

    let mut by_id = BTreeMap::new();
    for bag in &bags {
        world.assert_drawn_once(bag).await;
        let of_bag: Vec<&Value> = events
            .iter()
            .filter(|event| event["data"]["activityId"] == bag.id.to_string())
            .collect();
        let kinds: Vec<&str> = of_bag
            .iter()
            .map(|event| event["type"].as_str().unwrap())
            .collect();
        let first_not_won = kinds.iter().position(|kind| *kind == "result.not_won");
        let last_won = kinds.iter().rposition(|kind| *kind == "result.won");
        assert!(last_won < first_not_won, "{kinds:?}");

        let wins = world.wins(bag.id).await;
        let mut told: Vec<u64> = Vec::new();
        for event in &of_bag {
            let data = &event["data"];
            assert_eq!(data["round"], 1, "{event}");
            assert_eq!(data["roomId"], bag.room.to_string(), "{event}");
            let id = event["id"].as_str().unwrap();
            // What is not confirmed in time is sent again, under the same id.
            if let Some(before) = by_id.insert(id, data) {
                assert_eq!(before, data, "{id} stands for two events");
                continue;
            }
            told.extend(match event["type"].as_str() {
                Some("result.won") => vec![assert_winner_is_told(event, bag, &wins)],
                _ => assert_others_are_told(event, bag, &wins),
            });
        }
        told.sort_unstable();
        assert_eq!(told, users_of(bag, 170), "each once");
    }

    amqp.close().await;
    process.stop().await;
    world.end().await;
}

fn number(value: &Value) -> u64 {
    value.as_str().expect("an id").parse().expect("digits")
}

/// One winner is told of its own prize; answers who.
fn assert_winner_is_told(event: &Value, bag: &Bag, wins: &[Win]) -> u64 {
    let data = &event["data"];
    let user_id = number(&data["userId"]);
    let win = wins
        .iter()
        .find(|win| win.user_id == user_id)
        .expect("a winner");
    assert_eq!(event["id"], format!("won:{}:{}", bag.id, win.id));
    assert_eq!(number(&data["winRecordId"]), win.id);
    assert_eq!(data["rank"], win.seat);
    assert_eq!(number(&data["prize"]["prizeId"]), win.prize_id);
    let name = if win.prize_rank == 1 { "Phone" } else { "Mug" };
    assert_eq!(data["prize"]["name"], name);
    user_id
}

/// Up to four others are told that they did not win; answers who.
fn assert_others_are_told(event: &Value, bag: &Bag, wins: &[Win]) -> Vec<u64> {
    let users = event["data"]["userIds"].as_array().expect("user ids");
    let users: Vec<u64> = users.iter().map(number).collect();
    assert!((1..=4).contains(&users.len()), "{event}");
    assert!(
        wins.iter().all(|win| !users.contains(&win.user_id)),
        "{event}"
    );
    let id = event["id"].as_str().unwrap();
    assert!(id.starts_with(&format!("notwon:{}:", bag.id)), "{id}");
    users
}

#[tokio::test(flavor = "multi_thread")]
async fn downstream_systems_find_the_winners_in_redis_after_the_commit() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let keys = world.keys();

    let bag = api.open_bag(&two_prizes(8001, 1)).await;
    api.join_all(&bag, users_of(&bag, 12)).await;
    let list = keys.win_list(bag.id);
    let early: bool = world.redis.exists(&list).await.unwrap();
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.nothing_owed().await;

    assert!(!early, "a list before the draw");
    let wins = world.wins(bag.id).await;
    assert_list_shows(&world, &list, &wins).await;
    for rank in [1, 2] {
        let of_prize: Vec<Win> = wins
            .iter()
            .filter(|win| win.prize_rank == rank)
            .cloned()
            .collect();
        let list = keys.win_list_of_prize(bag.id, PrizeId(of_prize[0].prize_id));
        assert_list_shows(&world, &list, &of_prize).await;
    }
    for win in &wins {
        let user = UserId(win.user_id);
        let key = keys.win_user(bag.id, user);
        let shown: String = world.redis.get(&key).await.unwrap();
        assert_shows(&shown, win);
        assert_lives(&world, &key, 2 * DAY_SECS).await;
        let period = keys.win_period(user);
        let holder: String = world.redis.get(&period).await.unwrap();
        assert_eq!(holder, win.id.to_string());
        assert_lives(&world, &period, 3 * 3_600).await;
    }
    let losers = users_of(&bag, 12)
        .into_iter()
        .filter(|user| wins.iter().all(|win| win.user_id != *user));
    for user in losers.map(UserId) {
        let both = vec![keys.win_user(bag.id, user), keys.win_period(user)];
        let there: i64 = world.redis.exists(both).await.unwrap();
        assert_eq!(there, 0, "{user} won nothing");
    }
    let room: String = world
        .redis
        .hget(keys.room(RoomId(bag.room)), bag.id.to_string())
        .await
        .unwrap();
    assert_eq!(room, "0", "the room is free");
    let detail: String = world.redis.get(keys.activity(bag.id)).await.unwrap();
    assert!(detail.contains("\"drawn\""), "{detail}");
    assert_lives(&world, &keys.activity(bag.id), 3 * DAY_SECS).await;

    process.stop().await;
    world.end().await;
}

/// Not much less than `secs` are left; jitter may add some.
async fn assert_lives(world: &World, key: &str, secs: i64) {
    let left: i64 = world.redis.ttl(key).await.unwrap();
    assert!(
        (secs * 9 / 10..=secs * 11 / 10).contains(&left),
        "{key}: {left} s"
    );
}

async fn assert_list_shows(world: &World, list: &str, wins: &[Win]) {
    let mut shown: BTreeMap<String, String> = world.redis.hgetall(list).await.unwrap();
    let mark = shown.remove("-").expect("the mark");
    let mark: Value = serde_json::from_str(&mark).unwrap();
    let shown_of = [&mark["round"], &mark["rows"]];
    assert_eq!(shown_of, [&json!(1), &json!(wins.len())], "{list}");
    assert_eq!(shown.len(), wins.len());
    for win in wins {
        assert_shows(&shown[&win.id.to_string()], win);
    }
    assert_lives(world, list, 2 * DAY_SECS).await;
}

fn assert_shows(json: &str, win: &Win) {
    let shown: Value = serde_json::from_str(json).unwrap();
    assert_eq!(number(&shown["winRecordId"]), win.id, "{shown}");
    assert_eq!(number(&shown["userId"]), win.user_id, "{shown}");
    assert_eq!(number(&shown["prizeId"]), win.prize_id, "{shown}");
    assert_eq!(shown["seat"], win.seat, "{shown}");
    assert_eq!(shown["round"], 1, "{shown}");
    assert_eq!(shown["status"], "won", "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_winners_is_masked_for_viewers_and_in_clear_for_who_runs_the_room() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&two_prizes(8001, 1)).await;
    let early = api
        .get(&api.viewer(1), &bag.path("/winners"))
        .await
        .expect(200);
    let users: Vec<u64> = (0..12).map(|number| 7_300_000_000 + number).collect();
    api.join_all(&bag, users).await;
    world.draw_soon(&[bag]).await;
    api.drawn(&bag).await;

    assert_eq!(early["round"], 0, "{early}");
    assert_eq!(early["items"], json!([]), "{early}");
    let wins = world.wins(bag.id).await;
    let shown_to = async |token: String| -> Vec<String> {
        let page = api.get(&token, &bag.path("/winners")).await.expect(200);
        assert_eq!(page["round"], 1, "{page}");
        let items = page["items"].as_array().unwrap().clone();
        for (item, win) in items.iter().zip(&wins) {
            assert_eq!(number(&item["winRecordId"]), win.id);
            // This test's reader of JSON may lose the last bit of a number.
            let off_by = item["score"].as_f64().unwrap() - win.score;
            assert!(off_by.abs() < 1e-12, "{item}");
        }
        items
            .iter()
            .map(|item| item["userId"].as_str().unwrap().to_owned())
            .collect()
    };
    let clear: Vec<String> = wins.iter().map(|win| win.user_id.to_string()).collect();
    assert_eq!(shown_to(api.operator()).await, clear);
    assert_eq!(shown_to(api.host_of(8001)).await, clear);
    for token in [api.viewer(7_300_000_000), api.host_of(8002)] {
        let masked = shown_to(token).await;
        assert_eq!(masked.len(), 5);
        assert!(
            masked.iter().all(|user| user.contains("****")),
            "{masked:?}"
        );
        assert!(masked.iter().all(|user| !clear.contains(user)));
    }
    let phones = bag.path(&format!("/winners?prizeId={}", wins[0].prize_id));
    let phones = api.get(&api.operator(), &phones).await.expect(200);
    assert_eq!(phones["items"].as_array().map(Vec::len), Some(2));

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn losing_redis_before_during_and_after_the_draw_changes_no_result() {
    const JOINS: u64 = 12;
    let world = World::new().await;
    let process = world
        .serve_with(&[("ACTIVITY__DETAIL_MEMORY_MS", "50")])
        .await;
    let api = world.api(&process).await;
    let specs: Vec<BagSpec> = (1..=10)
        .map(|room| BagSpec {
            room,
            ..BagSpec::waiting()
        })
        .collect();
    let bags = api.open_bags(&specs).await;
    join_all(
        bags.iter()
            .map(|bag| api.join_all(bag, users_of(bag, JOINS))),
    )
    .await;

    let forgetting = async {
        loop {
            world.forget_redis().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reading = async {
        world.draw_soon(&bags).await;
        world.all_drawn(&bags).await;
        for bag in &bags {
            world.assert_drawn_once(bag).await;
            assert_eq!(world.entrants(bag.id).await.len() as u64, JOINS);
            api.drawn(bag).await;
            let won: Vec<u64> = world
                .wins(bag.id)
                .await
                .iter()
                .map(|win| win.user_id)
                .collect();
            assert_eq!(api.winners(bag).await, won);
            for user in users_of(bag, JOINS) {
                let path = bag.path("/result");
                let answer = api.get(&api.viewer(user), &path).await.expect(200);
                let result = if won.contains(&user) { "won" } else { "notWon" };
                assert_eq!(answer["result"], result, "{user}: {answer}");
                let me = api
                    .get(&api.viewer(user), &bag.path("/me"))
                    .await
                    .expect(200);
                assert_eq!(me["participation"], "joined", "{user}: {me}");
                assert_eq!(me["eligibility"], "eligible", "{user}: {me}");
            }
        }
    };
    tokio::select! {
        () = reading => (),
        () = forgetting => unreachable!("it never ends"),
    }
    world.nothing_owed().await;

    process.stop().await;
    world.end().await;
}

/// The service over this world's data, run by the test itself.
async fn candidates(world: &World) -> CandidateService {
    use secrecy::ExposeSecret;

    let settings = world.settings();
    let clock = Arc::new(DatabaseClock::new(world.db.clone()));
    clock.sample().await.expect("the time");
    CandidateService::new(CandidateDeps {
        db: world.db.clone(),
        redis: world.redis.clone(),
        broker: Broker::new(BrokerOptions {
            url: settings.rabbitmq.url.expose_secret().to_owned(),
            namespace: settings.namespace.clone(),
            partitions: settings.stream.partitions,
            confirm_timeout: CONFIRM_TIMEOUT,
        }),
        clock,
        settings: settings.candidate,
        join: settings.join,
        partitions: settings.stream.partitions,
        mysql_reads: Arc::new(Semaphore::new(8)),
    })
}

/// The scores in the pool, of those who are in it.
async fn pool_scores(world: &World, bag: &Bag, users: &[u64]) -> Vec<(u64, u64)> {
    let mut scores = Vec::new();
    for user in users {
        let shard = luckybag::infra::redis::Shard::of(*user);
        let key = world.keys().candidate(bag.id, shard);
        let score: Option<f64> = world.redis.zscore(key, user.to_string()).await.unwrap();
        scores.extend(score.map(|score| (*user, score.to_bits())));
    }
    scores
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_one_score_in_the_pool_in_a_rebuilt_pool_and_in_the_win_record() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api
        .open_bag(&BagSpec {
            winners: 10,
            ..BagSpec::waiting()
        })
        .await;
    let users = users_of(&bag, 40);
    api.join_all(&bag, users.iter().copied()).await;
    let seed = world.seed(bag.id).await;
    let ruled: Vec<(u64, u64)> = users
        .iter()
        .map(|user| {
            (
                *user,
                Standing::of(&seed, UserId(*user)).score.value().to_bits(),
            )
        })
        .collect();
    let shown = async |when: &str| {
        eventually(when, async || {
            let shown = pool_scores(&world, &bag, &users).await;
            if shown.len() == users.len() {
                Ok(shown)
            } else {
                Err(shown.len())
            }
        })
        .await
    };

    assert_eq!(shown("the pool").await, ruled);
    world.forget_redis().await;
    candidates(&world).await.rebuild(bag.id).await.unwrap();
    // The sweeper may be at it too.
    assert_eq!(shown("the rebuilt pool").await, ruled);
    world.forget_redis().await;
    assert_eq!(shown("the sweeper's rebuilt pool").await, ruled);
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;

    world.assert_drawn_once(&bag).await;
    let wins = world.wins(bag.id).await;
    assert_eq!(wins.len(), 10);
    for win in wins {
        assert!(
            ruled.contains(&(win.user_id, win.score.to_bits())),
            "{win:?}"
        );
    }

    process.stop().await;
    world.end().await;
}
