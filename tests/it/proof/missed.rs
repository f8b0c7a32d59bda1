//! Whoever draws may die before the proof is published: others publish it, once.

use serde_json::Value;

use super::{staying, verifiers::assert_verified};
use crate::harness::{Bag, BagSpec, Events, World, eventually, metric, metrics_page};

const AUDITED: &str =
    "SELECT COUNT(*) FROM audit WHERE activity_id = ID AND action = 'proof.publish'";

/// A process dies at `step`; two others that were there all the time go on.
async fn others_publish_what_died_at(step: &str) {
    let world = World::new().await;
    // The victim reads the stream: its drains end although the others are stopped.
    let victim = world.serve_reader(&[("LUCKYBAG_DIE_AT", step)]).await;
    let others = [world.serve().await, world.serve().await];
    let amqp = world.amqp().await;
    let exchange = world.topology().events_exchange();
    let mut published = amqp.listen(&exchange, "proof.published").await;
    let api = world.api(&victim).await;
    let bags = api
        .open_bags(&[1, 2, 3].map(|room| BagSpec {
            room,
            ..staying(room)
        }))
        .await;
    for bag in &bags {
        api.join_all(bag, super::users_of(bag, 4)).await;
        for user in super::users_of(bag, 4) {
            api.settled(bag, user).await;
        }
    }
    for other in &others {
        // They must not be the first to see that the draws are due.
        other.signal("STOP");
    }
    world.draw_soon(&bags).await;
    let status = victim.exit_status().await;
    assert!(!status.success(), "it did not die at {step}");
    for other in &others {
        other.signal("CONT");
    }

    let api = world.api(&others[0]).await;
    for bag in &bags {
        let proof = api.proof(bag).await;
        let shown: Value = serde_json::from_str(&proof).unwrap();
        assert_eq!(shown["entriesCount"], 4);
        assert_verified((&proof, None));
        assert_eq!(world.number_of(bag.id, AUDITED).await, 1);
        let other = world.api(&others[1]).await;
        assert_eq!(other.proof(bag).await, proof, "both show the same");
    }
    assert_told_once(&world, &bags, &mut published).await;

    amqp.close().await;
    for other in others {
        other.stop().await;
    }
    world.end().await;
}

/// Each proof was told, and every repeat is the same.
async fn assert_told_once(world: &World, bags: &[Bag], published: &mut Events) {
    // What the victim had claimed of the outbox has to wait; the proofs are not among it.
    eventually("the proofs to be told", async || {
        const OWED: &str = "SELECT COUNT(*) FROM outbox WHERE dedupe_key LIKE 'event:proof:%'";
        match world.number(OWED).await {
            0 => Ok(()),
            owed => Err(owed),
        }
    })
    .await;
    let told = published.until_now().await;
    for bag in bags {
        let id = bag.id.to_string();
        let mut of_bag = told
            .iter()
            .filter(|event| event["data"]["activityId"] == id);
        let first = of_bag.next().expect("it was told");
        assert!(of_bag.all(|repeat| repeat == first), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_before_it_publishes_is_helped_out() {
    others_publish_what_died_at("draw.committed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_with_the_nodes_stored_is_helped_out() {
    others_publish_what_died_at("proof.stored").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_in_the_publishing_transaction_is_helped_out() {
    others_publish_what_died_at("proof.in_transaction").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_tree_that_somebody_left_is_made_whole() {
    let world = World::new().await;
    let victim = world
        .serve_with(&[("LUCKYBAG_DIE_AT", "proof.stored")])
        .await;
    let api = world.api(&victim).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    world.insert_joined(&bag, 2_500).await;
    world.draw_soon(&[bag]).await;
    assert!(!victim.exit_status().await.success());
    world
        .execute("DELETE FROM entries_node WHERE node_index = 1")
        .await;
    world
        .execute("UPDATE entries_node SET hash = REPEAT('x', 32) WHERE node_index = 0")
        .await;

    let process = world.serve().await;
    let api = world.api(&process).await;
    let proof = api.proof(&bag).await;

    assert_verified((&proof, None));
    super::sizes::check_entries(&api, &bag, &proof, &[0, 1_500, 2_499]).await;
    eventually("nothing to be missed", async || {
        const MISSED: &str = "SELECT COUNT(*) FROM activity WHERE proof_published_at IS NULL";
        match world.number(MISSED).await {
            0 => Ok(()),
            missed => Err(missed),
        }
    })
    .await;
    process.stop().await;
    world.end().await;
}

impl World {
    /// As many copies of a drawn bag, drawn an hour before it, whose proof nobody can publish.
    async fn copy_without_key(&self, bag: &Bag, count: u64) {
        const COPIED: &str = "kind, room_id, host_id, title, winner_count, tasks, presence_rule, \
             one_entry_per_device, shard_by, cooldown_secs, trim_after, trim_floor, status, draw_at, \
             seed, commitment, rules, rules_hash, joined_count, round, created_at, updated_at";

        for number in 1..=count {
            self.execute(&format!(
                "INSERT INTO activity (id, drawn_at, {COPIED}) \
                 SELECT id + {number}, drawn_at - INTERVAL 1 HOUR, {COPIED} FROM activity \
                 WHERE id = {}",
                bag.id
            ))
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn proofs_that_cannot_be_published_keep_no_other_from_it() {
    let world = World::new().await;
    let victim = world
        .serve_with(&[("LUCKYBAG_DIE_AT", "draw.committed")])
        .await;
    let api = world.api(&victim).await;
    let bag = api.open_bag(&staying(1)).await;
    api.join_all(&bag, super::users_of(&bag, 4)).await;
    world.draw_soon(&[bag]).await;
    assert!(!victim.exit_status().await.success());
    world.copy_without_key(&bag, 40).await;

    let process = world.serve().await;
    let api = world.api(&process).await;
    let proof = api.proof(&bag).await;

    assert_verified((&proof, None));
    eventually("the others to be counted", async || {
        let page = metrics_page(&process.url().await).await;
        match metric(&page, "luckybag_proofs_unpublished") {
            Some(40.0) => Ok(()),
            counted => Err(counted),
        }
    })
    .await;
    process.stop().await;
    world.end().await;
}
