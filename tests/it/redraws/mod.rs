//! Redraws: the next of the same order, one round after the other, whoever asks and however often.

mod concurrent;
mod failures;
mod refusals;
mod rounds;
mod seen;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Answer, Api, Bag, BagSpec, Win, World, eventually};

const REASON: &str = "entered from a forged account";

fn users_of(bag: &Bag, count: u64) -> Vec<u64> {
    let first = bag.room * 1_000;
    (first..first + count).collect()
}

/// One phone and two mugs.
fn three_seats(room: u64) -> BagSpec {
    BagSpec {
        room,
        extra: json!({ "prizes": [
            { "name": "Phone", "kind": "physical", "quantity": 1 },
            { "name": "Mug", "kind": "physical", "quantity": 2 },
        ]}),
        ..BagSpec::waiting()
    }
}

/// A drawn bag with three seats and this many entrants.
async fn drawn_bag(world: &World, api: &Api, entrants: u64) -> Bag {
    let bag = api.open_bag(&three_seats(8001)).await;
    api.join_all(&bag, users_of(&bag, entrants)).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.assert_drawn_once(&bag).await;
    // Its publication locks the activity too.
    eventually("the proof", async || {
        let pending = "SELECT COUNT(*) FROM activity WHERE proof_published_at IS NULL";
        match world.number(pending).await {
            0 => Ok(()),
            count => Err(count),
        }
    })
    .await;
    bag
}

/// The ids of the user, best first.
async fn standings(world: &World, bag: &Bag) -> Vec<u64> {
    let entrants = world.entrants(bag.id).await;
    entrants.iter().map(|best| best.user_id.0).collect()
}

fn number(value: &Value) -> u64 {
    value.as_str().expect("an id").parse().expect("digits")
}

fn order(ids: &[u64]) -> Value {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    json!({ "winRecordIds": ids, "reason": REASON })
}

impl Api {
    pub(crate) async fn redraw(&self, bag: &Bag, ids: &[u64]) -> Answer {
        let path = bag.path("/redraws");
        self.post(&self.operator(), &path, Some(order(ids))).await
    }

    async fn result(&self, bag: &Bag, user: u64) -> Value {
        let answer = self.get(&self.viewer(user), &bag.path("/result")).await;
        answer.expect(200)
    }
}

impl World {
    /// What was handed out of an activity's prizes, and what is reserved for it.
    async fn handed_out(&self, bag: &Bag) -> (i64, i64) {
        const OF_BAG: &str = "FROM prize WHERE id IN \
             (SELECT prize_id FROM activity_prize WHERE activity_id = ID)";
        let issued = format!("SELECT CAST(SUM(issued) AS SIGNED) {OF_BAG}");
        let reserved = format!("SELECT CAST(SUM(reserved) AS SIGNED) {OF_BAG}");
        let issued = self.number_of(bag.id, &issued).await;
        (issued, self.number_of(bag.id, &reserved).await)
    }

    async fn round(&self, bag: &Bag) -> i64 {
        const ROUND: &str = "SELECT CAST(round AS SIGNED) FROM activity WHERE id = ID";
        self.number_of(bag.id, ROUND).await
    }

    /// Who holds each seat: (seat, user), by seat.
    async fn holders(&self, bag: &Bag) -> Vec<(u32, u64)> {
        let wins = self.wins(bag.id).await;
        let held = wins.iter().filter(|win| win.status == "won");
        held.map(|win| (win.seat, win.user_id)).collect()
    }

    /// The win that holds a seat.
    async fn holder(&self, bag: &Bag, seat: u32) -> Win {
        let wins = self.wins(bag.id).await;
        let holder = wins
            .into_iter()
            .find(|win| win.status == "won" && win.seat == seat);
        holder.expect("somebody holds the seat")
    }
}

/// Waits until all of `apis` tell these results.
async fn until_all_tell(apis: &[Api], bag: &Bag, expected: &[(u64, &str)]) {
    for api in apis {
        eventually("the results of the new round", async || {
            let results = expected.iter().map(|(user, _)| api.result(bag, *user));
            let results = join_all(results).await;
            let is_told = |(result, (_, word)): (&Value, &(u64, &str))| result["result"] == **word;
            if results.iter().zip(expected).all(is_told) {
                Ok(())
            } else {
                Err(results)
            }
        })
        .await;
    }
}
