//! Pools and messages that are set right: by the sweeper, and by operators from the command line.

use std::sync::Arc;

use fred::{
    interfaces::{HashesInterface, KeysInterface, SortedSetsInterface},
    types::{Expiration, SetOptions},
};
use luckybag::{
    candidate::{CandidateDeps, CandidateService, JoinRequest, StreamMessage, partition_of},
    infra::{
        broker::{Broker, BrokerOptions},
        mysql::DatabaseClock,
        redis::Shard,
    },
    kernel::{ActivityId, UserId},
};
use sea_orm::{ConnectionTrait, TransactionTrait};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    harness::{Api, Bag, BagSpec, World, eventually},
    proxy::free_address,
};

impl World {
    /// A bag with 40 in the pool, a denied user beside them, and everything as it should be.
    async fn filled_bag(&self, api: &Api) -> Bag {
        let bag = api.open_bag(&BagSpec::waiting()).await;
        let denied = bag.path("/deny-list/41");
        api.put(&api.operator(), &denied, None).await.expect(200);
        api.join_all(&bag, 1..=41).await;
        self.pool_is_right(&bag, 40).await;
        bag
    }

    async fn pool_is_right(&self, bag: &Bag, joined: usize) {
        eventually("the pool to be right", async || {
            self.check_pool(bag).await?;
            match self.participants(bag, "joined").await.len() {
                found if found == joined => Ok(()),
                found => Err(format!("{found} joined")),
            }
        })
        .await;
    }

    fn rebuild_claim(&self, bag: &Bag) -> String {
        let keys = self.keys();
        keys.mutex(&keys.candidate(bag.id, Shard::of(0)))
    }

    /// Keeps every process from rebuilding the pool, a minute at most; one that is at it ends first.
    pub(crate) async fn hold_rebuilds(&self, bag: &Bag) {
        let claim = self.rebuild_claim(bag);
        eventually("the claim to rebuild", async || {
            let (life, absent) = (Some(Expiration::EX(60)), Some(SetOptions::NX));
            let set = self.redis.set(&claim, "the test", life, absent, false);
            let claimed: Option<String> = set.await.expect("Redis answers");
            claimed.ok_or("somebody is at it")
        })
        .await;
    }

    pub(crate) async fn let_rebuild(&self, bag: &Bag) {
        let claim = self.rebuild_claim(bag);
        let () = self.redis.del(&claim).await.expect("Redis answers");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_rebuilt_on_demand_by_one_process_at_a_time() {
    let world = World::new().await;
    let process = world.serve_with(&[("SWEEPER__ENABLED", "false")]).await;
    let api = world.api(&process).await;
    let bag = world.filled_bag(&api).await;
    let draft = api.draft(&BagSpec::waiting()).await;
    let rebuild = format!("rebuild {}", bag.id);

    world.forget_redis().await;
    let claim = world.rebuild_claim(&bag);
    let life = Some(Expiration::EX(60));
    let () = world
        .redis
        .set(&claim, "somebody", life, None, false)
        .await
        .expect("Redis answers");
    let busy = world.operate(&rebuild, &[]).await;
    assert!(busy.complaint().contains("another process"), "{busy:?}");
    assert!(busy.complaint().contains(&bag.id.to_string()), "{busy:?}");
    let held: Option<String> = world.redis.get(&claim).await.expect("Redis answers");
    assert_eq!(held.as_deref(), Some("somebody"));
    world
        .check_pool(&bag)
        .await
        .expect_err("nothing was rebuilt");

    let () = world.redis.del(&claim).await.expect("Redis answers");
    let done = world.operate(&rebuild, &[]).await;
    let told = format!("rebuilt: 41 participations of activity {}", bag.id);
    assert_eq!(done.printed(), told);
    world.check_pool(&bag).await.expect("a pool as before");
    let held: Option<String> = world.redis.get(&claim).await.expect("Redis answers");
    assert_eq!(held, None, "the claim is given back");
    let shown = world.user_state(&bag, 41).await.expect("a summary");
    assert_eq!(shown["reason"], "blocked", "{shown}");
    assert_eq!(world.shown_participants(&bag).await.len(), 40);

    let empty = world.operate(&format!("rebuild {draft}"), &[]).await;
    assert!(empty.printed().contains("rebuilt: 0 "), "{empty:?}");
    let unknown = world.operate("rebuild 123456789", &[]).await;
    assert!(unknown.complaint().contains("123456789"), "{unknown:?}");
    let nobody = format!("redis://{}/0", free_address());
    let away = world.operate(&rebuild, &[("REDIS__URL", &nobody)]).await;
    assert!(away.complaint().contains("Redis"), "{away:?}");

    process.stop().await;
    world.end().await;
}

/// The part of a process that rebuilds, in the test's own process.
fn rebuilder(world: &World) -> CandidateService {
    let settings = world.settings();
    let broker = BrokerOptions {
        url: settings.rabbitmq.url.expose_secret().to_owned(),
        namespace: settings.namespace.clone(),
        partitions: settings.stream.partitions,
        confirm_timeout: settings.rabbitmq.confirm_timeout_ms.duration(),
    };
    CandidateService::new(CandidateDeps {
        db: world.db.clone(),
        redis: world.redis.clone(),
        broker: Broker::new(broker),
        clock: Arc::new(DatabaseClock::new(world.db.clone())),
        settings: settings.candidate,
        join: settings.join,
        partitions: settings.stream.partitions,
        mysql_reads: Arc::new(Semaphore::new(4)),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_whose_claim_has_lapsed_leaves_the_next_ones_claim_alone() {
    let world = World::new().await;
    let process = world.serve_with(&[("SWEEPER__ENABLED", "false")]).await;
    let api = world.api(&process).await;
    let bag = world.filled_bag(&api).await;
    let claim = world.rebuild_claim(&bag);
    let candidates = rebuilder(&world);

    // It claims, and then waits for the rows.
    let holdup = world.db.begin().await.expect("MySQL answers");
    let locked = holdup.execute_unprepared("LOCK TABLES participation WRITE");
    locked.await.expect("locked");
    let rebuilding = candidates.rebuild(bag.id);
    let meanwhile = async {
        eventually("the claim", async || {
            let held: Option<String> = world.redis.get(&claim).await.expect("Redis answers");
            held.ok_or("none")
        })
        .await;
        let life = Some(Expiration::EX(60));
        let () = world
            .redis
            .set(&claim, "the next one", life, None, false)
            .await
            .expect("Redis answers");
        let freed = holdup.execute_unprepared("UNLOCK TABLES");
        freed.await.expect("unlocked");
        holdup.rollback().await.expect("MySQL answers");
    };
    let (rebuilt, ()) = tokio::join!(rebuilding, meanwhile);

    assert_eq!(rebuilt.expect("rebuilt"), Some(41));
    let held: Option<String> = world.redis.get(&claim).await.expect("Redis answers");
    assert_eq!(held.as_deref(), Some("the next one"));
    let left: i64 = world.redis.pttl(&claim).await.expect("Redis answers");
    assert!(left > 10_000, "nor was its life changed: {left} ms");
    process.stop().await;
    world.end().await;
}

/// Takes something out of the shard of user 3.
async fn damage(world: &World, bag: &Bag, what: &str) {
    let shard = Shard::of(3);
    let pool = world.keys().candidate(bag.id, shard);
    let revisions = world.keys().revision(bag.id, shard);
    let redis = &world.redis;
    match what {
        "a member" => {
            let gone: i64 = redis.zrem(&pool, "3").await.expect("Redis answers");
            assert_eq!(gone, 1);
        }
        "a revision" => {
            let () = redis
                .hset(&revisions, ("3", "0"))
                .await
                .expect("Redis answers");
            let _: i64 = redis
                .hincrby(&revisions, "sum", -1)
                .await
                .expect("Redis answers");
        }
        "a shard" => {
            let gone: i64 = redis
                .unlink(vec![pool, revisions])
                .await
                .expect("Redis answers");
            assert_eq!(gone, 2);
        }
        _ => panic!("{what} is not to be damaged"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweeper_repairs_what_a_pool_has_lost() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = world.filled_bag(&api).await;

    for what in ["a member", "a revision", "a shard"] {
        // Until the loss has been seen.
        world.hold_rebuilds(&bag).await;
        damage(&world, &bag, what).await;
        world
            .check_pool(&bag)
            .await
            .expect_err(&format!("{what} is gone"));
        world.let_rebuild(&bag).await;
        world.pool_is_right(&bag, 40).await;
    }

    process.stop().await;
    world.end().await;
}

/// Sends a join of an activity past the door.
async fn slip_in(world: &World, id: ActivityId, user: u64) {
    let (broker, stop) = world.broker().await;
    let join = JoinRequest {
        activity_id: id,
        user_id: UserId(user),
        device_id: None,
        completed_tasks: vec![],
        accepted_at: world.now().await,
        request_id: "early".to_owned(),
    };
    let partition = partition_of(UserId(user), broker.topology().partitions());
    let joins = StreamMessage::Joins { joins: vec![join] };
    let message = joins.into_outgoing(partition, "the-early-one".to_owned());
    broker.publish(message).await.expect("a confirm");
    stop.cancel();
}

async fn dead_letters(world: &World, count: usize) -> Vec<Value> {
    eventually("the dead letters", async || {
        let listed = world.operate("dead list --json", &[]).await;
        let letters: Vec<Value> = serde_json::from_str(listed.printed()).expect("JSON");
        if letters.len() == count {
            Ok(letters)
        } else {
            Err(letters)
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_handled_is_listed_and_can_be_sent_again() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let nothing = world.operate("dead list", &[]).await;
    assert_eq!(nothing.printed(), "nothing");
    assert_eq!(dead_letters(&world, 0).await, [] as [Value; 0]);
    let spec = BagSpec::waiting();
    let early = api.ready(&spec).await;

    slip_in(&world, early, 77).await;
    let letters = dead_letters(&world, 1).await;
    let amqp = world.amqp().await;
    let stream = luckybag::infra::broker::Queue::Stream(0);
    amqp.put(&world.topology().queue_name(stream), b"\x1b[2Jgarbage")
        .await;
    dead_letters(&world, 2).await;

    let letter = &letters[0];
    assert!(
        letter["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty())
    );
    let origin = letter["origin"].as_str().expect("a queue");
    assert!(origin.contains("stream"), "{letter}");
    assert_eq!(
        letter["body"]["joins"][0]["userId"],
        json!("77"),
        "{letter}"
    );
    let shown = world.operate("dead list", &[]).await;
    let text = shown.printed();
    assert!(
        text.contains("garbage") && text.contains("stream"),
        "{text}"
    );
    assert!(!text.contains('\x1b'), "{text:?}");
    let first = world.operate("dead list --limit 1", &[]).await;
    assert_eq!(first.printed().lines().count(), 2, "{first:?}");
    assert!(!first.printed().contains("garbage"), "{first:?}");

    // What was too early has its time now; what makes no sense comes back.
    let bag = api.open(&spec, early).await;
    let replayed = world.operate("dead replay", &[]).await;
    assert_eq!(replayed.printed(), "sent again: 2");
    api.assert_settled(&bag, 77, ("joined", None)).await;
    let left = dead_letters(&world, 1).await;
    assert!(
        left[0]["body"]
            .as_str()
            .is_some_and(|body| body.contains("garbage"))
    );

    amqp.close().await;
    process.stop().await;
    world.end().await;
}
