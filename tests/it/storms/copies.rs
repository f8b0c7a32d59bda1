//! What Redis holds for readers: used when it is right, dropped when it is not, built again when it
//! is missing.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use fred::{
    interfaces::{HashesInterface, KeysInterface, ListInterface},
    types::Expiration,
};
use luckybag::kernel::{ActivityId, PrizeId};
use serde_json::Value;

use super::{Truth, line::Line, reads, users_of};
use crate::harness::{Answer, Api, Bag, BagSpec, Process, Proxies, RedisServer, World, eventually};

const JOINS: u64 = 8;

/// A process that does not go to MySQL because Redis takes long on a busy machine: what it reads is
/// counted here.
async fn serve_patient(world: &World) -> Process {
    world
        .serve_with(&[("REDIS__COMMAND_TIMEOUT_MS", "5000")])
        .await
}

/// Drawn bags of three winners, one a room, and everything about them is in Redis.
async fn drawn_bags(world: &World, api: &Api, count: u64) -> Vec<Bag> {
    let specs: Vec<BagSpec> = (1..=count)
        .map(|room| BagSpec {
            room,
            ..BagSpec::waiting()
        })
        .collect();
    let bags = api.open_bags(&specs).await;
    for bag in &bags {
        api.join_all(bag, users_of(bag, JOINS)).await;
    }
    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;
    until_proven(world).await;
    world.nothing_owed().await;
    bags
}

/// The proof's publication is the last change of an activity.
async fn until_proven(world: &World) {
    let pending = "SELECT COUNT(*) FROM activity WHERE proof_published_at IS NULL";
    eventually("the proofs", async || match world.number(pending).await {
        0 => Ok(()),
        count => Err(count),
    })
    .await;
}

/// Asserts that everybody is told what is so.
async fn assert_all_told(world: &World, api: &Api, bag: &Bag) {
    let truth = Truth::of(world, bag).await;
    let mut line = Line::to(api).await;
    for user in users_of(bag, JOINS) {
        truth.assert_told(user, &line.told(bag, &api.viewer(user)).await);
    }
}

/// The win records that a list shows, and its round.
async fn listed(world: &World, key: &str) -> (u64, BTreeSet<u64>) {
    let mut fields: BTreeMap<String, String> = world.redis.hgetall(key).await.expect("a hash");
    let mark = fields.remove("-").unwrap_or_default();
    let mark: Value = serde_json::from_str(&mark).unwrap_or_default();
    let ids = fields.keys().map(|id| id.parse().expect("an id"));
    (mark["round"].as_u64().unwrap_or(0), ids.collect())
}

/// Asserts that the lists of the activity and of its prize are those of MySQL.
async fn assert_listed_right(world: &World, bag: &Bag) {
    let wins = world.wins(bag.id).await;
    let held = wins.iter().filter(|win| win.status == "won");
    let held: BTreeSet<u64> = held.map(|win| win.id).collect();
    let round = wins.iter().map(|win| u64::from(win.round)).max();
    let expected = (round.expect("winners"), held);
    let keys = world.keys();
    let prize = PrizeId(wins[0].prize_id);
    for key in [keys.win_list(bag.id), keys.win_list_of_prize(bag.id, prize)] {
        assert_eq!(listed(world, &key).await, expected, "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_knows_nothing_takes_details_and_winners_from_redis_also_after_a_redraw() {
    let world = World::new().await;
    let earlier = serve_patient(&world).await;
    let api = world.api(&earlier).await;
    let bags = drawn_bags(&world, &api, 2).await;
    let lost = world.wins(bags[1].id).await[0].id;
    api.redraw(&bags[1], &[lost]).await.expect(200);
    world.nothing_owed().await;

    let process = serve_patient(&world).await;
    let api = world.api(&process).await;
    for bag in &bags {
        assert_all_told(&world, &api, bag).await;
        assert_listed_right(&world, bag).await;
    }

    let read = async |cache, layer| reads(&process, cache, layer).await;
    assert_eq!(read("winners", "redis").await, 2);
    assert_eq!(read("winners", "mysql").await, 0);
    assert_eq!(read("winners", "memory").await, 2 * (JOINS - 1));
    assert_eq!(read("detail", "mysql").await, 0);
    assert!(read("detail", "redis").await >= 2);
    earlier.stop().await;
    process.stop().await;
    world.end().await;
}

/// Ways in which a list of winners is not the activity's.
const SPOILED: usize = 8;

async fn spoil(world: &World, number: usize, id: ActivityId) {
    let (redis, key) = (&world.redis, world.keys().win_list(id));
    let fields: BTreeMap<String, String> = redis.hgetall(&key).await.expect("a hash");
    let winner = fields.keys().find(|field| *field != "-").expect("a winner");
    let mark = |text: &'static str| redis.hset::<(), _, _>(&key, vec![("-", text)]);
    match number {
        0 => redis.del(&key).await,
        1 => redis.hdel(&key, "-").await,
        2 => redis.hdel(&key, winner.as_str()).await,
        3 => mark(r#"{"round":0,"rows":3,"revoked":[]}"#).await,
        // As an earlier version wrote it.
        4 => mark(r#"{"round":1,"rows":3}"#).await,
        5 => mark("{").await,
        6 => redis.hset(&key, vec![(winner.as_str(), "null")]).await,
        _ => {
            let () = redis.del(&key).await.expect("removed");
            redis.set(&key, "text", None, None, false).await
        }
    }
    .expect("spoiled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_missing_older_or_not_whole_is_not_believed_and_built_again() {
    let world = World::new().await;
    let earlier = serve_patient(&world).await;
    let api = world.api(&earlier).await;
    let bags = drawn_bags(&world, &api, SPOILED as u64).await;
    for (number, bag) in bags.iter().enumerate() {
        spoil(&world, number, bag.id).await;
        let wins = world.wins(bag.id).await;
        let of_prize = PrizeId(wins[0].prize_id);
        let of_prize = world.keys().win_list_of_prize(bag.id, of_prize);
        let () = world.redis.del(of_prize).await.expect("removed");
    }

    let process = serve_patient(&world).await;
    let api = world.api(&process).await;
    for bag in &bags {
        assert_all_told(&world, &api, bag).await;
        // Whoever read MySQL has written it by the time it was answered.
        assert_listed_right(&world, bag).await;
    }

    assert_eq!(reads(&process, "winners", "mysql").await, SPOILED as u64);
    assert_eq!(reads(&process, "winners", "redis").await, 0);
    earlier.stop().await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detail_that_does_not_parse_is_dropped_and_read_again() {
    let world = World::new().await;
    let earlier = serve_patient(&world).await;
    let api = world.api(&earlier).await;
    let bags = drawn_bags(&world, &api, 2).await;
    let (redis, keys) = (&world.redis, world.keys());
    let life = Some(Expiration::EX(3_600));
    let first = keys.activity(bags[0].id);
    let set = redis.set::<(), _, _>(&first, r#"{"id":"7"}"#, life, None, false);
    set.await.expect("spoiled");
    let second = keys.activity(bags[1].id);
    let () = redis.del(&second).await.expect("removed");
    let () = redis.lpush(&second, "7").await.expect("spoiled");

    let process = serve_patient(&world).await;
    let api = world.api(&process).await;
    for bag in &bags {
        assert_all_told(&world, &api, bag).await;
        let text: String = redis.get(keys.activity(bag.id)).await.expect("a text");
        let shown: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(shown["id"], bag.id.to_string());
        assert_eq!(shown["status"], "drawn");
    }

    assert_eq!(reads(&process, "detail", "mysql").await, 2);
    earlier.stop().await;
    process.stop().await;
    world.end().await;
}

const ANOTHER: &str = "another process";

/// Who fills one copy from `MySQL`, and by which mutex.
struct Refilled<'w> {
    world: &'w World,
    api: &'w Api,
    path: String,
    copy: String,
    mutex: String,
}

impl<'w> Refilled<'w> {
    async fn new(world: &'w World, api: &'w Api) -> Self {
        let bag = api.open_bag(&BagSpec::waiting()).await;
        world.nothing_owed().await;
        let copy = world.keys().activity(bag.id);
        Self {
            world,
            api,
            path: bag.path(""),
            mutex: world.keys().mutex(&copy),
            copy,
        }
    }

    async fn forget(&self) {
        let forgotten = self.world.redis.del(&self.copy).await;
        let () = forgotten.expect("removed");
    }

    async fn ask(&self) -> Answer {
        self.api.get(&self.api.viewer(1), &self.path).await
    }

    async fn until_filled(&self) {
        eventually("the copy to be filled", async || {
            self.ask().await.expect(200);
            let exists: bool = self.world.redis.exists(&self.copy).await.expect("Redis");
            if exists { Ok(()) } else { Err("none") }
        })
        .await;
    }

    async fn holder(&self) -> Option<String> {
        self.world.redis.get(&self.mutex).await.expect("a mutex")
    }

    /// Another process takes the mutex, whoever has it.
    async fn take(&self) {
        let life = Some(Expiration::EX(60));
        let taken = self
            .world
            .redis
            .set(&self.mutex, ANOTHER, life, None, false)
            .await;
        let () = taken.expect("held");
    }

    /// Waits until nobody has the mutex: given back, for it does not lapse any more.
    async fn until_given_back(&self) {
        eventually("the mutex to be given back", async || {
            let kept = self.world.redis.persist(&self.mutex).await;
            let _: bool = kept.expect("a mutex");
            self.holder().await.map_or(Ok(()), Err)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_refills_a_copy_gives_its_own_mutex_back_and_nobody_elses() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let mut changes = proxies.changes();
    changes.push(("ACTIVITY__DETAIL_MEMORY_MS", "10"));
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    let refilled = Refilled::new(&world, &api).await;

    refilled.forget().await;
    refilled.until_filled().await;
    refilled.until_given_back().await;

    // So slow that another process has the mutex meanwhile.
    proxies.mysql.stall();
    refilled.forget().await;
    let is_taken = Cell::new(false);
    let asking = async {
        while !is_taken.get() {
            refilled.ask().await;
        }
    };
    let taking = async {
        let is_held = async || refilled.holder().await.ok_or("nobody asks MySQL");
        eventually("the mutex to be held", is_held).await;
        refilled.take().await;
        is_taken.set(true);
        proxies.mysql.resume();
    };
    tokio::join!(asking, taking);
    refilled.until_filled().await;
    assert_eq!(refilled.holder().await.as_deref(), Some(ANOTHER));

    // It has never had it.
    refilled.take().await;
    refilled.forget().await;
    refilled.until_filled().await;
    assert_eq!(refilled.holder().await.as_deref(), Some(ANOTHER));

    process.stop().await;
    world.end().await;
}

/// How often somebody has looked for a copy on the server.
async fn looks(redis: &RedisServer) -> u64 {
    let told = redis.run(&["INFO", "commandstats"]).await;
    let calls = told[0]
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_pttl:calls="))
        .and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn while_another_process_refills_a_copy_a_reader_waits_for_it_and_does_not_ask_mysql() {
    /// By one reader: who does not wait looks once.
    const LOOKS: u64 = 3;
    let redis = RedisServer::start().await;
    let world = World::on_redis(&redis.url()).await;
    let process = world
        .serve_with(&[("ACTIVITY__DETAIL_MEMORY_MS", "10")])
        .await;
    let api = world.api(&process).await;
    let refilled = Refilled::new(&world, &api).await;
    refilled.until_filled().await;
    let text: String = world.redis.get(&refilled.copy).await.expect("a copy");
    let mut copy: Value = serde_json::from_str(&text).expect("JSON");
    copy["title"] = "of the other process".into();
    copy["version"] = (copy["version"].as_u64().expect("a number") + 1).into();
    let copy = copy.to_string();

    // Readers do not wait for long, so the other process may come too late.
    eventually("a reader to have waited", async || {
        refilled.take().await;
        refilled.forget().await;
        let before = looks(&redis).await;
        let asking = refilled.ask();
        tokio::pin!(asking);
        let answer = loop {
            tokio::select! {
                answer = &mut asking => break answer,
                now = looks(&redis) => if now >= before + LOOKS {
                    let life = Some(Expiration::EX(3_600));
                    let set = world.redis.set(&refilled.copy, &copy, life, None, false);
                    let () = set.await.expect("refilled");
                }
            }
        };
        let shown = answer.expect(200);
        if shown["title"] == "of the other process" {
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
async fn copies_that_are_written_together_do_not_lapse_together() {
    let world = World::new().await;
    let process = serve_patient(&world).await;
    let api = world.api(&process).await;
    let bags = drawn_bags(&world, &api, 8).await;

    for key in [
        luckybag::infra::redis::Keys::activity as fn(&_, ActivityId) -> String,
        luckybag::infra::redis::Keys::win_list,
    ] {
        // In ten-minute steps: longer than the draws are apart.
        let mut left = BTreeSet::new();
        for bag in &bags {
            let key = key(world.keys(), bag.id);
            let ttl: i64 = world.redis.ttl(key).await.expect("a life");
            left.insert(ttl / 600);
        }
        // Two of them lie on both sides of one moment.
        assert!(left.len() > 2, "{left:?}");
    }

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_id_is_remembered_for_a_moment_and_forgotten_when_there_is_such_an_activity() {
    let world = World::new().await;
    let process = serve_patient(&world).await;
    // As patient as the first one.
    let other = world
        .serve_with(&[
            ("ACTIVITY__DETAIL_MEMORY_MS", "600000"),
            ("REDIS__COMMAND_TIMEOUT_MS", "5000"),
        ])
        .await;
    let (api, at_other) = (world.api(&process).await, world.api(&other).await);
    let (redis, keys) = (&world.redis, world.keys());
    let operator = api.operator();

    let unknown = ActivityId(4_711);
    for api in [&api, &at_other] {
        let answer = api.get(&operator, "/v1/activities/4711").await;
        answer.expect_problem(404, "activity_not_found");
    }
    let shown: String = redis.get(keys.activity(unknown)).await.expect("a copy");
    assert_eq!(shown, "null");
    let left: i64 = redis.ttl(keys.activity(unknown)).await.expect("a life");
    assert!((1..=60).contains(&left), "{left} s");
    let by_mysql = async |process| reads(process, "detail", "mysql").await;
    assert_eq!(by_mysql(&process).await + by_mysql(&other).await, 1);

    // As if somebody had asked for this one before it was there.
    let spec = BagSpec::default();
    let id = api.draft(&spec).await;
    let path = format!("/v1/activities/{id}");
    world.nothing_owed().await;
    let life = Some(Expiration::EX(60));
    let set = redis.set::<(), _, _>(keys.activity(id), "null", life, None, false);
    set.await.expect("remembered");
    let answer = at_other.get(&operator, &path).await;
    answer.expect_problem(404, "activity_not_found");
    let submitted = api.post(&operator, &format!("{path}/submit"), None).await;
    submitted.expect(200);
    eventually("the other process to know it", async || {
        let answer = at_other.get(&operator, &path).await;
        match answer.status.as_u16() {
            200 => Ok(()),
            404 => Err(answer),
            status => panic!("{status}: {answer:?}"),
        }
    })
    .await;

    process.stop().await;
    other.stop().await;
    world.end().await;
}
