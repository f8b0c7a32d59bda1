//! The pure rule that orders eligible participants and takes the first N.

use std::collections::BinaryHeap;

use super::Standing;

/// Keeps the best `capacity` of the standings it is shown, in memory bounded by `capacity`.
#[derive(Debug)]
pub struct BestOf {
    capacity: usize,
    /// The worst of the kept ones on top.
    kept: BinaryHeap<WorstFirst>,
    seen_count: u64,
}

#[derive(Debug)]
struct WorstFirst(Standing);

impl Ord for WorstFirst {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // `rank` puts the best first, so the worst is the greatest.
        self.0.rank(&other.0)
    }
}

impl PartialOrd for WorstFirst {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for WorstFirst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for WorstFirst {}

impl BestOf {
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            kept: BinaryHeap::with_capacity(capacity + 1),
            seen_count: 0,
        }
    }

    /// Considers one eligible participant; each may be shown once.
    pub fn push(&mut self, standing: Standing) {
        self.seen_count += 1;
        self.kept.push(WorstFirst(standing));
        if self.kept.len() > self.capacity {
            self.kept.pop();
        }
    }

    /// How many were shown.
    pub fn seen_count(&self) -> u64 {
        self.seen_count
    }

    /// The kept ones, best first.
    pub fn into_ranked(self) -> Vec<Standing> {
        self.kept
            .into_sorted_vec()
            .into_iter()
            .map(|worst| worst.0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{activity::Seed, kernel::UserId};

    proptest! {
        #[test]
        fn the_best_of_are_the_head_of_a_sort_of_everything(
            seed in any::<[u8; 32]>(),
            users in prop::collection::btree_set(1..10_000_u64, 0..200),
            capacity in 0..50_usize,
        ) {
            let seed = Seed::new(seed);
            let mut all: Vec<_> =
                users.iter().map(|user| Standing::of(&seed, UserId(*user))).collect();
            let mut best = BestOf::new(capacity);
            for standing in &all {
                best.push(*standing);
            }
            all.sort_by(Standing::rank);
            all.truncate(capacity);

            prop_assert_eq!(best.into_ranked(), all);
        }
    }
}
