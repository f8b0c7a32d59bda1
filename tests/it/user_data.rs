//! One user's data: all of it is shown, and erased without harm to anybody else.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fred::interfaces::{HashesInterface, KeysInterface, SetsInterface, SortedSetsInterface};
use luckybag::{
    activity::publication,
    candidate::entries::{self, Entries, EntryReader, EntryState},
    infra::redis::Shard,
    kernel::UserId,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::harness::{Bag, BagSpec, World, eventually};

impl World {
    async fn export(&self, user: u64) -> Value {
        let exported = self.operate(&format!("user export {user}"), &[]).await;
        serde_json::from_str(exported.printed()).expect("JSON")
    }

    async fn erase_whole(&self, user: u64) -> Value {
        let erased = self.operate(&format!("user erase {user}"), &[]).await;
        serde_json::from_str(erased.printed()).expect("JSON")
    }

    /// What is erased of a user, by table.
    async fn stored(&self, user: u64) -> Vec<(&'static str, i64)> {
        let mut stored = Vec::new();
        for table in [
            "participation",
            "presence",
            "task_completion",
            "device_claim",
        ] {
            let query = format!("SELECT COUNT(*) FROM {table} WHERE user_id = {user}");
            stored.push((table, self.number(&query).await));
        }
        let keys = format!("SELECT COUNT(*) FROM idempotency WHERE principal = {user}");
        stored.push(("idempotency", self.number(&keys).await));
        stored
    }

    /// Presence and a finished task, as if events had come.
    async fn give_events(&self, bag: &Bag, user: u64) {
        let id = bag.id;
        self.execute(&format!(
            "INSERT INTO presence (activity_id, user_id, last_leave_at) \
             VALUES ({id}, {user}, '2026-01-02 03:04:05.678')"
        ))
        .await;
        self.execute(&format!(
            "INSERT INTO task_completion (activity_id, user_id, task_id, completed_at) \
             VALUES ({id}, {user}, 'follow', '2026-01-02 03:04:05.678')"
        ))
        .await;
    }

    /// A key, as if the user had called with it.
    async fn give_key(&self, user: u64) {
        self.execute(&format!(
            "INSERT INTO idempotency \
             (principal, idempotency_key, request_hash, status, body, created_at) \
             VALUES ({user}, 'order 7', REPEAT('x', 32), 201, '{{}}', NOW(3))"
        ))
        .await;
    }

    /// Publishes the entries of a drawn activity, unless the service was faster.
    async fn publish_entries(&self, bag: &Bag) {
        let activity = self.activity(bag).await;
        let stop = CancellationToken::new();
        let built = entries::store_entries(&self.db, &activity, &stop).await;
        // A process may have been faster.
        let Some(built) = built.expect("MySQL answers") else {
            return;
        };
        publication::mark_published(&self.db, bag.id, &built.root, built.count)
            .await
            .expect("MySQL answers");
    }

    /// Where Redis still names a user, but for copies of win records.
    async fn traces_in_redis(&self, bag: &Bag, user: u64) -> Vec<String> {
        let keys = self.keys();
        let (id, user_id) = (bag.id, UserId(user));
        let mut traces = Vec::new();
        for key in [
            keys.user_state(id, user_id),
            keys.join_request(id, user_id),
            keys.join_done(id, user_id),
        ] {
            let found: i64 = self.redis.exists(&key).await.expect("Redis answers");
            traces.extend((found > 0).then_some(key));
        }
        for shard in Shard::all() {
            let (partakers, pool, revisions) = (
                keys.partake(id, shard),
                keys.candidate(id, shard),
                keys.revision(id, shard),
            );
            let member = user.to_string();
            let is_member: bool = self
                .redis
                .sismember(&partakers, &member)
                .await
                .expect("Redis answers");
            let score: Option<f64> = self
                .redis
                .zscore(&pool, &member)
                .await
                .expect("Redis answers");
            let revision: Option<u32> = self
                .redis
                .hget(&revisions, &member)
                .await
                .expect("Redis answers");
            traces.extend(is_member.then_some(partakers));
            traces.extend(score.map(|_| pool));
            traces.extend(revision.map(|_| revisions));
        }
        traces
    }
}

fn in_room(room: u64) -> BagSpec {
    BagSpec {
        room,
        extra: json!({ "oneEntryPerDevice": true, "cooldownSeconds": 0 }),
        ..BagSpec::waiting()
    }
}

/// Users 101 to 140 join, each from a device of its own.
async fn joined_by_forty(api: &crate::harness::Api, room: u64) -> Bag {
    let bag = api.open_bag(&in_room(room)).await;
    for user in 101..=140 {
        api.join_from(&bag, user, &format!("phone {user}")).await;
    }
    for user in 101..=140 {
        api.assert_settled(&bag, user, ("joined", None)).await;
    }
    bag
}

/// What an export says of a user who has something in every table.
fn check_export(bag: &Bag, data: &Value) {
    let id = bag.id.to_string();
    assert_eq!(data["userId"], "2");
    let participation = &data["participations"][0];
    for (field, value) in [
        ("activityId", json!(id)),
        ("status", json!("joined")),
        ("reason", Value::Null),
        ("deviceId", json!("phone")),
        ("isTrimmed", json!(false)),
        ("revision", json!(1)),
    ] {
        assert_eq!(participation[field], value, "{field}: {participation}");
    }
    for field in ["acceptedAt", "requestId", "createdAt"] {
        assert!(participation[field].is_string(), "{field}: {participation}");
    }
    let presence = json!([{ "activityId": id, "lastLeaveAt": "2026-01-02T03:04:05.678Z", "lastEnterAt": null }]);
    assert_eq!(data["presence"], presence);
    let tasks = json!([{ "activityId": id, "taskId": "follow", "completedAt": "2026-01-02T03:04:05.678Z" }]);
    assert_eq!(data["completedTasks"], tasks);
    let claims = json!([{ "activityId": id, "deviceId": "phone" }]);
    assert_eq!(data["deviceClaims"], claims);
    let denials = &data["denyEntries"];
    assert_eq!(denials[0]["activityId"], Value::Null, "{denials}");
    assert_eq!(denials[0]["reason"], "fraud", "{denials}");
    assert_eq!(denials[1]["activityId"], json!(id), "{denials}");
    assert_eq!(denials[1]["createdBy"], "1", "{denials}");
    let wins = &data["winRecords"];
    assert_eq!(wins[0]["activityId"], json!(id), "{wins}");
    assert_eq!(
        (&wins[0]["seat"], &wins[0]["status"]),
        (&json!(1), &json!("won"))
    );
    assert_eq!(data["hostedActivities"], json!([id]));
    let done: Vec<&Value> = data["audit"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|record| &record["action"])
        .collect();
    assert_eq!(
        done,
        ["activity.create", "activity.submit", "activity.open"]
    );
    assert_eq!(data["audit"][2]["activityId"], json!(id));
    let key = &data["idempotencyKeys"][0];
    assert_eq!(
        (&key["key"], &key["status"]),
        (&json!("order 7"), &json!(201))
    );
    assert!(key["createdAt"].is_string(), "{key}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_holds_everything_about_the_user_and_nothing_about_others() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    // User 2 is the host too.
    let bag = api.open_bag(&in_room(1)).await;
    api.join_from(&bag, 2, "phone").await;
    api.assert_settled(&bag, 2, ("joined", None)).await;
    api.join_from(&bag, 3, "phone").await;
    api.assert_settled(&bag, 3, ("rejected", Some("duplicateDevice")))
        .await;
    world.give_events(&bag, 2).await;
    world.give_key(2).await;
    for (path, reason) in [
        ("/v1/deny-list/2".to_owned(), "fraud"),
        (bag.path("/deny-list/2"), "rude"),
    ] {
        let reason = Some(json!({ "reason": reason }));
        api.put(&api.operator(), &path, reason).await.expect(200);
    }
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;

    check_export(&bag, &world.export(2).await);
    let other = world.export(3).await;
    assert_eq!(
        other["participations"][0]["reason"], "duplicateDevice",
        "{other}"
    );
    let nobody = world.export(4).await;
    for (other, filled) in [(&other, &["participations"][..]), (&nobody, &[])] {
        for (name, list) in other.as_object().expect("an object") {
            let is_filled = list.as_array().is_some_and(|list| !list.is_empty());
            assert_eq!(
                is_filled,
                filled.contains(&name.as_str()),
                "{name}: {other}"
            );
        }
    }
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_whom_an_activity_needs_is_not_erased_from_any() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let drawn = joined_by_forty(&api, 1).await;
    world.draw_soon(&[drawn]).await;
    world.all_drawn(&[drawn]).await;
    world.publish_entries(&drawn).await;
    let open = joined_by_forty(&api, 2).await;
    world.give_events(&open, 107).await;
    world.give_events(&open, 177).await;
    world.give_key(107).await;
    world.nothing_owed().await;
    process.stop().await;
    let stored = world.stored(107).await;
    assert!(stored.iter().all(|(_, rows)| *rows > 0), "{stored:?}");

    let not_published = "status = 'drawn', drawn_at = NOW(3), proof_published_at = NULL";
    for state in ["status = 'open'", "status = 'drawing'", not_published] {
        world
            .execute(&format!(
                "UPDATE activity SET {state} WHERE id = {}",
                open.id
            ))
            .await;
        // Whoever has only events may yet join.
        for user in [107, 177] {
            let refused = world.operate(&format!("user erase {user}"), &[]).await;
            let why = refused.complaint();
            assert!(why.contains(&open.id.to_string()), "{state}: {why}");
            assert!(!why.contains(&drawn.id.to_string()), "{state}: {why}");
        }
        assert_eq!(world.stored(107).await, stored, "{state}");
    }
    let mut traces = world.traces_in_redis(&drawn, 107).await;
    // The mark of the accepted join is set in the background, perhaps after the join was processed.
    let mark = world.keys().join_request(drawn.id, UserId(107));
    traces.retain(|key| *key != mark);
    assert_eq!(traces.len(), 5, "{traces:?}");
    assert_eq!(world.number("SELECT COUNT(*) FROM erased_leaf").await, 0);

    world.publish_entries(&open).await;
    let erased = world.erase_whole(107).await;
    assert_eq!(erased["removed"]["participations"], 2, "{erased}");
    world.end().await;
}

/// What opens the entries of the users of a drawn activity, each checked against the root.
async fn open_entries(world: &World, bag: &Bag) -> BTreeSet<u64> {
    let reader = EntryReader::new(world.db.clone(), Arc::new(Semaphore::new(4)));
    let Entries::Published(tree) = reader.entries(bag.id).await.expect("MySQL answers") else {
        panic!("the entries of {} are not published", bag.id);
    };
    let count = tree.published.entries_count;
    let mut open = BTreeSet::new();
    for user in 101..=140 {
        let entry = reader.entry_of(&tree, UserId(user)).await;
        let Some(entry) = entry.expect("MySQL answers") else {
            continue;
        };
        let leaf = entries::leaf_hash(bag.id, &entry.salt, UserId(user), EntryState::ELIGIBLE);
        let root = entries::tree_hash_of(entry.index, count, leaf, &entry.path);
        assert_eq!(root, Some(tree.hash), "the path of user {user}");
        open.insert(user);
    }
    open
}

/// Erases a user of two activities, of whom a leaf and one row more stay.
async fn check_erasure(world: &World, user: u64, stays: &str) {
    let erased = world.erase_whole(user).await;
    let removed = json!({
        "participations": 2, "presence": 1, "completedTasks": 1, "deviceClaims": 2,
        "denyEntries": 1, "idempotencyKeys": 1,
    });
    assert_eq!(erased["removed"], removed, "{erased}");
    let kept = erased["kept"].as_array().expect("a list").iter();
    let kept: BTreeSet<_> = kept
        .map(|kept| (kept["what"].as_str().expect("a word"), &kept["count"]))
        .map(|(what, count)| (what, count.as_u64()))
        .collect();
    assert_eq!(kept, [(stays, Some(1)), ("leafHashes", Some(1))].into());
    assert!(world.stored(user).await.iter().all(|(_, rows)| *rows == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_a_participation_during_its_erasure_does_not_bring_it_back() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = joined_by_forty(&api, 1).await;
    let path = bag.path("/cancel");
    api.post(&api.host_of(1), &path, None).await.expect(200);
    let slow = world
        .serve_with(&[("LUCKYBAG_PAUSE_AT", "participant.read")])
        .await;
    let mut at_slow = world.api(&slow).await;
    // Its answer comes after a whole command, however long that takes on a busy machine.
    at_slow.http = reqwest::Client::builder()
        .timeout(Duration::from_mins(2))
        .build()
        .expect("an HTTP client");
    let summary = world.keys().user_state(bag.id, UserId(107));
    let () = world.redis.del(&summary).await.expect("Redis answers");

    let (me, ()) = tokio::join!(at_slow.me(&bag, 107), async {
        slow.paused().await;
        world.erase_whole(107).await;
        slow.signal("CONT");
    });

    assert_eq!(me["participation"], "none", "{me}");
    assert_eq!(world.traces_in_redis(&bag, 107).await, [""; 0]);
    slow.stop().await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_user_leaves_no_trace_but_what_others_need() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = joined_by_forty(&api, 1).await;
    let cancelled = joined_by_forty(&api, 2).await;
    let path = cancelled.path("/cancel");
    api.post(&api.host_of(2), &path, None).await.expect(200);
    // After their joins: they are in, and stay in.
    let import = Some(json!({ "userIds": (101..=140).collect::<Vec<_>>() }));
    let path = bag.path("/deny-list/import");
    api.post(&api.operator(), &path, import).await.expect(200);
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.publish_entries(&bag).await;
    world.nothing_owed().await;
    let wins = world.wins(bag.id).await;
    let winner = wins[0].user_id;
    let loser = (101..=140)
        .find(|user| wins.iter().all(|win| win.user_id != *user))
        .expect("one who did not win");
    for user in [winner, loser] {
        world.give_events(&bag, user).await;
        world.give_key(user).await;
    }
    let platform = format!("/v1/deny-list/{loser}");
    api.put(&api.operator(), &platform, None).await.expect(200);
    assert_eq!(open_entries(&world, &bag).await.len(), 40);

    for (user, stays) in [(winner, "winRecords"), (loser, "denyEntries")] {
        check_erasure(&world, user, stays).await;
        for bag in [&bag, &cancelled] {
            assert_eq!(world.traces_in_redis(bag, user).await, [""; 0]);
        }
    }

    let left: BTreeSet<u64> = (101..=140)
        .filter(|user| ![winner, loser].contains(user))
        .collect();
    assert_eq!(open_entries(&world, &bag).await, left);
    let result = api.get(&api.viewer(winner), &bag.path("/result")).await;
    assert_eq!(result.expect(200)["result"], "won");
    let me = eventually("nobody to be known", async || {
        let me = api.me(&bag, loser).await;
        if me["participation"] == "none" {
            Ok(me)
        } else {
            Err(me)
        }
    })
    .await;
    assert_eq!(me.get("joinedAt"), None, "{me}");

    // Again there is nothing to remove, and nothing more that stays.
    let again = world.erase_whole(winner).await;
    assert!(
        again["removed"]
            .as_object()
            .is_some_and(|removed| removed.values().all(|rows| *rows == 0)),
        "{again}"
    );
    assert_eq!(again["kept"].as_array().map(Vec::len), Some(1), "{again}");
    let erasures = "SELECT COUNT(*) FROM audit WHERE action = 'user.erase' AND activity_id IS NULL";
    assert_eq!(world.number(erasures).await, 2);
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_erasure_that_was_cut_short_left_in_redis_goes_with_the_next() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = joined_by_forty(&api, 1).await;
    let running = joined_by_forty(&api, 2).await;
    api.post(&api.host_of(1), &bag.path("/cancel"), None)
        .await
        .expect(200);
    world.nothing_owed().await;
    // As if the process had died between the commit and Redis.
    for table in ["participation", "device_claim"] {
        world
            .execute(&format!("DELETE FROM {table} WHERE user_id = 107"))
            .await;
    }
    assert_ne!(world.traces_in_redis(&bag, 107).await, [""; 0]);

    let erased = world.erase_whole(107).await;

    assert_eq!(erased["removed"]["participations"], 0, "{erased}");
    assert_eq!(world.traces_in_redis(&bag, 107).await, [""; 0]);
    // What an activity that runs shows is not touched.
    assert_ne!(world.traces_in_redis(&running, 107).await, [""; 0]);
    process.stop().await;
    world.end().await;
}
