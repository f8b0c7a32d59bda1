//! The end of what is stored about people: what goes when, what stays, and what is told then.

use std::collections::BTreeMap;

use fred::interfaces::KeysInterface;
use luckybag::{
    infra::outbox::Outbox, kernel::UserId, settings::RetentionSettings, sweeper::Retention,
};

use crate::harness::{Api, Bag, BagSpec, World, eventually, metric, metrics_page};

/// Tables with rows about an activity's participants; all of them have a column `activity_id`.
const PARTICIPANT_TABLES: [&str; 7] = [
    "participation",
    "presence",
    "task_completion",
    "device_claim",
    "entries_node",
    "erased_leaf",
    "notify_progress",
];

type Counts = BTreeMap<&'static str, i64>;

impl World {
    /// How many rows each table has about an activity.
    async fn rows_about(&self, bag: &Bag) -> Counts {
        let mut counts = Counts::new();
        for table in PARTICIPANT_TABLES.into_iter().chain([
            "win_record",
            "pool_count",
            "activity_prize",
            "audit",
        ]) {
            let query = format!("SELECT COUNT(*) FROM {table} WHERE activity_id = ID");
            counts.insert(table, self.number_of(bag.id, &query).await);
        }
        let denied = "SELECT COUNT(*) FROM deny_list WHERE scope = ID";
        counts.insert("deny_list", self.number_of(bag.id, denied).await);
        let removals = "SELECT COUNT(*) FROM removal WHERE activity_id = ID";
        counts.insert("removal", self.number_of(bag.id, removals).await);
        counts
    }

    /// Something about participants in every table that a draw without events leaves empty.
    async fn fill(&self, bag: &Bag) {
        for statement in [
            "INSERT INTO presence (activity_id, user_id, last_leave_at) VALUES (ID, 5, NOW(3))",
            "INSERT INTO task_completion (activity_id, user_id, task_id, completed_at) \
             VALUES (ID, 5, 'follow', NOW(3))",
            "INSERT INTO device_claim (activity_id, device_id, user_id) VALUES (ID, 'phone', 5)",
            // On a level that no tree reaches.
            "INSERT INTO entries_node (activity_id, node_level, node_index, hash) \
             VALUES (ID, 60, 0, REPEAT('x', 32))",
            "INSERT INTO erased_leaf (activity_id, position, hash) \
             VALUES (ID, 999999, REPEAT('x', 32))",
            "INSERT IGNORE INTO notify_progress \
             (activity_id, part, first_user_id, last_user_id, is_done, not_before) \
             VALUES (ID, 0, 1, 2, TRUE, NOW(3))",
        ] {
            self.execute(&statement.replace("ID", &bag.id.to_string()))
                .await;
        }
    }

    async fn change(&self, bag: &Bag, assignments: &str) {
        self.execute(&format!(
            "UPDATE activity SET {assignments} WHERE id = {}",
            bag.id
        ))
        .await;
    }

    fn retention(&self, settings: RetentionSettings) -> Retention {
        Retention {
            db: self.db.clone(),
            outbox: Outbox::default(),
            settings,
        }
    }

    /// Lets the moment pass in which everybody hears of a removal.
    async fn age_removals(&self) {
        self.execute("UPDATE removal SET begun_at = begun_at - INTERVAL 5 SECOND")
            .await;
    }

    /// Removes everything that is past its life; answers how many rows that were.
    async fn expire(&self, settings: RetentionSettings) -> usize {
        let retention = self.retention(settings);
        let mut removed = 0;
        loop {
            let more = retention.remove_expired().await.expect("MySQL answers");
            removed += more;
            self.age_removals().await;
            let begun = self.number("SELECT COUNT(*) FROM removal").await;
            if more == 0 && begun == 0 {
                return removed;
            }
        }
    }
}

const PUBLISHED: &str = "proof_published_at = COALESCE(proof_published_at, NOW(3)), \
     entries_root = REPEAT('r', 32), entries_count = 21";

fn drawn_days_ago(days: u32) -> String {
    format!("drawn_at = NOW(3) - INTERVAL {days} DAY")
}

fn keep_for(participations_days: u32, win_records_days: u32, audit_days: u32) -> RetentionSettings {
    RetentionSettings {
        participations_days,
        win_records_days,
        audit_days,
    }
}

fn in_room(room: u64) -> BagSpec {
    BagSpec {
        room,
        ..BagSpec::waiting()
    }
}

/// A bag that 20 have joined and one was kept out of.
async fn joined_bag(api: &Api, room: u64) -> Bag {
    let bag = api.open_bag(&in_room(room)).await;
    let denied = bag.path("/deny-list/21");
    api.put(&api.operator(), &denied, None).await.expect(200);
    api.join_all(&bag, 1..=21).await;
    for user in 1..=21 {
        api.settled(&bag, user).await;
    }
    bag
}

/// Bags at every stage: drawn, drawn, drawn and not published, cancelled, open.
async fn bags_of_all_kinds(world: &World, api: &Api) -> [Bag; 5] {
    let [old, young, unpublished] = [
        joined_bag(api, 1).await,
        joined_bag(api, 2).await,
        joined_bag(api, 3).await,
    ];
    world.draw_soon(&[old, young, unpublished]).await;
    world.all_drawn(&[old, young, unpublished]).await;
    let cancelled = joined_bag(api, 4).await;
    api.post(&api.host_of(4), &cancelled.path("/cancel"), None)
        .await
        .expect(200);
    let running = joined_bag(api, 5).await;
    world.nothing_owed().await;
    [old, young, unpublished, cancelled, running]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_past_its_life_goes_and_everything_else_stays() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bags = bags_of_all_kinds(&world, &api).await;
    let [old, young, unpublished, cancelled, running] = &bags;
    process.stop().await;
    for bag in &bags {
        world.fill(bag).await;
    }
    let was_long_ago = drawn_days_ago(181);
    world
        .change(old, &format!("{PUBLISHED}, {was_long_ago}"))
        .await;
    let is_recent = drawn_days_ago(179);
    world
        .change(young, &format!("{PUBLISHED}, {is_recent}"))
        .await;
    world
        .change(
            unpublished,
            &format!("proof_published_at = NULL, {was_long_ago}"),
        )
        .await;
    world
        .change(cancelled, "cancelled_at = NOW(3) - INTERVAL 181 DAY")
        .await;
    world
        .change(running, "created_at = NOW(3) - INTERVAL 900 DAY")
        .await;
    let mut expected = Vec::new();
    for bag in &bags {
        expected.push(world.rows_about(bag).await);
    }
    assert!(
        expected[0]
            .iter()
            .all(|(table, rows)| *table == "removal" || *rows > 0),
        "{expected:?}"
    );

    assert_eq!(world.expire(keep_for(0, 0, 0)).await, 0);
    let removed = world.expire(keep_for(180, 730, 180)).await;

    let mut gone = 0;
    for place in [0, 3] {
        for table in PARTICIPANT_TABLES.iter().chain(&["deny_list"]) {
            gone += expected[place].insert(table, 0).expect("counted");
        }
    }
    for (bag, expected) in bags.iter().zip(&expected) {
        assert_eq!(world.rows_about(bag).await, *expected);
    }
    assert_eq!(i64::try_from(removed), Ok(gone));
    assert_eq!(world.number("SELECT COUNT(*) FROM activity").await, 5);
    assert_eq!(world.expire(keep_for(180, 730, 180)).await, 0);
    world.end().await;
}

async fn expect_no_proof(api: &Api, bag: &Bag, viewer: &str) {
    for path in ["/proof", "/proof/me"] {
        api.get(viewer, &bag.path(path))
            .await
            .expect_problem(410, "proof_expired");
    }
}

/// Waits until the service has published the proof.
async fn published(api: &Api, bag: &Bag, viewer: &str) {
    eventually("the proof", async || {
        let proof = api.get(viewer, &bag.path("/proof/me")).await;
        if proof.status.as_u16() == 200 {
            Ok(())
        } else {
            Err(proof)
        }
    })
    .await;
}

/// What is left of rows that are being removed is no result, also where the removal is not known yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_has_not_heard_of_a_removal_tells_nobody_that_there_was_nothing() {
    let world = World::new().await;
    let drawing = world.serve().await;
    let api = world.api(&drawing).await;
    let bag = joined_bag(&api, 1).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.nothing_owed().await;
    let user = world.wins(bag.id).await[0].user_id;
    published(&api, &bag, &api.viewer(user)).await;
    drawing.stop().await;
    let late = world
        .serve_with(&[("ACTIVITY__DETAIL_MEMORY_MS", "60000")])
        .await;
    let api = world.api(&late).await;
    api.get(&api.viewer(user), &bag.path("")).await.expect(200);

    let now = "participants_removed_at = NOW(3), wins_removed_at = NOW(3)";
    world.change(&bag, now).await;
    for table in ["win_record", "participation"] {
        let removed = format!("DELETE FROM {table} WHERE activity_id = {}", bag.id);
        world.execute(&removed).await;
    }
    let keys = world.keys();
    for key in [keys.win_list(bag.id), keys.user_state(bag.id, UserId(user))] {
        let () = world.redis.del(key).await.expect("removed");
    }

    for (path, code) in [
        ("/result", "result_expired"),
        ("/winners", "result_expired"),
        ("/me", "participation_expired"),
    ] {
        let answer = api.get(&api.viewer(user), &bag.path(path)).await;
        answer.expect_problem(410, code);
    }
    late.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_is_gone_nothing_is_told_and_what_is_kept_longer_is_told_on() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = joined_bag(&api, 1).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.nothing_owed().await;
    let wins = world.wins(bag.id).await;
    let winner = api.viewer(wins[0].user_id);
    let redrawn = api.redraw(&bag, &[wins[2].id]).await.expect(200);
    // So that it is in the memory of the process.
    published(&api, &bag, &winner).await;
    world.change(&bag, &drawn_days_ago(181)).await;

    // The process does it by itself, and its own copies follow.
    eventually("the participants to be gone", async || {
        let me = api.get(&winner, &bag.path("/me")).await;
        let left = world.rows_about(&bag).await;
        if me.status.as_u16() == 410 && left["participation"] == 0 && left["removal"] == 0 {
            me.expect_problem(410, "participation_expired");
            Ok(())
        } else {
            Err((me, left))
        }
    })
    .await;
    let result = api.get(&winner, &bag.path("/result")).await.expect(200);
    assert_eq!(result["result"], "won", "{result}");
    assert_eq!(api.winners(&bag).await.len(), 3);
    // What was done before is answered as before; what is new is refused.
    let again = api.redraw(&bag, &[wins[2].id]).await;
    assert_eq!(again.expect(200), redrawn);
    let refused = api.redraw(&bag, &[wins[0].id]).await;
    refused.expect_problem(410, "participants_expired");
    let stats = api.get(&api.operator(), &bag.path("/stats")).await;
    stats.expect_problem(410, "stats_expired");
    expect_no_proof(&api, &bag, &winner).await;
    let page = metrics_page(&api.url).await;
    let series = r#"luckybag_rows_expired_total{table="participation"}"#;
    assert_eq!(metric(&page, series), Some(21.0), "{page}");

    world.change(&bag, &drawn_days_ago(731)).await;
    eventually("the results to be gone", async || {
        let result = api.get(&winner, &bag.path("/result")).await;
        let left = world.rows_about(&bag).await;
        if result.status.as_u16() == 410 && left["win_record"] == 0 && left["removal"] == 0 {
            result.expect_problem(410, "result_expired");
            Ok(())
        } else {
            Err((result, left))
        }
    })
    .await;
    api.get(&winner, &bag.path("/winners"))
        .await
        .expect_problem(410, "result_expired");
    let refused = api.redraw(&bag, &[wins[2].id]).await;
    refused.expect_problem(410, "result_expired");
    expect_no_proof(&api, &bag, &winner).await;
    let detail = api.get(&winner, &bag.path("")).await.expect(200);
    assert_eq!(detail["status"], "drawn", "{detail}");
    let prizes = world.number("SELECT COUNT(*) FROM prize").await;
    assert_eq!(prizes, 1);

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deny_list_of_a_rejected_activity_has_the_life_of_the_others() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let id = api.draft(&in_room(1)).await;
    let path = format!("/v1/activities/{id}/deny-list/5");
    api.put(&api.operator(), &path, None).await.expect(200);
    process.stop().await;
    let denied = "SELECT COUNT(*) FROM deny_list";
    for (state, days, left) in [
        ("draft", 900, 1),
        ("rejected", 179, 1),
        ("rejected", 181, 0),
    ] {
        world
            .execute(&format!(
                "UPDATE activity SET status = '{state}', \
                 updated_at = NOW(3) - INTERVAL {days} DAY"
            ))
            .await;

        world.expire(keep_for(180, 730, 0)).await;

        assert_eq!(world.number(denied).await, left, "{state}, {days} days");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redraw_while_wins_are_being_removed_lets_nobody_win_twice() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = joined_bag(&api, 1).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    let wins = world.wins(bag.id).await;
    // Between two steps of a removal: the participants are there, the first winner is forgotten.
    world.change(&bag, "wins_removed_at = NOW(3)").await;
    world
        .execute(&format!("DELETE FROM win_record WHERE id = {}", wins[0].id))
        .await;

    let refused = api.redraw(&bag, &[wins[1].id]).await;

    refused.expect_problem(410, "result_expired");
    assert_eq!(world.wins(bag.id).await, wins[1..]);
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_what_is_kept_as_long_as_its_activity_is_young() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    api.put(&api.operator(), "/v1/deny-list/5", None)
        .await
        .expect(200);
    let bags = bags_of_all_kinds(&world, &api).await;
    let [old, young, unpublished, cancelled, running] = &bags;
    let draft = api.draft(&in_room(6)).await;
    process.stop().await;
    world.change(old, &drawn_days_ago(31)).await;
    world.change(young, &drawn_days_ago(29)).await;
    world
        .change(cancelled, "cancelled_at = NOW(3) - INTERVAL 31 DAY")
        .await;
    world
        .execute(
            "UPDATE audit SET created_at = NOW(3) - INTERVAL 40 DAY WHERE action <> 'activity.draw'",
        )
        .await;
    let kept: i64 = world
        .number(&format!(
            "SELECT COUNT(*) FROM audit WHERE activity_id IN ({}, {}, {}, {draft}) \
             OR (activity_id = {} AND action = 'activity.draw')",
            young.id, unpublished.id, running.id, old.id
        ))
        .await;
    let all = world.number("SELECT COUNT(*) FROM audit").await;

    assert_eq!(world.expire(keep_for(0, 0, 41)).await, 0);
    let removed = world.expire(keep_for(0, 0, 30)).await;

    assert_eq!(world.number("SELECT COUNT(*) FROM audit").await, kept);
    assert_eq!(i64::try_from(removed), Ok(all - kept));
    let of_draft = format!("SELECT COUNT(*) FROM audit WHERE activity_id = {draft}");
    world
        .execute("UPDATE activity SET updated_at = NOW(3) - INTERVAL 31 DAY")
        .await;
    world.expire(keep_for(0, 0, 30)).await;
    assert_eq!(world.number(&of_draft).await, 0, "a draft that was left");
    let of_running = format!(
        "SELECT COUNT(*) FROM audit WHERE activity_id = {}",
        running.id
    );
    assert_eq!(world.number(&of_running).await, 4);
    world.end().await;
}

/// A drawn activity with so many participations that they go in several steps.
async fn crowded(world: &World, participations: u64) -> Bag {
    let process = world.serve_with(&[("SWEEPER__ENABLED", "false")]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&in_room(1)).await;
    process.stop().await;
    let users: Vec<u64> = (1..=participations).collect();
    for users in users.chunks(500) {
        let rows: Vec<String> = users
            .iter()
            .map(|user| {
                let id = bag.id;
                format!("({id}, {user}, 'joined', FALSE, NOW(3), 'r', 1, NOW(3))")
            })
            .collect();
        world
            .execute(&format!(
                "INSERT INTO participation (activity_id, user_id, status, is_trimmed, \
                 accepted_at, request_id, revision, created_at) VALUES {}",
                rows.join(", ")
            ))
            .await;
    }
    let drawn = drawn_days_ago(200);
    world
        .change(&bag, &format!("status = 'drawn', {PUBLISHED}, {drawn}"))
        .await;
    bag
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_goes_on_where_a_dead_process_stopped() {
    let world = World::new().await;
    let bag = crowded(&world, 2_500).await;

    // Each dies behind one step: the beginning, and a thousand rows.
    for left in [2_500, 1_500] {
        let victim = world.spawn(&[("LUCKYBAG_DIE_AT", "retention.committed")]);
        assert!(!victim.exit_status().await.success());
        let counts = world.rows_about(&bag).await;
        assert_eq!((counts["participation"], counts["removal"]), (left, 1));
    }
    let process = world.serve().await;
    eventually("the rest to go", async || {
        let counts = world.rows_about(&bag).await;
        let left = counts["participation"] + counts["removal"];
        if left == 0 { Ok(()) } else { Err(counts) }
    })
    .await;

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_goes_before_everybody_has_heard_of_the_removal() {
    let world = World::new().await;
    let bag = crowded(&world, 10).await;
    let retention = world.retention(keep_for(180, 730, 0));
    let sweep = async || retention.remove_expired().await.expect("MySQL answers");

    for sweeper in ["the one that begins it", "another one at once"] {
        // However long the first one took on a busy machine, the other one comes at once.
        world.execute("UPDATE removal SET begun_at = NOW(3)").await;
        assert_eq!(sweep().await, 0, "{sweeper}");
        let counts = world.rows_about(&bag).await;
        let left = (counts["participation"], counts["removal"]);
        assert_eq!(left, (10, 1), "{sweeper}");
    }
    world.age_removals().await;
    assert_eq!(sweep().await, 10);
    let counts = world.rows_about(&bag).await;
    assert_eq!((counts["participation"], counts["removal"]), (0, 0));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_remove_at_once_remove_each_row_once() {
    let world = World::new().await;
    crowded(&world, 3_000).await;
    let settings = keep_for(180, 730, 0);

    let both = tokio::join!(
        world.expire(settings.clone()),
        world.expire(settings.clone())
    );
    // Whoever found the other one at work has nothing left to do.
    let rest = world.expire(settings).await;

    assert_eq!(both.0 + both.1 + rest, 3_000);
    assert_eq!(world.number("SELECT COUNT(*) FROM participation").await, 0);
    assert_eq!(world.number("SELECT COUNT(*) FROM removal").await, 0);
    world.end().await;
}
