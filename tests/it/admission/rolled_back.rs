//! A replica that has missed the last writes takes the place of the master: what it does not know
//! counts nowhere, and what is written to it later is right.

use std::collections::BTreeSet;

use fred::interfaces::{HashesInterface, KeysInterface, SortedSetsInterface};
use luckybag::{
    candidate::{PresenceKind, SelectionPath, Standing, StreamMessage},
    infra::redis::Shard,
    kernel::UserId,
};

use super::rig::{BAG, Bag, Rig, SEED, eventually, ranked, users};
use crate::{harness::RedisServer, proxy::Proxy};

/// A rig whose Redis is what a proxy leads to, and who may win.
struct Failover {
    rig: Rig,
    proxy: Proxy,
    master: RedisServer,
    replica: RedisServer,
    present: BTreeSet<u64>,
    now_ms: i64,
}

/// What happens while nothing reaches the replica.
#[derive(Clone, Copy, Debug)]
enum Missed {
    Returns,
    Joins,
    Leaves,
}

impl Failover {
    async fn start() -> Self {
        let master = RedisServer::start().await;
        let replica = RedisServer::start().await;
        let proxy = Proxy::start(master.address()).await;
        let url = format!("redis://{}", proxy.addr());
        Self {
            rig: Rig::with(Bag::default(), &url).await,
            proxy,
            master,
            replica,
            present: BTreeSet::new(),
            now_ms: 100,
        }
    }

    async fn join(&mut self, users: &[u64]) {
        let joins = self.rig.joins(users.iter().copied());
        self.rig.handle(vec![joins]).await;
        self.present.extend(users);
    }

    async fn tell_presence(&mut self, users: &[u64], kind: PresenceKind) {
        self.now_ms += 100;
        let event = |user: &u64| self.rig.presence(*user, kind, self.now_ms);
        let events = users.iter().map(event).collect();
        self.rig
            .handle(vec![StreamMessage::Presence { events }])
            .await;
    }

    async fn leave(&mut self, users: &[u64]) {
        self.tell_presence(users, PresenceKind::Leave).await;
        self.present.retain(|user| !users.contains(user));
    }

    async fn come_back(&mut self, users: &[u64]) {
        self.tell_presence(users, PresenceKind::Enter).await;
        self.present.extend(users);
    }

    /// Lets the replica have all that the master has, and nothing from then on.
    async fn replicate_until_now(&self, mark: &str) {
        self.replica.take_copy(&self.master, mark).await;
        self.replica.run(&["SET", "promoted", mark]).await;
    }

    /// The replica takes the master's place, and the master is lost.
    async fn fail_over(&mut self, mark: &str) {
        self.proxy.switch_to(&self.replica.address());
        eventually("the replica serves", async || {
            let promoted: Result<Option<String>, _> = self.rig.redis.get("promoted").await;
            promoted.is_ok_and(|promoted| promoted.as_deref() == Some(mark))
                && self.rig.redis.is_connected()
        })
        .await;
        std::mem::swap(&mut self.master, &mut self.replica);
        self.replica.run(&["FLUSHALL"]).await;
    }

    /// Asserts that those win who are there by what was told, and how they were found.
    async fn assert_selects(&self, path: SelectionPath, case: &str) {
        let best = ranked(self.present.iter().copied());
        for seats in [1_u32, 7, 1_000] {
            let selected = self.rig.select(seats).await;
            let wanted = best.len().min(seats.try_into().unwrap());
            assert_eq!(users(&selected), best[..wanted], "{case}, {seats} seats");
            assert_eq!(selected.eligible_count, best.len() as u64, "{case}");
            assert_eq!(selected.path, path, "{case}, {seats} seats");
        }
    }

    /// Asserts that the pool holds of a user what MySQL decided last.
    async fn assert_shown(&self, user: u64, score: f64, case: &str) {
        let shard = Shard::of(user);
        let keys = self.rig.keys();
        let pool = keys.candidate(BAG, shard);
        let shown: Option<f64> = self.rig.redis.zscore(pool, user).await.unwrap();
        assert_eq!(shown.map(f64::to_bits), Some(score.to_bits()), "{case}");
        let revisions = keys.revision(BAG, shard);
        let known: i64 = self.rig.redis.hget(revisions, user).await.unwrap();
        let text =
            format!("SELECT CAST(revision AS SIGNED) FROM participation WHERE user_id = {user}");
        assert_eq!(known, self.rig.count(&text).await, "{case}");
    }

    /// The users whose change the replica misses are among the best of all.
    async fn miss(&mut self, missed: Missed, users: &[u64]) {
        match missed {
            Missed::Returns => self.come_back(users).await,
            Missed::Joins => self.join(users).await,
            Missed::Leaves => self.leave(users).await,
        }
    }

    /// Each of them changes twice more, on the new master.
    async fn catch_up(&mut self, users: &[u64]) {
        self.leave(users).await;
        self.come_back(users).await;
    }
}

async fn a_replica_that_misses(missed: Missed) {
    let mut failover = Failover::start().await;
    let case = format!("{missed:?} missed");
    let best: Vec<u64> = ranked(1..=400).into_iter().take(5).collect();
    let mut others: Vec<u64> = (1..=400).collect();
    others.retain(|user| !best.contains(user));
    failover.join(&others).await;
    match missed {
        Missed::Joins => (),
        Missed::Returns | Missed::Leaves => failover.join(&best).await,
    }
    if let Missed::Returns = missed {
        failover.leave(&best).await;
    }
    failover
        .assert_selects(SelectionPath::Fast, "at first")
        .await;
    failover.replicate_until_now(&case).await;
    failover.miss(missed, &best).await;
    failover
        .assert_selects(SelectionPath::Fast, "on the master")
        .await;

    failover.fail_over(&case).await;
    failover.assert_selects(SelectionPath::Exact, &case).await;

    // A later change of one of them is shown, and makes nobody else current.
    failover.leave(&best[..1]).await;
    failover.assert_shown(best[0], -1.0, &case).await;
    failover
        .assert_selects(SelectionPath::Exact, "one has left")
        .await;
    failover.come_back(&best[..1]).await;
    let own = Standing::of(&luckybag::activity::Seed::new(SEED), UserId(best[0])).score;
    failover.assert_shown(best[0], own.value(), &case).await;
    failover
        .assert_selects(SelectionPath::Exact, "one is back")
        .await;

    // Once each of them has changed again, nothing that was missed is left.
    failover.catch_up(&best[1..4]).await;
    failover
        .assert_selects(SelectionPath::Exact, "one is missing")
        .await;
    failover.catch_up(&best[4..]).await;
    failover
        .assert_selects(SelectionPath::Fast, "all have changed again")
        .await;
    failover.rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_has_missed_returns_keeps_nobody_from_winning() {
    a_replica_that_misses(Missed::Returns).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_has_missed_joins_keeps_nobody_from_winning() {
    a_replica_that_misses(Missed::Joins).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_has_missed_leaves_lets_nobody_win() {
    a_replica_that_misses(Missed::Leaves).await;
}
