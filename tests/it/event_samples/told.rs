//! Whole bags on real servers, and everything that was told of them.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, FixedOffset};
use lapin::message::Delivery;
use luckybag::infra::outbox::EventKind;
use serde_json::{Value, json};

use super::{Page, sample};
use crate::harness::{Amqp, Api, Bag, BagSpec, Events, World, completion, presence};

/// Two kinds of prizes, one with a picture; a task; leaving suspends.
fn demanding_bag() -> BagSpec {
    BagSpec {
        extra: json!({
            "presenceRule": "pause",
            "tasks": [{ "taskId": "follow", "title": "Follow the host" }],
            "prizes": [
                { "name": "Phone", "kind": "physical", "quantity": 1, "image": "https://img.example/1" },
                { "name": "Coupon", "kind": "virtual", "quantity": 2 },
            ],
        }),
        ..BagSpec::waiting()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_is_told_as_the_page_and_the_samples_say() {
    let world = World::new().await;
    let process = world.serve_with(&[("JOIN__REPORT_ACCEPTED", "true")]).await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let mut events = amqp.listen(&world.topology().events_exchange(), "#").await;

    let started = world.now().await;
    let [opened, draft] = cancel_bags(&api).await;
    let drawn = play_demanding_bag(&world, &api).await;
    let empty = draw_empty_bag(&world, &api).await;
    let rooms = [
        (opened.clone(), 8002),
        (draft.clone(), 8001),
        (drawn.id.to_string(), 8001),
        (empty.id.to_string(), 8003),
    ];
    let rooms = BTreeMap::from(rooms);
    let told = collect(&world, &amqp, &mut events, &rooms).await;

    let page = Page::read();
    let while_it_lasted = started.timestamp_millis()..=world.now().await.timestamp_millis();
    for delivery in &told {
        assert_is_as_documented(&page, delivery);
        let at = time_of(delivery);
        assert!(while_it_lasted.contains(&at.timestamp_millis()), "{at}");
    }
    let kinds: BTreeSet<String> = told.iter().map(kind_of).collect();
    let all = EventKind::ALL.map(|kind| kind.as_str().to_owned());
    assert_eq!(kinds, BTreeSet::from(all), "not every kind was told");
    for kind in &kinds {
        page.fields(kind)
            .assert_told_by(&data_of(&told, kind), kind);
    }
    assert_rooms_are_right(&told, &rooms);
    assert_cancelled_as_it_was(&told, [&opened, &draft]);
    assert_drawn_as_it_was(&told, [&drawn, &empty]);
    assert_ids_tell_events_apart(&told);

    process.stop().await;
    amqp.close().await;
    world.end().await;
}

/// One that was opened, with a reason, and a draft, without; answers their ids.
async fn cancel_bags(api: &Api) -> [String; 2] {
    let opened = api
        .open_bag(&BagSpec {
            room: 8002,
            ..BagSpec::waiting()
        })
        .await;
    let draft = api.draft(&BagSpec::waiting()).await;
    let (operator, reason) = (api.operator(), json!({ "reason": "the stream ended" }));
    let path = opened.path("/cancel");
    api.post(&operator, &path, Some(reason)).await.expect(200);
    let path = format!("/v1/activities/{draft}/cancel");
    api.post(&operator, &path, None).await.expect(200);
    [opened.id, draft].map(|id| id.to_string())
}

/// Ten who finished the task, one who left, one who did nothing, one who may not take part; a draw
/// and a redraw.
async fn play_demanding_bag(world: &World, api: &Api) -> Bag {
    let bag = api.open_bag(&demanding_bag()).await;
    let denied = bag.path("/deny-list/13");
    api.put(&api.operator(), &denied, None).await.expect(200);
    api.join_all(&bag, 1..=13).await;
    for user in 1..=13 {
        api.settled(&bag, user).await;
    }
    let now = world.now().await;
    let finished: Vec<Value> = (1..=11)
        .map(|user| completion(&bag, user, "follow", now))
        .collect();
    api.report("tasks", &finished).await;
    api.report("presence", &[presence(&bag, 11, "leave", now)])
        .await;
    api.becomes(&bag, 11, "absent").await;
    for user in 1..=10 {
        api.becomes(&bag, user, "eligible").await;
    }
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.nothing_owed().await;
    let revoked = world.wins(bag.id).await[0].id;
    api.redraw(&bag, &[revoked]).await.expect(200);
    bag
}

/// Nobody takes part, so there is no lowest score that won.
async fn draw_empty_bag(world: &World, api: &Api) -> Bag {
    let bag = api
        .open_bag(&BagSpec {
            room: 8003,
            ..BagSpec::waiting()
        })
        .await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    bag
}

/// Everything that was told until nothing is owed any more.
async fn collect(
    world: &World,
    amqp: &Amqp,
    events: &mut Events,
    rooms: &BTreeMap<String, u64>,
) -> Vec<Delivery> {
    proofs_published(world).await;
    world.nothing_owed().await;
    // What was confirmed before this message is in front of it.
    let exchange = world.topology().events_exchange();
    amqp.send(&exchange, "test.end", b"{}").await;
    let mut told = Vec::new();
    loop {
        let delivery = events.next_delivery().await;
        if delivery.routing_key.as_str() == "test.end" {
            break;
        }
        told.push(delivery);
    }
    let about: BTreeSet<String> = told
        .iter()
        .map(|delivery| envelope(delivery)["data"]["activityId"].clone())
        .filter_map(|id| id.as_str().map(str::to_owned))
        .collect();
    assert_eq!(about, rooms.keys().cloned().collect());
    told
}

/// What the events of a kind tell.
fn data_of(told: &[Delivery], kind: &str) -> Vec<Value> {
    let of_kind = told.iter().filter(|delivery| kind_of(delivery) == kind);
    of_kind
        .map(|delivery| envelope(delivery)["data"].clone())
        .collect()
}

fn assert_rooms_are_right(told: &[Delivery], rooms: &BTreeMap<String, u64>) {
    for delivery in told {
        let data = envelope(delivery)["data"].clone();
        if let Some(room) = data.get("roomId") {
            let id = data["activityId"].as_str().expect("an id");
            assert_eq!(*room, rooms[id].to_string(), "{data}");
        }
    }
}

fn assert_cancelled_as_it_was(told: &[Delivery], [opened, draft]: [&String; 2]) {
    let cancelled = data_of(told, "activity.cancelled");
    let cancelled: BTreeSet<_> = cancelled
        .iter()
        .map(|data| {
            let text = |name: &str| data[name].as_str().map(str::to_owned);
            let was_opened = data["wasOpened"].as_bool();
            (text("activityId"), text("reason"), was_opened)
        })
        .collect();
    let reason = Some("the stream ended".to_owned());
    let expected = [
        (Some(opened.clone()), reason, Some(true)),
        (Some(draft.clone()), None, Some(false)),
    ];
    assert_eq!(cancelled, expected.into());
}

/// Twelve had joined the one, ten of them could win; of the other there is nothing to tell.
fn assert_drawn_as_it_was(told: &[Delivery], [bag, empty]: [&Bag; 2]) {
    for (bag, counts) in [(bag, [3, 12, 10]), (empty, [0, 0, 0])] {
        let drawn = data_of(told, "activity.drawn");
        let is_it = |data: &&Value| data["activityId"] == bag.id.to_string();
        let data = drawn.iter().find(is_it).expect("its draw");
        let names = ["winnerCount", "joinedCount", "eligibleCount"];
        assert_eq!(names.map(|name| data[name].as_i64()), counts.map(Some));
        assert_eq!(data["cutoffScore"].is_null(), counts[0] == 0, "{data}");
    }
}

async fn proofs_published(world: &World) {
    crate::harness::eventually("the proofs", async || {
        let pending = "SELECT COUNT(*) FROM activity \
             WHERE status = 'drawn' AND proof_published_at IS NULL";
        match world.number(pending).await {
            0 => Ok(()),
            left => Err(left),
        }
    })
    .await;
}

fn envelope(delivery: &Delivery) -> Value {
    serde_json::from_slice(&delivery.data).expect("JSON")
}

fn time_of(delivery: &Delivery) -> DateTime<FixedOffset> {
    let event = envelope(delivery);
    let time = event["time"].as_str().expect("a time");
    DateTime::parse_from_rfc3339(time).expect("a time")
}

fn kind_of(delivery: &Delivery) -> String {
    delivery.routing_key.to_string()
}

fn assert_is_as_documented(page: &Page, delivery: &Delivery) {
    let (told, name) = (envelope(delivery), kind_of(delivery));
    page.envelope().assert_is(&told, &name);
    page.fields(&name).assert_is(&told["data"], &name);
    let stored = sample(&name);
    for attribute in [
        "specversion",
        "source",
        "type",
        "datacontenttype",
        "schemaversion",
    ] {
        assert_eq!(told[attribute], stored[attribute], "{attribute} of {name}");
    }
    let id_begins = |id: &Value| {
        id.as_str()
            .and_then(|id| Some(id.split_once(':')?.0.to_owned()))
    };
    assert_eq!(id_begins(&told["id"]), id_begins(&stored["id"]), "{told}");

    let properties = &delivery.properties;
    let text = |value: &Option<lapin::types::ShortString>| value.as_ref().map(ToString::to_string);
    assert_eq!(text(properties.kind()).as_deref(), Some(name.as_str()));
    assert_eq!(
        text(properties.message_id()).as_deref(),
        told["id"].as_str()
    );
    assert_eq!(
        text(properties.content_type()).as_deref(),
        Some("application/json")
    );
    assert_eq!(*properties.delivery_mode(), Some(2), "not persistent");
    let headers = properties
        .headers()
        .as_ref()
        .map_or(0, |headers| headers.inner().len());
    assert_eq!(headers, 0, "{properties:?}");
}

/// The same id means the same event about the same people.
fn assert_ids_tell_events_apart(told: &[Delivery]) {
    let mut seen: BTreeMap<String, (String, Vec<Value>)> = BTreeMap::new();
    for delivery in told {
        let event = envelope(delivery);
        let id = event["id"].as_str().expect("an id").to_owned();
        let data = &event["data"];
        let users = data["users"].as_array().into_iter().flatten();
        let about = ["activityId", "winRecordId", "userId", "userIds"]
            .map(|name| data[name].clone())
            .into_iter()
            .chain(users.map(|user| user["userId"].clone()));
        let what = (kind_of(delivery), about.collect());
        let first = seen.entry(id.clone()).or_insert_with(|| what.clone());
        assert_eq!(*first, what, "{id} stands for two events");
    }
}
