//! The messages of a wave: shuffled, doubled, in batches of any size, and the order in which each
//! partition handles what they say.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use luckybag::{
    candidate::partition_of,
    kernel::{Timestamp, UserId, format_timestamp},
};
use rand::{RngExt, rngs::StdRng, seq::SliceRandom};
use serde_json::{Value, json};

use super::{
    model::{Deed, Flaw, Join, Millis},
    plan::{BagPlan, PARTITIONS},
};
use crate::harness::Bag;

/// What a user did in which activity of the wave.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) bag: usize,
    pub(super) user: u64,
    pub(super) deed: Deed,
}

/// One message of the stream: items of one kind.
pub(super) type Message = Vec<Item>;

/// The messages of each partition, in their order.
pub(super) type Streams = BTreeMap<u16, Vec<Message>>;

/// Activities whose users are heard of in the same part of a partition: a transaction reads and
/// writes for each activity of its batch.
const CLUSTER: usize = 15;

/// Everything that the users do, shuffled; of items and of messages some come twice.
pub(super) fn shuffled(plans: &[BagPlan], rng: &mut StdRng) -> Streams {
    let mut streams = Streams::new();
    let numbered: Vec<(usize, &BagPlan)> = plans.iter().enumerate().collect();
    for cluster in numbered.chunks(CLUSTER) {
        for (partition, mut items) in items_of(cluster, rng) {
            items.shuffle(rng);
            let messages = messages_of(&items, rng);
            streams.entry(partition).or_default().extend(messages);
        }
    }
    for messages in streams.values_mut() {
        repeat_some(messages, rng);
    }
    streams
}

fn items_of(plans: &[(usize, &BagPlan)], rng: &mut StdRng) -> BTreeMap<u16, Vec<Item>> {
    let mut items: BTreeMap<u16, Vec<Item>> = BTreeMap::new();
    for (bag, plan) in plans {
        for user in &plan.users {
            let of_partition = items.entry(partition_of(UserId(user.user), PARTITIONS));
            let of_partition = of_partition.or_default();
            for deed in &user.deeds {
                let copies = if rng.random_range(0..10) == 0 { 2 } else { 1 };
                let item = Item {
                    bag: *bag,
                    user: user.user,
                    deed: deed.clone(),
                };
                of_partition.extend(std::iter::repeat_n(item, copies));
            }
        }
    }
    items
}

/// Puts one message in eight into the stream a second time, anywhere.
fn repeat_some(messages: &mut Vec<Message>, rng: &mut StdRng) {
    let doubled: Vec<Message> = messages
        .iter()
        .filter(|_| rng.random_range(0..8) == 0)
        .cloned()
        .collect();
    for message in doubled {
        let place = rng.random_range(0..=messages.len());
        messages.insert(place, message);
    }
}

fn messages_of(items: &[Item], rng: &mut StdRng) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut rest = items;
    while !rest.is_empty() {
        let size = rng.random_range(1..=60).min(rest.len());
        let (chunk, others) = rest.split_at(size);
        rest = others;
        let mut by_kind: BTreeMap<&str, Message> = BTreeMap::new();
        for item in chunk {
            by_kind
                .entry(kind(&item.deed))
                .or_default()
                .push(item.clone());
        }
        let mut of_chunk: Vec<Message> = by_kind.into_values().collect();
        of_chunk.shuffle(rng);
        messages.extend(of_chunk);
    }
    messages
}

fn kind(deed: &Deed) -> &'static str {
    match deed {
        Deed::Join(_) => "joins",
        Deed::Enter { .. } | Deed::Leave { .. } => "presence",
        Deed::Task { .. } => "tasks",
    }
}

/// The body of a message, whose items are of one kind; `draw_at` is 0 of their times.
pub(super) fn body_of(message: &[Item], bags: &[Bag], draw_at: Timestamp) -> Vec<u8> {
    let kind = message.first().map_or("joins", |item| kind(&item.deed));
    let list = if kind == "joins" { "joins" } else { "events" };
    let values: Vec<Value> = message
        .iter()
        .map(|item| value_of(item, &bags[item.bag], draw_at))
        .collect();
    json!({ "v": 1, "kind": kind, list: values })
        .to_string()
        .into_bytes()
}

fn value_of(item: &Item, bag: &Bag, draw_at: Timestamp) -> Value {
    let time = |ms: Millis| format_timestamp(draw_at + TimeDelta::milliseconds(ms));
    let presence = |kind, at| {
        json!({ "roomId": bag.room.to_string(), "userId": item.user.to_string(), "kind": kind,
            "occurredAt": time(at) })
    };
    match &item.deed {
        Deed::Join(join) => join_value(item.user, bag, join, &time(join.accepted_at)),
        Deed::Enter { at } => presence("enter", *at),
        Deed::Leave { at } => presence("leave", *at),
        Deed::Task { name, at } => json!({ "activityId": bag.id, "userId": item.user.to_string(),
            "taskId": name, "completedAt": time(*at) }),
    }
}

fn join_value(user: u64, bag: &Bag, join: &Join, accepted_at: &str) -> Value {
    let mut value = json!({
        "activityId": bag.id, "userId": user.to_string(), "completedTasks": join.finished,
        "acceptedAt": accepted_at, "requestId": format!("r-{user}"),
    });
    if let Some(device) = &join.device {
        value["deviceId"] = json!(device);
    }
    match join.flaw {
        Some(Flaw::NoTime) => value["acceptedAt"] = json!("soon"),
        Some(Flaw::LongDevice) => value["deviceId"] = json!("x".repeat(65)),
        Some(Flaw::TasksAreNoList) => value["completedTasks"] = json!("all of them"),
        None => (),
    }
    value
}
