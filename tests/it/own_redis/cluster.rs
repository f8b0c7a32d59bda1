//! The whole service on a Redis Cluster of three masters.

use std::collections::BTreeSet;

use fred::interfaces::{HashesInterface, KeysInterface};
use luckybag::{
    infra::redis::Shard,
    kernel::{PrizeId, UserId},
};
use serde_json::Value;

use super::giveaway::{Giveaway, Rooms, SEATS, spec};
use crate::{
    harness::{Bag, Process, RedisCluster, World, eventually},
    selection::service,
};

/// A busy machine must not look like a silent Redis.
const PATIENT: [(&str, &str); 1] = [("REDIS__COMMAND_TIMEOUT_MS", "5000")];

/// How the service says it drew a bag.
async fn path_of_draw(process: &Process, bag: &Bag) -> String {
    let id = bag.id.to_string();
    eventually("the draw in the log", async || {
        let lines = process.log_lines();
        let events = lines
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok());
        let drawn =
            |event: &Value| event["message"] == "activity drawn" && event["activity.id"] == *id;
        let event = { events }.find(drawn).ok_or("not drawn")?;
        event["draw.path"]
            .as_str()
            .map(str::to_owned)
            .ok_or("no path")
    })
    .await
}

async fn pool_is_right(world: &World, giveaway: &Giveaway) {
    eventually("the pool", async || world.check_pool(&giveaway.bag).await).await;
}

/// A shard of the pool that holds somebody.
fn shard_of(giveaway: &Giveaway) -> Shard {
    Shard::of(*giveaway.joined.first().expect("a participant"))
}

/// How many shards of the pool hold anybody.
async fn shards_of(world: &World, giveaway: &Giveaway) -> usize {
    let activity = world.activity(&giveaway.bag).await;
    let joined = giveaway.joined.iter();
    let shards = joined.map(|user| activity.shard_of(UserId(*user)));
    shards.collect::<BTreeSet<_>>().len()
}

/// The lists, the winners' own records and their cool-downs are where readers look for them.
async fn caches_are_right(world: &World, bag: &Bag) {
    let keys = world.keys();
    let wins = world.wins(bag.id).await;
    assert_eq!(wins.len(), SEATS as usize);
    let rows = async |list: String| -> usize { world.redis.hlen(list).await.unwrap() };
    assert_eq!(rows(keys.win_list(bag.id)).await, 1 + wins.len());
    let prizes: BTreeSet<u64> = wins.iter().map(|win| win.prize_id).collect();
    assert_eq!(prizes.len(), 2);
    for prize in prizes {
        let won = wins.iter().filter(|win| win.prize_id == prize).count();
        let list = keys.win_list_of_prize(bag.id, PrizeId(prize));
        assert_eq!(rows(list).await, 1 + won);
    }
    for win in &wins {
        let user = UserId(win.user_id);
        let own: Option<String> = world.redis.get(keys.win_user(bag.id, user)).await.unwrap();
        assert!(own.is_some(), "{win:?}");
        let period: Option<u64> = world.redis.get(keys.win_period(user)).await.unwrap();
        assert_eq!(period, Some(win.id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_giveaway_on_a_cluster_is_drawn_from_its_pool() {
    let cluster = RedisCluster::start().await;
    let world = World::on_redis(&cluster.url()).await;
    let process = world.serve_with(&PATIENT).await;
    let api = world.api(&process).await;
    let rooms = Rooms::of(&world).await;
    let giveaways = [
        Giveaway::played(&rooms, &api, &spec(1, "lowBits")).await,
        Giveaway::played(&rooms, &api, &spec(2, "mixed")).await,
    ];
    for giveaway in &giveaways {
        pool_is_right(&world, giveaway).await;
        let pool = format!("{}:candidate:{}:*", world.namespace, giveaway.bag.id);
        let spread = cluster.spread(&pool).await;
        assert!(
            spread.iter().filter(|keys| **keys > 0).count() >= 2,
            "{spread:?}"
        );
        assert_eq!(
            spread.iter().sum::<usize>(),
            shards_of(&world, giveaway).await
        );
    }

    let bags = giveaways.each_ref().map(|giveaway| giveaway.bag);
    world.draw_soon(&bags).await;
    for giveaway in &giveaways {
        giveaway.assert_won_by_the_right_ones(&world, &api).await;
    }
    world.nothing_owed().await;

    for bag in &bags {
        assert_eq!(path_of_draw(&process, bag).await, "fast");
        caches_are_right(&world, bag).await;
    }
    // Another process, which remembers nothing, reads the same.
    let other = world.serve_with(&PATIENT).await;
    let api = world.api(&other).await;
    for giveaway in &giveaways {
        giveaway.assert_won_by_the_right_ones(&world, &api).await;
        giveaway.assert_proof_holds(&api).await;
    }
    let everything = cluster.spread(&format!("{}:*", world.namespace)).await;
    assert!(everything.iter().all(|keys| *keys > 0), "{everything:?}");
    rooms.close();
    process.stop().await;
    other.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_on_a_cluster_is_rebuilt_and_follows_its_slots() {
    let cluster = RedisCluster::start().await;
    let world = World::on_redis(&cluster.url()).await;
    let process = world.serve_with(&PATIENT).await;
    let api = world.api(&process).await;
    let rooms = Rooms::of(&world).await;
    let mut giveaway = Giveaway::played(&rooms, &api, &spec(1, "lowBits")).await;
    pool_is_right(&world, &giveaway).await;
    let (id, shard) = (giveaway.bag.id, shard_of(&giveaway));
    let candidates = service(&world).await;

    // A shard is lost, and every script that a node knew; the sweeper waits until this has been seen.
    world.hold_rebuilds(&giveaway.bag).await;
    for key in [
        world.keys().candidate(id, shard),
        world.keys().revision(id, shard),
    ] {
        let _: i64 = world.redis.unlink(key).await.unwrap();
    }
    for node in &cluster.nodes {
        node.run(&["SCRIPT", "FLUSH"]).await;
    }
    assert!(world.check_pool(&giveaway.bag).await.is_err());
    world.let_rebuild(&giveaway.bag).await;
    let rebuilt = eventually("a rebuild while the sweeper is not at it", async || {
        candidates.rebuild(id).await.unwrap().ok_or("it is")
    })
    .await;
    assert_eq!(rebuilt, giveaway.joined.len() as u64);
    pool_is_right(&world, &giveaway).await;

    // A shard goes to another node, and on it goes.
    cluster
        .move_slot_of(&world.keys().candidate(id, shard))
        .await;
    let present: Vec<u64> = giveaway.present.iter().copied().collect();
    giveaway.leave(&rooms, &present[..20]).await;
    giveaway.come_back(&rooms, &present[..10]).await;
    giveaway.join(&rooms, &api, 5_000..5_040).await;
    pool_is_right(&world, &giveaway).await;
    world.draw_soon(&[giveaway.bag]).await;
    giveaway.assert_won_by_the_right_ones(&world, &api).await;
    assert_eq!(path_of_draw(&process, &giveaway.bag).await, "fast");
    world.nothing_owed().await;

    rooms.close();
    process.stop().await;
    world.end().await;
}
