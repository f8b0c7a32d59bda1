//! A giveaway in which some leave and some come back, and who has to win it.

use std::collections::BTreeSet;

use luckybag::{
    candidate::{PresenceKind, Standing},
    infra::broker::Broker,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::harness::{Api, Bag, BagSpec, World, eventually};

/// How many join each bag.
const JOINS: u64 = 60;
pub(super) const SEATS: u32 = 5;

/// A bag with everybody who joined it, and those who are there.
pub(super) struct Giveaway {
    pub(super) bag: Bag,
    pub(super) joined: BTreeSet<u64>,
    pub(super) present: BTreeSet<u64>,
}

/// Tells who comes and goes, as a room's system does.
pub(super) struct Rooms<'w> {
    world: &'w World,
    broker: Broker,
    stop: CancellationToken,
}

/// A bag that nobody is drawn from yet, with two prizes.
pub(super) fn spec(room: u64, shard_by: &str) -> BagSpec {
    let prize = |name: &str, quantity: u32| json!({ "name": name, "kind": "virtual", "quantity": quantity });
    BagSpec {
        room,
        extra: json!({
            "presenceRule": "pause",
            "shardBy": shard_by,
            "prizes": [prize("Headphones", 1), prize("Coupon", SEATS - 1)],
        }),
        ..BagSpec::waiting()
    }
}

impl Giveaway {
    /// Opens a bag and lets people join, leave and come back.
    pub(super) async fn played(rooms: &Rooms<'_>, api: &Api, spec: &BagSpec) -> Self {
        let bag = api.open_bag(spec).await;
        let mut giveaway = Self {
            bag,
            joined: BTreeSet::new(),
            present: BTreeSet::new(),
        };
        let first = spec.room * 1_000;
        giveaway.join(rooms, api, first..first + JOINS).await;
        // Of the best some leave and some come back, so that it matters.
        let best = giveaway.expected(rooms.world).await;
        let best: Vec<u64> = best.iter().map(|best| best.user_id.0).collect();
        giveaway.leave(rooms, &best[..4]).await;
        giveaway.come_back(rooms, &best[2..4]).await;
        giveaway
    }

    pub(super) async fn join(
        &mut self,
        rooms: &Rooms<'_>,
        api: &Api,
        users: impl Iterator<Item = u64> + Clone,
    ) {
        api.join_all(&self.bag, users.clone()).await;
        self.joined.extend(users.clone());
        self.present.extend(users);
        eventually("the joins to be admitted", async || {
            let joined = rooms.world.participants(&self.bag, "joined").await;
            if joined == self.joined {
                Ok(())
            } else {
                Err(joined)
            }
        })
        .await;
    }

    pub(super) async fn leave(&mut self, rooms: &Rooms<'_>, users: &[u64]) {
        rooms.tell(&self.bag, users, PresenceKind::Leave).await;
        self.present.retain(|user| !users.contains(user));
    }

    pub(super) async fn come_back(&mut self, rooms: &Rooms<'_>, users: &[u64]) {
        rooms.tell(&self.bag, users, PresenceKind::Enter).await;
        self.present.extend(users);
    }

    /// Everybody who is there, best first by the seed that MySQL keeps.
    pub(super) async fn expected(&self, world: &World) -> Vec<Standing> {
        let mut standings = world.entrants(self.bag.id).await;
        standings.retain(|standing| self.present.contains(&standing.user_id.0));
        standings
    }

    /// Asserts that those won who had to, in MySQL and to everybody who asks.
    pub(super) async fn assert_won_by_the_right_ones(&self, world: &World, api: &Api) {
        api.drawn(&self.bag).await;
        let mut best = self.expected(world).await;
        best.truncate(SEATS.try_into().unwrap());
        let won = world.wins(self.bag.id).await;
        let won: Vec<_> = won.iter().map(|win| (win.user_id, win.score)).collect();
        let expected = best.iter().map(|best| (best.user_id.0, best.score.value()));
        let expected: Vec<_> = expected.collect();
        assert_eq!(won, expected, "other winners than the seed says");

        let winners: Vec<u64> = expected.iter().map(|(user, _)| *user).collect();
        assert_eq!(api.winners(&self.bag).await, winners);
        for user in &self.joined {
            let result = api.get(&api.viewer(*user), &self.bag.path("/result")).await;
            let result = result.expect(200);
            let own = if winners.contains(user) {
                "won"
            } else {
                "notWon"
            };
            assert_eq!(result["result"], own, "user {user}: {result}");
        }
    }
}

impl<'w> Rooms<'w> {
    pub(super) async fn of(world: &'w World) -> Self {
        let (broker, stop) = world.broker().await;
        Self {
            world,
            broker,
            stop,
        }
    }

    /// Tells it, and waits until MySQL has it of everybody.
    async fn tell(&self, bag: &Bag, users: &[u64], kind: PresenceKind) {
        let world = self.world;
        // Later than everything before.
        let now = world.now().await;
        world.until(now + chrono::TimeDelta::milliseconds(1)).await;
        let since = world.now().await.timestamp_millis();
        world
            .tell_presence(&self.broker, bag, users.iter().copied(), kind)
            .await;
        let column = match kind {
            PresenceKind::Enter => "last_enter_at",
            PresenceKind::Leave => "last_leave_at",
        };
        let told = format!(
            "SELECT COUNT(*) FROM presence WHERE activity_id = ID \
             AND UNIX_TIMESTAMP({column}) * 1000 >= {since}"
        );
        let expected = i64::try_from(users.len()).unwrap();
        eventually("the presence to be known", async || {
            match world.number_of(bag.id, &told).await {
                count if count == expected => Ok(()),
                count => Err(count),
            }
        })
        .await;
    }

    pub(super) fn close(self) {
        self.stop.cancel();
    }
}
