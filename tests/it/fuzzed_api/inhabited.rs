//! Activities in every state, with prizes, winners and people on deny lists.

use luckybag::{http::Role, kernel::RoomId};
use serde_json::json;

use crate::harness::{Api, Bag, BagSpec, HOST, World, eventually};

/// Rooms with an activity that runs, and rooms where one was drawn.
const OPEN_ROOMS: [u64; 3] = [8001, 8002, 8003];
const DRAWN_ROOMS: [u64; 2] = [8004, 8005];

/// The ids of what there is.
pub(super) struct Inhabitants {
    pub(super) activities: Vec<String>,
    pub(super) rooms: Vec<String>,
    pub(super) users: Vec<String>,
    pub(super) wins: Vec<String>,
    pub(super) prizes: Vec<String>,
}

/// A token of the host of all these rooms.
pub(super) fn host(api: &Api) -> String {
    let rooms: Vec<RoomId> = rooms().map(RoomId).collect();
    api.token(HOST, Role::Host, &rooms)
}

fn rooms() -> impl Iterator<Item = u64> {
    OPEN_ROOMS.into_iter().chain(DRAWN_ROOMS)
}

fn spec(room: u64) -> BagSpec {
    BagSpec {
        room,
        extra: json!({ "presenceRule": "pause", "tasks": [{ "taskId": "follow", "title": "Follow" }] }),
        ..BagSpec::waiting()
    }
}

impl Inhabitants {
    pub(super) async fn settle(world: &World, api: &Api) -> Self {
        let prizes = library(api).await;
        let drawn = drawn_bags(world, api).await;
        let open = api.open_bags(&OPEN_ROOMS.map(spec)).await;
        // Those that have the most to show come first.
        let running = drawn.iter().chain(&open).map(|bag| bag.id.to_string());
        let mut activities: Vec<String> = running.collect();
        for bag in &open {
            api.join_all(bag, 1..=3).await;
            let denied = bag.path("/deny-list/9");
            api.put(&api.operator(), &denied, None).await.expect(200);
        }
        let mut wins = Vec::new();
        for bag in &drawn {
            wins.extend(
                world
                    .wins(bag.id)
                    .await
                    .iter()
                    .map(|win| win.id.to_string()),
            );
        }
        for room in [8001, 8002] {
            activities.push(api.draft(&spec(room)).await.to_string());
            activities.push(api.ready(&spec(room)).await.to_string());
        }
        Self {
            activities,
            rooms: rooms().map(|room| room.to_string()).collect(),
            users: (1..=9).map(|user: u64| user.to_string()).collect(),
            wins,
            prizes,
        }
    }

    /// The values of a list in TOML.
    pub(super) fn list(ids: &[String]) -> String {
        let quoted: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
        quoted.join(", ")
    }
}

async fn library(api: &Api) -> Vec<String> {
    let mut ids = Vec::new();
    for stock in [json!({ "stockTotal": 1_000 }), json!({})] {
        let mut prize = json!({ "name": "Mug", "kind": "physical" });
        prize
            .as_object_mut()
            .expect("an object")
            .extend(stock.as_object().expect("an object").clone());
        let made = api.post(&api.operator(), "/v1/prizes", Some(prize)).await;
        let id = made.expect(201)["id"].clone();
        ids.push(id.as_str().expect("an id").to_owned());
    }
    ids
}

/// Each with a redraw, and a proof.
async fn drawn_bags(world: &World, api: &Api) -> Vec<Bag> {
    let specs = DRAWN_ROOMS.map(|room| BagSpec {
        room,
        ..BagSpec::waiting()
    });
    let drawn = api.open_bags(&specs).await;
    for bag in &drawn {
        api.join_all(bag, 1..=6).await;
    }
    world.draw_soon(&drawn).await;
    world.all_drawn(&drawn).await;
    for bag in &drawn {
        let win = world.wins(bag.id).await[0].id;
        api.redraw(bag, &[win]).await.expect(200);
    }
    eventually("the proofs", async || {
        let pending = "SELECT COUNT(*) FROM activity \
             WHERE status = 'drawn' AND proof_published_at IS NULL";
        match world.number(pending).await {
            0 => Ok(()),
            left => Err(left),
        }
    })
    .await;
    drawn
}
