//! Activities of all sizes around whole blocks, with rows straight in the table.

use serde_json::Value;

use super::verifiers::assert_verified;
use crate::harness::{Api, Bag, BagSpec, World};

const FIRST: u64 = 1_000_000;

/// Users of whom the first `count` take part, in no regular distance.
pub(super) fn user(number: u64) -> u64 {
    FIRST + number * 3 + number % 2
}

impl World {
    /// As many joined participations, as if they had been admitted; the pool in Redis knows none.
    pub(super) async fn insert_joined(&self, bag: &Bag, count: u64) {
        let rows: Vec<String> = (0..count)
            .map(|number| {
                format!(
                    "({}, {}, 'joined', NOW(3), 'test', 1, NOW(3))",
                    bag.id,
                    user(number)
                )
            })
            .collect();
        for rows in rows.chunks(500) {
            self.execute(&format!(
                "INSERT INTO participation (activity_id, user_id, status, accepted_at, \
                 request_id, revision, created_at) VALUES {}",
                rows.join(", ")
            ))
            .await;
        }
        if count > 0 {
            self.execute(&format!(
                "INSERT INTO pool_count (activity_id, stream_partition, shard, pooled, \
                 revision_sum) VALUES ({}, 0, 0, {count}, {count})",
                bag.id
            ))
            .await;
        }
    }
}

/// The entries of these users verify, at the indexes at which they stand.
pub(super) async fn check_entries(api: &Api, bag: &Bag, proof: &str, numbers: &[u64]) {
    for number in numbers {
        let entry = api.entry(bag, user(*number)).await;
        let shown: Value = serde_json::from_str(&entry).unwrap();
        assert_eq!(shown["entry"]["index"], *number, "{entry}");
        assert_verified((proof, Some(&entry)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_and_one_more_or_fewer_than_whole_blocks_are_proven() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let sizes = [0, 1, 1_023, 1_024, 1_025, 2_049, 3_072];
    let specs: Vec<BagSpec> = (1..)
        .zip(sizes)
        .map(|(room, _)| BagSpec {
            room,
            ..BagSpec::waiting()
        })
        .collect();
    let bags = api.open_bags(&specs).await;
    for (bag, count) in bags.iter().zip(sizes) {
        world.insert_joined(bag, count).await;
    }

    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;

    for (bag, count) in bags.iter().zip(sizes) {
        let proof = api.proof(bag).await;
        let shown: Value = serde_json::from_str(&proof).unwrap();
        assert_eq!(shown["entriesCount"], count);
        assert_eq!(
            shown["winners"].as_array().unwrap().len() as u64,
            count.min(3)
        );
        assert_verified((&proof, None));
        let asked: Vec<u64> = [0, 1, 511, 1_022, 1_023, 1_024, 2_047, 2_048, 3_071]
            .into_iter()
            .filter(|number| *number < count)
            .collect();
        check_entries(&api, bag, &proof, &asked).await;
        api.no_entry(bag, FIRST - 1).await;
        api.no_entry(bag, user(count) + 2).await;
        let blocks = "SELECT COUNT(*) FROM entries_node WHERE activity_id = ID AND node_level = 10";
        let blocks = world.number_of(bag.id, blocks).await;
        assert_eq!(blocks, i64::try_from(count.div_ceil(1_024)).unwrap());
    }

    process.stop().await;
    world.end().await;
}
