//! Reading results at the moment of the draw: from memory, whatever the stores do, and nothing that is
//! not committed.

mod cold;
mod copies;
mod line;
mod memory;
mod pollers;

use std::collections::BTreeMap;

use fred::interfaces::KeysInterface;

use crate::harness::{Api, Bag, BagSpec, Process, Win, World, eventually, metric, metrics_page};

/// Who takes part in a bag.
fn users_of(bag: &Bag, count: u64) -> Vec<u64> {
    let first = bag.room * 1_000;
    (first..first + count).collect()
}

/// How often a process had a detail, or a list of winners, from a layer.
async fn reads(process: &Process, cache: &str, layer: &str) -> u64 {
    let page = metrics_page(&process.health_url().await).await;
    let series = format!(r#"luckybag_cache_reads_total{{cache="{cache}",layer="{layer}"}}"#);
    let value = metric(&page, &series).unwrap_or(0.0);
    format!("{value:.0}").parse().expect("a count")
}

/// What everybody has to be told in the end.
struct Truth {
    wins: BTreeMap<u64, Win>,
}

impl Truth {
    async fn of(world: &World, bag: &Bag) -> Self {
        let wins = world.wins(bag.id).await;
        Self {
            wins: wins.into_iter().map(|win| (win.user_id, win)).collect(),
        }
    }

    #[track_caller]
    fn assert_told(&self, user: u64, told: &line::Told) {
        match self.wins.get(&user) {
            Some(win) if win.status == "won" => {
                assert_eq!(told.result, "won", "user {user}");
                let shown = told.win.as_ref().expect("what was won");
                assert_eq!(shown["winRecordId"], win.id.to_string(), "user {user}");
                assert_eq!(shown["rank"], win.seat, "user {user}");
            }
            Some(_) => assert_eq!(told.result, "revoked", "user {user}"),
            None => assert_eq!(told.result, "notWon", "user {user}"),
        }
    }
}

impl World {
    /// Makes the bag due so many milliseconds from now; Redis forgets it.
    async fn draw_in(&self, bag: &Bag, millis: u64) {
        let statement = format!(
            "UPDATE activity SET draw_at = NOW(3) + INTERVAL {} MICROSECOND WHERE id = {}",
            millis * 1_000,
            bag.id
        );
        self.execute(&statement).await;
        let copy = self.keys().activity(bag.id);
        let _: i64 = self.redis.unlink(copy).await.expect("forgotten");
    }

    async fn is_drawn(&self, bag: &Bag) -> bool {
        let drawn = "SELECT COUNT(*) FROM activity WHERE id = ID AND status = 'drawn'";
        self.number_of(bag.id, drawn).await == 1
    }
}

/// Waits until each of the users' joins has its verdict.
async fn until_joined(world: &World, bag: &Bag, count: u64) {
    let joined = format!(
        "SELECT COUNT(*) FROM participation WHERE activity_id = {}",
        bag.id
    );
    eventually("the joins to be settled", async || {
        match u64::try_from(world.number(&joined).await) {
            Ok(settled) if settled == count => Ok(()),
            settled => Err(settled),
        }
    })
    .await;
}

/// A bag that these have joined.
async fn joined_bag(world: &World, api: &Api, (room, seats): (u64, u32), joins: u64) -> Bag {
    let bag = api
        .open_bag(&BagSpec {
            room,
            winners: seats,
            ..BagSpec::waiting()
        })
        .await;
    api.join_all(&bag, users_of(&bag, joins)).await;
    until_joined(world, &bag, joins).await;
    bag
}
