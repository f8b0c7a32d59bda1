//! Erased participations: their neighbours notice nothing, and they themselves are gone.

use std::sync::Arc;

use luckybag::{
    activity,
    candidate::{
        self, Erasure,
        entries::{Entries, EntryReader, OpenEntry, forget_entries, leaf_hash},
    },
    kernel::{ActivityId, UserId},
};
use sea_orm::TransactionTrait;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{sizes, staying, users_of, verifiers::assert_verified};
use crate::harness::{BagSpec, World, eventually};

impl World {
    /// Erases a user from one activity; the leaves that were kept, `None` when it is not possible now.
    async fn erase(&self, id: ActivityId, user: u64) -> Option<u64> {
        let tx = self.db.begin().await.expect("a transaction");
        let activity = activity::find_for_update(&tx, id).await;
        let activity = activity.expect("MySQL answers").expect("an activity");
        let erasure = candidate::erase_user(&tx, &activity, UserId(user)).await;
        match erasure.expect("MySQL answers") {
            Erasure::Erased { leaves_kept, .. } => {
                tx.commit().await.expect("committed");
                Some(leaves_kept)
            }
            Erasure::NotNow => None,
        }
    }

    /// Leaves what the erasure of many users leaves, none of them the first of a block.
    async fn erase_many(&self, id: ActivityId, users: &[u64]) {
        let reader = EntryReader::new(self.db.clone(), Arc::new(Semaphore::new(1)));
        let read = reader.entries(id).await.expect("MySQL answers");
        let Entries::Published(tree) = read else {
            panic!("{read:?}")
        };
        let mut leaves = Vec::new();
        for user in users.iter().map(|user| UserId(*user)) {
            let entry = reader.entry_of(&tree, user).await.expect("MySQL answers");
            let OpenEntry {
                index, salt, state, ..
            } = entry.expect("an entry");
            let leaf = hex::encode(leaf_hash(id, &salt, user, state));
            leaves.push(format!("({id}, {index}, UNHEX('{leaf}'))"));
        }
        let users: Vec<String> = users.iter().map(u64::to_string).collect();
        for statement in [
            format!(
                "INSERT INTO erased_leaf (activity_id, position, hash) VALUES {}",
                leaves.join(", ")
            ),
            format!(
                "DELETE FROM participation WHERE activity_id = {id} AND user_id IN ({})",
                users.join(", ")
            ),
        ] {
            self.execute(&statement).await;
        }
    }

    /// Whether the stored tree names any of these users.
    async fn assert_unnamed(&self, gone: &[u64]) {
        let gone: Vec<String> = gone.iter().map(u64::to_string).collect();
        let named = format!(
            "SELECT COUNT(*) FROM entries_node WHERE first_user_id IN ({})",
            gone.join(", ")
        );
        assert_eq!(self.number(&named).await, 0, "an erased user is named");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_participation_keeps_the_paths_of_its_neighbours() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    world.insert_joined(&bag, 1_030).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    let proof = api.proof(&bag).await;
    let users: Vec<u64> = (0..1_030).map(sizes::user).collect();
    let wins = world.wins(bag.id).await;
    let winners: Vec<u64> = wins.iter().map(|win| win.user_id).collect();

    // The first of both blocks, the last of all, most of the second block, and the winners.
    let gone: Vec<u64> = [0, 1, 500, 1_023, 1_024, 1_025, 1_026, 1_027, 1_029]
        .map(|number: usize| users[number])
        .into_iter()
        .chain(winners.iter().copied())
        .collect();
    for user in &gone {
        let kept = world.erase(bag.id, *user).await;
        let again = world.erase(bag.id, *user).await;
        assert!(kept.is_some() && again == Some(0), "{kept:?} {again:?}");
    }
    world.assert_unnamed(&gone).await;

    // Whoever has read nothing yet, and whoever shows the proof for the first time.
    let reader = world.serve().await;
    let reader_api = world.api(&reader).await;
    assert_eq!(reader_api.proof(&bag).await, proof);
    for (number, user) in (0_u64..).zip(&users) {
        let is_near = [2, 3, 499, 501, 1_022, 1_028].contains(&number);
        if is_near && !gone.contains(user) {
            let entry = reader_api.entry(&bag, *user).await;
            let shown: Value = serde_json::from_str(&entry).unwrap();
            assert_eq!(shown["entry"]["index"], number);
            assert_verified((&proof, Some(&entry)));
        }
    }
    for user in &gone {
        reader_api.no_entry(&bag, *user).await;
    }

    reader.stop().await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_users_of_one_block_can_be_erased_at_once() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    world.insert_joined(&bag, 40).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    let proof = api.proof(&bag).await;
    let won: Vec<u64> = world
        .wins(bag.id)
        .await
        .iter()
        .map(|win| win.user_id)
        .collect();

    let erasing = (0..4).map(|number| world.erase(bag.id, sizes::user(number)));
    let kept = futures_util::future::join_all(erasing).await;

    assert_eq!(kept, [Some(1); 4]);
    let reader = world.serve().await;
    let reader_api = world.api(&reader).await;
    assert_eq!(reader_api.proof(&bag).await, proof, "{won:?}");
    sizes::check_entries(&reader_api, &bag, &proof, &[4, 20, 39]).await;

    reader.stop().await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_erased_before_the_proof_and_everything_can_go_after_it() {
    let world = World::new().await;
    let process = world
        .serve_with(&[("LUCKYBAG_DIE_AT", "draw.committed")])
        .await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&staying(8001)).await;
    let users = users_of(&bag, 4);
    api.join_all(&bag, users.iter().copied()).await;
    for user in &users {
        api.settled(&bag, *user).await;
    }
    let (joined, late, stranger) = (users[0], 50, 51);
    world
        .insert_participation(&bag, late, "late", "'closed'")
        .await;

    for user in [joined, late, stranger] {
        assert_eq!(world.erase(bag.id, user).await, None, "it is open");
    }
    world.draw_soon(&[bag]).await;
    assert!(!process.exit_status().await.success());
    for user in [joined, late, stranger] {
        assert_eq!(world.erase(bag.id, user).await, None, "no proof yet");
    }

    let process = world.serve().await;
    let api = world.api(&process).await;
    api.proof(&bag).await;
    assert_eq!(world.erase(bag.id, joined).await, Some(1));
    assert_eq!(world.erase(bag.id, late).await, Some(0));
    assert_eq!(world.erase(bag.id, stranger).await, Some(0));
    process.stop().await;
    // Retention, in small steps.
    let mut steps = 0;
    while forget_entries(&world.db, bag.id, 1).await.expect("removed") > 0 {
        steps += 1;
    }
    assert_eq!(steps, 2, "a node and a leaf");
    let process = world.serve().await;
    let api = world.api(&process).await;
    for path in ["/proof", "/proof/me"] {
        let expired = api.get(&api.viewer(users[1]), &bag.path(path)).await;
        expired.expect_problem(410, "proof_expired");
    }
    assert_eq!(world.erase(bag.id, users[1]).await, Some(0));

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_user_behind_an_emptied_block_is_forgotten_too() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    world.insert_joined(&bag, 1_030).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    let proof = api.proof(&bag).await;

    // The whole first block, its first user last, and then those with which the second one begins.
    let many: Vec<u64> = (1..1_022).map(sizes::user).collect();
    world.erase_many(bag.id, &many).await;
    let last = [1_022, 1_023, 0, 1_024, 1_025].map(sizes::user);
    for user in last {
        assert_eq!(world.erase(bag.id, user).await, Some(1), "{user}");
    }
    let gone = [&many[..], &last].concat();

    world.assert_unnamed(&gone).await;
    let reader = world.serve().await;
    let reader_api = world.api(&reader).await;
    assert_eq!(reader_api.proof(&bag).await, proof);
    sizes::check_entries(&reader_api, &bag, &proof, &[1_026, 1_029]).await;
    for number in [0, 500, 1_023, 1_024, 1_025] {
        reader_api.no_entry(&bag, sizes::user(number)).await;
    }

    reader.stop().await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_publishes_too_slowly_changes_nothing_after_an_erasure() {
    let world = World::new().await;
    let slow = world
        .serve_with(&[
            ("LUCKYBAG_PAUSE_AT", "proof.page"),
            // Its connections are gone when it wakes, and a busy machine takes time for new ones.
            ("MYSQL__ACQUIRE_TIMEOUT_MS", "60000"),
        ])
        .await;
    let api = world.api(&slow).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    world.insert_joined(&bag, 2_500).await;
    world.draw_soon(&[bag]).await;
    slow.paused().await;

    let fast = world.serve().await;
    let proof = world.api(&fast).await.proof(&bag).await;
    for number in [1_500, 2_100] {
        let command = format!("user erase {}", sizes::user(number));
        world.operate(&command, &[]).await.printed();
    }
    slow.signal("CONT");
    eventually("the slow one to see that it is too late", async || {
        let lines = slow.log_lines();
        let words = "somebody else has published the proof";
        let said = lines.iter().any(|line| line.contains(words));
        said.then_some(()).ok_or_else(|| slow.log_tail())
    })
    .await;

    let reader = world.serve().await;
    let reader_api = world.api(&reader).await;
    assert_eq!(reader_api.proof(&bag).await, proof);
    assert_verified((&proof, None));
    sizes::check_entries(&reader_api, &bag, &proof, &[0, 1_499, 1_501, 2_101, 2_499]).await;

    for process in [reader, fast, slow] {
        process.stop().await;
    }
    world.end().await;
}
