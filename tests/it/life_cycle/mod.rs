//! The life of activities, from the draft to the last outbox row.

mod review;
mod rooms;
mod scheduled;
mod stock;

use std::collections::HashMap;

use fred::interfaces::{HashesInterface, KeysInterface};
use luckybag::kernel::{ActivityId, PrizeId, RoomId};
use serde_json::{Value, json};

use crate::harness::{Answer, Api, Events, World, eventually};

impl Api {
    /// Takes a step as an operator.
    async fn step(&self, id: ActivityId, verb: &str) -> Answer {
        let path = format!("/v1/activities/{id}/{verb}");
        let body = (verb == "reject").then(|| json!({ "reason": "Prizes are missing" }));
        self.post(&self.operator(), &path, body).await
    }

    async fn detail(&self, id: ActivityId) -> Value {
        let path = format!("/v1/activities/{id}");
        self.get(&self.operator(), &path).await.expect(200)
    }

    /// The detail once `field` is `value`.
    async fn detail_with(&self, id: ActivityId, field: &str, value: &str) -> Value {
        eventually("the activity to have changed", async || {
            let detail = self.detail(id).await;
            if detail[field] == value {
                Ok(detail)
            } else {
                Err(detail)
            }
        })
        .await
    }

    /// Adds a prize to the library.
    async fn library_prize(&self, name: &str, stock_total: Option<u64>) -> PrizeId {
        let prize = json!({ "name": name, "kind": "physical", "stockTotal": stock_total });
        let prize = self.post(&self.operator(), "/v1/prizes", Some(prize)).await;
        serde_json::from_value(prize.expect(201)["id"].clone()).expect("an id")
    }

    /// Who did what to an activity, in order.
    async fn audited(&self, id: ActivityId) -> Vec<(String, String)> {
        let path = format!("/v1/activities/{id}/audit?limit=200");
        let records = self.get(&self.operator(), &path).await.expect(200);
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let records = records["items"].as_array().expect("a list").iter();
        records
            .map(|record| (text(&record["actor"]), text(&record["action"])))
            .collect()
    }
}

impl World {
    /// What downstream readers see of an activity.
    async fn hot_detail(&self, id: ActivityId) -> Value {
        let text: Option<String> = self
            .redis
            .get(self.keys().activity(id))
            .await
            .expect("Redis");
        text.map_or(Value::Null, |text| {
            serde_json::from_str(&text).expect("JSON")
        })
    }

    async fn hot_prizes(&self, id: ActivityId) -> HashMap<String, String> {
        self.redis
            .hgetall(self.keys().prize(id))
            .await
            .expect("Redis")
    }

    /// Waits until the room's hash says of each of the activities whether it is open.
    async fn expect_room(&self, room: u64, activities: &[(ActivityId, &str)]) {
        let expected: HashMap<String, String> = activities
            .iter()
            .map(|(id, is_open)| (id.to_string(), (*is_open).to_owned()))
            .collect();
        let key = self.keys().room(RoomId(room));
        eventually("the room's hash", async || {
            let hash: HashMap<String, String> = self.redis.hgetall(&key).await.expect("Redis");
            if hash == expected { Ok(()) } else { Err(hash) }
        })
        .await;
    }

    /// Nothing that was promised is left undone.
    async fn expect_empty_outbox(&self) {
        eventually("the outbox to be empty", async || {
            match self.number("SELECT COUNT(*) FROM outbox").await {
                0 => Ok(()),
                left => Err(left),
            }
        })
        .await;
    }

    /// Reserved and issued pieces of a prize.
    async fn stock(&self, prize: PrizeId) -> (i64, i64) {
        let column = |name| format!("SELECT CAST({name} AS SIGNED) FROM prize WHERE id = {prize}");
        let reserved = self.number(&column("reserved")).await;
        (reserved, self.number(&column("issued")).await)
    }
}

/// Collects events until one with the id `last` comes.
async fn events_until(events: &mut Events, last: &str) -> Vec<Value> {
    let mut heard = Vec::new();
    loop {
        let event = events.next().await;
        assert_eq!(event["specversion"], "1.0", "{event}");
        let is_last = event["id"] == last;
        heard.push(event);
        if is_last {
            return heard;
        }
    }
}

/// The event with this id; repeats of one are the same.
fn event_with<'a>(events: &'a [Value], id: &str) -> &'a Value {
    let mut found = events.iter().filter(|event| event["id"] == id);
    let first = found.next();
    assert!(found.all(|repeat| Some(repeat) == first), "{events:?}");
    first.unwrap_or_else(|| panic!("no event {id} in {events:?}"))
}
