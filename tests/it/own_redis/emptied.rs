//! Losing all of Redis at any moment, or its last writes, changes neither a winner nor the proof.

use sea_orm::{ConnectionTrait, TransactionTrait};

use super::giveaway::{Giveaway, Rooms, spec};
use crate::{
    harness::{Api, BagSpec, Process, RedisServer, World, eventually},
    proxy::Proxy,
};

/// A world on a Redis of its own, and a process that reaches it through a proxy.
struct Stage {
    world: World,
    redis: RedisServer,
    proxy: Proxy,
    process: Process,
    api: Api,
}

impl Stage {
    async fn new() -> Self {
        let redis = RedisServer::start().await;
        let world = World::on_redis(&redis.url()).await;
        let proxy = Proxy::start(redis.address()).await;
        let url = format!("redis://{}", proxy.addr());
        let process = world
            .serve_with(&[
                ("REDIS__URL", &url),
                // Longer than a selection waits for Redis.
                ("REDIS__COMMAND_TIMEOUT_MS", "10000"),
            ])
            .await;
        Self {
            api: world.api(&process).await,
            world,
            redis,
            proxy,
            process,
        }
    }

    async fn until(&self, what: &str, query: &str) {
        eventually(what, async || match self.world.number(query).await {
            0 => Err("not yet"),
            _ => Ok(()),
        })
        .await;
    }

    /// Lets the draw begin, and holds it before its selection has read anything.
    async fn hold_before_the_selection(&self) {
        self.proxy.stall();
        self.world.draw_soon(&[]).await;
        self.until(
            "the freeze",
            "SELECT COUNT(*) FROM activity WHERE status = 'drawing'",
        )
        .await;
    }

    /// Asserts that each was drawn right, and that a loss afterwards changes nothing either, not even
    /// for a process that remembers nothing.
    async fn assert_drawn_right(&self, giveaways: &[Giveaway]) {
        let (world, api) = (&self.world, &self.api);
        let mut proofs = Vec::new();
        for giveaway in giveaways {
            giveaway.assert_won_by_the_right_ones(world, api).await;
            proofs.push(giveaway.assert_proof_holds(api).await);
        }
        world.nothing_owed().await;

        self.redis.lose_everything().await;
        let other = world.serve_with(&[("REDIS__URL", &self.redis.url())]).await;
        let api = world.api(&other).await;
        for (giveaway, proof) in giveaways.iter().zip(proofs) {
            giveaway.assert_won_by_the_right_ones(world, &api).await;
            assert_eq!(giveaway.assert_proof_holds(&api).await, proof);
        }
        other.stop().await;
    }

    async fn end(self) {
        self.process.stop().await;
        self.world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn losing_all_of_redis_between_joins_and_draw_changes_no_result() {
    let stage = Stage::new().await;
    let rooms = Rooms::of(&stage.world).await;
    let before = Giveaway::played(&rooms, &stage.api, &spec(1, "lowBits")).await;
    let mut between = Giveaway::played(&rooms, &stage.api, &spec(2, "mixed")).await;

    stage.redis.lose_everything().await;
    // One is drawn from nothing; of the other the pool is filled again in part.
    between.join(&rooms, &stage.api, 3_000..3_020).await;
    let best = between.expected(&stage.world).await;
    between.leave(&rooms, &[best[0].user_id.0]).await;
    stage.world.draw_soon(&[]).await;

    stage.assert_drawn_right(&[before, between]).await;
    rooms.close();
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_missed_the_last_writes_changes_no_result() {
    let mut stage = Stage::new().await;
    let rooms = Rooms::of(&stage.world).await;
    let mut giveaway = Giveaway::played(&rooms, &stage.api, &spec(1, "lowBits")).await;
    let replica = RedisServer::start().await;
    replica.take_copy(&stage.redis, "before").await;

    let best = giveaway.expected(&stage.world).await;
    giveaway.leave(&rooms, &[best[0].user_id.0]).await;
    giveaway.join(&rooms, &stage.api, 3_000..3_020).await;
    stage.proxy.switch_to(&replica.address());
    stage.redis = replica;
    stage.world.draw_soon(&[]).await;

    stage.assert_drawn_right(&[giveaway]).await;
    rooms.close();
    stage.end().await;
}

/// The pool is as large as it should be, and all that it puts first may win: it has one too few of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_missed_that_the_best_came_back_changes_no_result() {
    let mut stage = Stage::new().await;
    let rooms = Rooms::of(&stage.world).await;
    let mut giveaway = Giveaway::played(&rooms, &stage.api, &spec(1, "lowBits")).await;
    let replica = RedisServer::start().await;
    replica.take_copy(&stage.redis, "before").await;

    let all = stage.world.entrants(giveaway.bag.id).await;
    assert!(!giveaway.present.contains(&all[0].user_id.0));
    giveaway.come_back(&rooms, &[all[0].user_id.0]).await;
    eventually("the pool", async || {
        stage.world.check_pool(&giveaway.bag).await
    })
    .await;
    stage.proxy.switch_to(&replica.address());
    stage.redis = replica;
    stage.world.draw_soon(&[]).await;

    stage.assert_drawn_right(&[giveaway]).await;
    rooms.close();
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn losing_all_of_redis_before_the_selection_changes_no_result() {
    let stage = Stage::new().await;
    let rooms = Rooms::of(&stage.world).await;
    let giveaway = Giveaway::played(&rooms, &stage.api, &spec(1, "lowBits")).await;

    stage.hold_before_the_selection().await;
    stage.redis.lose_everything().await;
    stage.proxy.resume();

    stage.assert_drawn_right(&[giveaway]).await;
    rooms.close();
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn losing_all_of_redis_between_selection_and_commit_changes_no_result() {
    let stage = Stage::new().await;
    let rooms = Rooms::of(&stage.world).await;
    let giveaway = Giveaway::played(&rooms, &stage.api, &spec(1, "mixed")).await;

    stage.hold_before_the_selection().await;
    let held = stage.world.db.begin().await.unwrap();
    held.execute_unprepared("SELECT * FROM activity FOR UPDATE")
        .await
        .unwrap();
    stage.proxy.resume();
    stage
        .until(
            "the drawer to come to its commit",
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() \
             AND info LIKE 'UPDATE activity SET status = ''drawn''%'",
        )
        .await;
    stage.redis.lose_everything().await;
    held.rollback().await.unwrap();

    stage.assert_drawn_right(&[giveaway]).await;
    rooms.close();
    stage.end().await;
}

/// Whatever part of a draw meets an empty Redis, also between two shards of one selection.
#[tokio::test(flavor = "multi_thread")]
async fn losing_all_of_redis_again_and_again_while_bags_are_drawn_changes_no_result() {
    let stage = Stage::new().await;
    let rooms = Rooms::of(&stage.world).await;
    let mut giveaways = Vec::new();
    for (room, shard_by) in [(1, "lowBits"), (2, "mixed"), (3, "lowBits"), (4, "mixed")] {
        giveaways.push(Giveaway::played(&rooms, &stage.api, &spec(room, shard_by)).await);
    }

    let bags: Vec<_> = giveaways.iter().map(|giveaway| giveaway.bag).collect();
    stage.world.draw_soon(&bags).await;
    let losing = async {
        loop {
            stage.redis.lose_everything().await;
        }
    };
    tokio::select! {
        () = losing => (),
        () = stage.world.all_drawn(&bags) => (),
    }

    stage.assert_drawn_right(&giveaways).await;
    rooms.close();
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_joins_after_a_loss_is_not_taken_for_all_participants() {
    let redis = RedisServer::start().await;
    let world = World::on_redis(&redis.url()).await;
    // A busy machine must not look like a silent server.
    let patient = [("REDIS__COMMAND_TIMEOUT_MS", "5000")];
    let process = world.serve_with(&patient).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let shown = async || {
        let answer = api.get(&api.viewer(1), &bag.path("")).await.expect(200);
        answer["participants"].as_u64().expect("a number")
    };
    api.join_all(&bag, 1..=40).await;
    for user in 1..=40 {
        api.settled(&bag, user).await;
    }

    redis.lose_everything().await;
    api.join_all(&bag, 41..=45).await;
    for user in 41..=45 {
        api.settled(&bag, user).await;
        assert!(shown().await >= 40, "{}", shown().await);
    }
    eventually("all of them to be shown", async || match shown().await {
        45 => Ok(()),
        count => Err(count),
    })
    .await;
    process.stop().await;
    world.end().await;
}
