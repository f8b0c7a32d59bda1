//! What keeps a join out of the pool, through the whole service up to the draw.

use std::collections::BTreeSet;

use fred::interfaces::SortedSetsInterface;
use luckybag::{
    candidate::{JoinRequest, StreamMessage, partition_of},
    infra::{broker::Broker, redis::Shard},
    kernel::{Timestamp, UserId, format_timestamp},
};
use serde_json::{Value, json};

use chrono::TimeDelta;

use crate::harness::{Bag, BagSpec, World, eventually};

const JOINED: (&str, Option<&str>) = ("joined", None);
const BLOCKED: (&str, Option<&str>) = ("rejected", Some("blocked"));
const COOLDOWN: (&str, Option<&str>) = ("rejected", Some("cooldown"));
const DUPLICATE_DEVICE: (&str, Option<&str>) = ("rejected", Some("duplicateDevice"));

fn waiting(room: u64, extra: Value) -> BagSpec {
    BagSpec {
        room,
        extra,
        ..BagSpec::waiting()
    }
}

impl World {
    /// Who won, as committed.
    async fn winners(&self, bag: &Bag) -> BTreeSet<u64> {
        let wins = self.wins(bag.id).await;
        wins.into_iter().map(|win| win.user_id).collect()
    }

    /// A win in some activity of the past.
    async fn won_elsewhere(&self, user: u64, at: Timestamp, status: &str) {
        let at = format_timestamp(at);
        self.execute(&format!(
            "INSERT INTO win_record (id, activity_id, user_id, seat, round, prize_id, prize_rank, \
             score, status, fulfilment, drawn_at) VALUES ({user}, 5, {user}, {user}, 1, 1, 1, 0.5, \
             '{status}', 'pending', '{}')",
            at.trim_end_matches('Z').replace('T', " ")
        ))
        .await;
    }
}

/// Sends joins past the door, as if a process had accepted them at `accepted_at`.
async fn slip_in(broker: &Broker, bag: &Bag, users: &[u64], accepted_at: Timestamp) {
    for user in users.iter().copied() {
        let join = JoinRequest {
            activity_id: bag.id,
            user_id: UserId(user),
            device_id: None,
            completed_tasks: vec![],
            accepted_at,
            request_id: format!("request-{user}"),
        };
        let partition = partition_of(UserId(user), broker.topology().partitions());
        let joins = StreamMessage::Joins { joins: vec![join] };
        let message = joins.into_outgoing(partition, format!("{}-{user}", bag.id));
        broker.publish(message).await.expect("a confirm");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cool_down_is_each_activitys_own_and_exact_to_the_millisecond() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (broker, stop) = world.broker().await;
    let usual = api.open_bag(&waiting(1, json!({}))).await;
    let off = api
        .open_bag(&waiting(2, json!({ "cooldownSeconds": 0 })))
        .await;
    let minute = api
        .open_bag(&waiting(3, json!({ "cooldownSeconds": 60 })))
        .await;
    for (bag, seconds) in [(&usual, 10_800), (&off, 0), (&minute, 60)] {
        let detail = api.get(&api.operator(), &bag.path("")).await.expect(200);
        assert_eq!(detail["cooldownSeconds"], seconds, "{detail}");
    }

    let joined_at = world.now().await;
    let before = |period: TimeDelta| joined_at - period;
    let (millisecond, hours) = (TimeDelta::milliseconds(1), TimeDelta::hours(3));
    for (user, won_at, status) in [
        (11, joined_at, "won"),
        (12, before(hours - millisecond), "won"),
        (13, before(hours), "won"),
        (14, before(-millisecond), "won"),
        (15, before(millisecond), "revoked"),
        (16, before(TimeDelta::seconds(60) - millisecond), "won"),
        (17, before(TimeDelta::seconds(60)), "won"),
    ] {
        world.won_elsewhere(user, won_at, status).await;
    }
    let users: Vec<u64> = (11..=17).collect();
    for bag in [&usual, &off, &minute] {
        slip_in(&broker, bag, &users, joined_at).await;
    }

    for (bag, kept_out) in [
        (&usual, &[11, 12, 16, 17][..]),
        (&off, &[]),
        (&minute, &[11, 16]),
    ] {
        for user in &users {
            let expected = if kept_out.contains(user) {
                COOLDOWN
            } else {
                JOINED
            };
            api.assert_settled(bag, *user, expected).await;
        }
    }
    stop.cancel();
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_won_waits_for_the_next_bag_until_the_win_is_revoked() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let first = api.open_bag(&waiting(1, json!({}))).await;
    api.join_all(&first, [101]).await;
    api.assert_settled(&first, 101, JOINED).await;
    world.draw_soon(&[first]).await;
    world.all_drawn(&[first]).await;
    assert_eq!(world.winners(&first).await, [101].into());

    let specs = [
        waiting(1, json!({})),
        waiting(2, json!({ "cooldownSeconds": 0 })),
    ];
    let bags = api.open_bags(&specs).await;
    for (bag, verdict) in bags.iter().zip([COOLDOWN, JOINED]) {
        api.join_all(bag, [101]).await;
        api.assert_settled(bag, 101, verdict).await;
    }
    world
        .execute("UPDATE win_record SET status = 'revoked', revoked_at = NOW(3)")
        .await;
    let third = api.open_bag(&waiting(3, json!({}))).await;
    api.join_all(&third, [101]).await;
    api.assert_settled(&third, 101, JOINED).await;

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_user_is_kept_out_and_one_who_is_in_already_may_win() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let operator = api.operator();
    let bag = api.open_bag(&waiting(1, json!({}))).await;
    let other = api.open_bag(&waiting(2, json!({}))).await;
    api.join_all(&bag, [1_001]).await;
    api.assert_settled(&bag, 1_001, JOINED).await;

    let imported = json!({ "userIds": ["1001", "1002"] });
    let import = "/v1/deny-list/import";
    api.post(&operator, import, Some(imported))
        .await
        .expect(200);
    for user in [1_001, 1_003] {
        let path = bag.path(&format!("/deny-list/{user}"));
        api.put(&api.host_of(1), &path, None).await.expect(200);
    }
    api.join_all(&bag, 1_001..=1_004).await;
    api.join_all(&other, 1_001..=1_003).await;

    for (bag, user, verdict) in [
        (&bag, 1_001, JOINED),
        (&bag, 1_002, BLOCKED),
        (&bag, 1_003, BLOCKED),
        (&bag, 1_004, JOINED),
        (&other, 1_001, BLOCKED),
        (&other, 1_002, BLOCKED),
        (&other, 1_003, JOINED),
    ] {
        api.assert_settled(bag, user, verdict).await;
    }
    // Whoever is taken off the list was rejected all the same, and may join the next one.
    let path = bag.path("/deny-list/1003");
    api.delete(&api.host_of(1), &path).await.expect(204);
    api.join_all(&bag, [1_003]).await;
    world.draw_soon(&[bag, other]).await;
    world.all_drawn(&[bag, other]).await;
    api.assert_settled(&bag, 1_003, BLOCKED).await;

    // Three seats: everybody wins who may.
    assert_eq!(world.winners(&bag).await, [1_001, 1_004].into());
    assert_eq!(world.winners(&other).await, [1_003].into());
    world.assert_drawn_once(&bag).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_has_one_entry_in_the_draw_and_another_one_in_the_next_activity() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let rule = json!({ "oneEntryPerDevice": true });
    let bag = api.open_bag(&waiting(1, rule.clone())).await;
    let next = api.open_bag(&waiting(2, rule)).await;
    let without_rule = api.open_bag(&waiting(3, json!({}))).await;

    let without = api.try_join(&bag, 101, None).await;
    assert_eq!(without.faulty_fields(), ["deviceId"]);
    without.expect_problem(422, "invalid_request");
    api.join_from(&bag, 101, "phone").await;
    api.assert_settled(&bag, 101, JOINED).await;
    api.join_from(&bag, 102, "phone").await;
    api.assert_settled(&bag, 102, DUPLICATE_DEVICE).await;
    api.join_from(&next, 102, "phone").await;
    api.assert_settled(&next, 102, JOINED).await;
    for user in [101, 102] {
        api.join_from(&without_rule, user, "phone").await;
        api.assert_settled(&without_rule, user, JOINED).await;
    }

    let bags = [bag, next, without_rule];
    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;
    for (bag, expected) in bags.iter().zip([&[101][..], &[102], &[101, 102]]) {
        let expected: BTreeSet<u64> = expected.iter().copied().collect();
        assert_eq!(world.winners(bag).await, expected);
    }
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_whose_low_bits_do_not_vary_fill_all_shards_where_they_are_mixed() {
    const USERS: usize = 400;
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let specs = [
        waiting(1, json!({ "shardBy": "mixed" })),
        waiting(2, json!({ "shardBy": "lowBits" })),
    ];
    let bags = api.open_bags(&specs).await;
    for bag in &bags {
        api.join_all(bag, (1..=USERS as u64).map(|user| user << 22))
            .await;
        eventually("the pool", async || {
            world.check_pool(bag).await?;
            match world.participants(bag, "joined").await.len() {
                USERS => Ok(()),
                joined => Err(format!("{joined} joined")),
            }
        })
        .await;
    }

    let mut filled = Vec::new();
    for bag in &bags {
        let mut sizes = Vec::new();
        for shard in Shard::all() {
            let key = world.keys().candidate(bag.id, shard);
            let size: usize = world.redis.zcard(key).await.expect("Redis answers");
            sizes.push(size);
        }
        filled.push(sizes);
    }
    // 25 each on average; where they are not mixed all of them are in the first.
    assert!(
        filled[0].iter().all(|size| (8..=50).contains(size)),
        "{filled:?}"
    );
    assert_eq!(filled[1][0], USERS, "{filled:?}");

    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;
    for bag in &bags {
        world.assert_drawn_once(bag).await;
    }
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trimming_begins_behind_its_number_of_participants_and_is_not_told() {
    let world = World::new().await;
    let process = world
        .serve_with(&[
            ("CANDIDATE__TRIM_AFTER", "50"),
            ("CANDIDATE__TRIM_FLOOR", "0.999999"),
        ])
        .await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&waiting(1, json!({}))).await;
    let trimmed = "SELECT COUNT(*) FROM participation WHERE is_trimmed";

    // The batch in which a number is reached is not trimmed yet, so the 51st comes alone.
    for users in [1..=50, 51..=51] {
        api.join_all(&bag, users.clone()).await;
        for user in users {
            api.assert_settled(&bag, user, JOINED).await;
        }
    }
    assert_eq!(world.number(trimmed).await, 0);
    api.join_all(&bag, 52..=90).await;
    for user in 52..=90 {
        let me = api.settled(&bag, user).await;
        assert_eq!(me["eligibility"], "eligible", "{me}");
    }
    assert_eq!(world.number(trimmed).await, 39);

    eventually("the pool", async || world.check_pool(&bag).await).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.assert_drawn_once(&bag).await;
    process.stop().await;
    world.end().await;
}
