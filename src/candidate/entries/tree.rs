//! The Merkle tree of RFC 6962 over leaf hashes. Pure.
//!
//! Level 0 is the leaves. The node of level `l` with index `i` stands over the leaves from
//! `i << l` on; where a level has an odd number of nodes, the last one also stands on the next.

use sha2::{Digest, Sha256};

use crate::kernel::ActivityId;

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// The level of the lowest nodes that are stored.
pub(super) const BLOCK_LEVEL: u8 = 10;

/// Leaves under one of them.
pub(super) const BLOCK_LEN: u64 = 1 << BLOCK_LEVEL;

const NODE: u8 = 1;
const ROOT_DOMAIN: &[u8] = b"luckybag/entries/v1";

/// SHA-256("luckybag/entries/v1" ‖ activity id ‖ number of entries ‖ tree hash), both numbers as
/// u64 big-endian.
pub fn entries_root(activity_id: ActivityId, count: u64, tree: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(ROOT_DOMAIN);
    hasher.update(activity_id.0.to_be_bytes());
    hasher.update(count.to_be_bytes());
    hasher.update(tree);
    hasher.finalize().into()
}

/// The tree hash of no leaves.
pub fn empty_tree() -> Hash {
    Sha256::digest([]).into()
}

fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update([NODE]);
    hasher.update(left);
    hasher.update(right);
    hasher.finalize().into()
}

/// The hash of the tree of `count` leaves to which a leaf's path leads; `None` when the path is too
/// long or too short for a leaf of this index.
///
/// A path names the leaf's sibling, then that of their parent, and so on up to the root.
pub fn tree_hash_of(index: u64, count: u64, leaf: Hash, path: &[Hash]) -> Option<Hash> {
    if index >= count {
        return None;
    }
    let mut siblings = path.iter();
    let mut node = leaf;
    for (position, has_sibling) in way_up(index, count) {
        if has_sibling {
            let sibling = siblings.next()?;
            node = if position % 2 == 1 {
                node_hash(sibling, &node)
            } else {
                node_hash(&node, sibling)
            };
        }
    }
    siblings.next().is_none().then_some(node)
}

/// The index on each level, from that of the leaf or node itself to the one below the root, and
/// whether there is a sibling.
pub(super) fn way_up(index: u64, count: u64) -> impl Iterator<Item = (u64, bool)> {
    let levels = std::iter::successors(Some((index, count)), |(index, count)| {
        Some((index / 2, count.div_ceil(2)))
    });
    levels
        .take_while(|(_, count)| *count > 1)
        .map(|(index, count)| (index, index ^ 1 < count))
}

/// Every node of a tree that is small enough for it, level by level from the leaves on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Levels(Vec<Vec<Hash>>);

impl Levels {
    pub(super) fn over(leaves: Vec<Hash>) -> Self {
        let above = |level: &Vec<Hash>| (level.len() > 1).then(|| parents(level));
        Self(std::iter::successors(Some(leaves), above).collect())
    }

    pub(super) fn leaves(&self) -> &[Hash] {
        self.0.first().map_or(&[], Vec::as_slice)
    }

    /// The hash of the tree.
    pub(super) fn root(&self) -> Hash {
        let top = self.0.last().and_then(|level| level.first());
        top.copied().unwrap_or_else(empty_tree)
    }

    /// The path of one of the leaves.
    pub(super) fn path(&self, index: usize) -> Vec<Hash> {
        let sibling =
            |(height, level): (usize, &Vec<Hash>)| level.get((index >> height) ^ 1).copied();
        self.0.iter().enumerate().filter_map(sibling).collect()
    }
}

fn parents(level: &[Hash]) -> Vec<Hash> {
    level
        .chunks(2)
        .map(|pair| match pair {
            [left, right] => node_hash(left, right),
            [.., last] => *last,
            [] => empty_tree(),
        })
        .collect()
}

/// A node of a stored level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) level: u8,
    pub(super) index: u64,
    pub(super) hash: Hash,
}

/// Builds a tree leaf by leaf, with memory for one hash a level.
#[derive(Debug, Default)]
pub(super) struct TreeBuilder {
    count: u64,
    /// By level: a left node whose right sibling has not come yet.
    waiting: Vec<Option<Hash>>,
}

impl TreeBuilder {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds the next leaf, and to `nodes` those of a stored level that are complete with it.
    pub(super) fn push(&mut self, leaf: Hash, nodes: &mut Vec<Node>) {
        let mut hash = leaf;
        let mut level = 0_u8;
        let mut index = self.count;
        self.count += 1;
        loop {
            if level >= BLOCK_LEVEL {
                nodes.push(Node { level, index, hash });
            }
            let place = usize::from(level);
            if self.waiting.len() == place {
                self.waiting.push(None);
            }
            let Some(left) = self.waiting[place].take() else {
                self.waiting[place] = Some(hash);
                return;
            };
            hash = node_hash(&left, &hash);
            level += 1;
            index /= 2;
        }
    }

    /// The hash of the tree; adds to `nodes` those of a stored level that are still missing. The
    /// last node of the highest level is the whole tree, unless there are no leaves.
    pub(super) fn finish(self, nodes: &mut Vec<Node>) -> Hash {
        let mut edge = None;
        for level in 0..top_level(self.count) {
            let waiting = self.waiting.get(usize::from(level)).copied().flatten();
            // From here on the rightmost node of the level above.
            edge = match (waiting, edge) {
                (Some(left), Some(right)) => Some(node_hash(&left, &right)),
                (Some(alone), None) | (None, Some(alone)) => Some(alone),
                (None, None) => None,
            };
            let level = level + 1;
            if level >= BLOCK_LEVEL
                && let Some(hash) = edge
            {
                let index = self.count >> level;
                nodes.push(Node { level, index, hash });
            }
        }
        let whole = self.waiting.last().copied().flatten();
        edge.or(whole).unwrap_or_else(empty_tree)
    }
}

/// The level of the stored node that stands over `count` leaves.
pub(super) fn top_level(count: u64) -> u8 {
    let highest = u64::BITS - count.saturating_sub(1).leading_zeros();
    u8::try_from(highest).unwrap_or(u8::MAX).max(BLOCK_LEVEL)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn leaves(count: u64) -> Vec<Hash> {
        let leaf = |number: u64| Sha256::digest(number.to_be_bytes()).into();
        (0..count).map(leaf).collect()
    }

    /// MTH of RFC 6962, section 2.1, over leaves that are hashed already.
    fn reference_hash(leaves: &[Hash]) -> Hash {
        match leaves {
            [] => Sha256::digest([]).into(),
            [leaf] => *leaf,
            _ => {
                let (left, right) = leaves.split_at(largest_power_below(leaves.len()));
                node_hash(&reference_hash(left), &reference_hash(right))
            }
        }
    }

    /// PATH of RFC 6962, section 2.1.1, of every leaf.
    fn reference_paths(leaves: &[Hash]) -> Vec<Vec<Hash>> {
        if leaves.len() < 2 {
            return vec![Vec::new(); leaves.len()];
        }
        let (left, right) = leaves.split_at(largest_power_below(leaves.len()));
        let beside = |leaves: &[Hash], sibling: Hash| {
            let mut paths = reference_paths(leaves);
            for path in &mut paths {
                path.push(sibling);
            }
            paths
        };
        let mut paths = beside(left, reference_hash(right));
        paths.extend(beside(right, reference_hash(left)));
        paths
    }

    fn largest_power_below(count: usize) -> usize {
        let mut power = 1;
        while power * 2 < count {
            power *= 2;
        }
        power
    }

    fn built(leaves: &[Hash]) -> (Hash, Vec<Node>) {
        let (mut builder, mut nodes) = (TreeBuilder::default(), Vec::new());
        for leaf in leaves {
            builder.push(*leaf, &mut nodes);
        }
        (builder.finish(&mut nodes), nodes)
    }

    /// The path of a leaf from its block and the stored nodes.
    fn joined_path(index: u64, leaves: &[Hash], nodes: &[Node]) -> Vec<Hash> {
        let stored: BTreeMap<_, _> = nodes.iter().map(|n| ((n.level, n.index), n.hash)).collect();
        let (block, block_len) = (index / BLOCK_LEN, usize::try_from(BLOCK_LEN).unwrap());
        let own = leaves
            .chunks(block_len)
            .nth(usize::try_from(block).unwrap())
            .unwrap();
        let mut path = Levels::over(own.to_vec()).path(usize::try_from(index % BLOCK_LEN).unwrap());
        let blocks = (leaves.len() as u64).div_ceil(BLOCK_LEN);
        for (level, (position, has_sibling)) in (BLOCK_LEVEL..).zip(way_up(block, blocks)) {
            if has_sibling {
                path.push(stored[&(level, position ^ 1)]);
            }
        }
        path
    }

    #[test]
    fn every_tree_and_every_path_up_to_300_leaves_is_that_of_the_rfc() {
        for count in 0..=300 {
            let leaves = leaves(count);
            let root = reference_hash(&leaves);

            assert_eq!(built(&leaves).0, root, "{count}");
            let levels = Levels::over(leaves.clone());
            assert_eq!(levels.root(), root, "{count}");
            let reference_paths = reference_paths(&leaves);
            for (index, leaf) in leaves.iter().enumerate() {
                let path = levels.path(index);
                assert_eq!(path, reference_paths[index], "{index} of {count}");
                let index = index as u64;
                let found = tree_hash_of(index, count, *leaf, &path);
                assert_eq!(found, Some(root), "{index} of {count}");
            }
            assert_eq!(tree_hash_of(count, count, [7; 32], &[]), None);
        }
    }

    #[test]
    fn the_hash_of_no_leaves_is_the_published_one() {
        assert_eq!(
            hex::encode(empty_tree()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn stored_nodes_and_one_block_give_the_path_of_every_size_around_whole_blocks() {
        let all = leaves(5 * BLOCK_LEN + 2);
        for count in [
            1,
            2,
            BLOCK_LEN - 1,
            BLOCK_LEN,
            BLOCK_LEN + 1,
            2 * BLOCK_LEN - 1,
            2 * BLOCK_LEN,
            2 * BLOCK_LEN + 1,
            3 * BLOCK_LEN,
            3 * BLOCK_LEN + 1,
            4 * BLOCK_LEN,
            5 * BLOCK_LEN - 1,
            5 * BLOCK_LEN + 1,
        ] {
            let leaves = &all[..usize::try_from(count).unwrap()];
            let root = reference_hash(leaves);
            let (built_root, nodes) = built(leaves);
            assert_eq!(built_root, root, "{count}");

            let mut keys: Vec<_> = nodes.iter().map(|node| (node.level, node.index)).collect();
            keys.sort_unstable();
            let mut expected = Vec::new();
            let mut on_level = count.div_ceil(BLOCK_LEN);
            for level in BLOCK_LEVEL..=top_level(count) {
                expected.extend((0..on_level).map(|index| (level, index)));
                on_level = on_level.div_ceil(2);
            }
            assert_eq!(keys, expected, "{count}: each node once");
            let top = nodes.iter().find(|node| node.level == top_level(count));
            assert_eq!(top.map(|node| node.hash), Some(root), "{count}");

            for index in [0, 1, 511, 1_023, 1_024, 2_047, 2_048, 4_095, count - 1] {
                if index < count {
                    let path = joined_path(index, leaves, &nodes);
                    let leaf = leaves[usize::try_from(index).unwrap()];
                    let found = tree_hash_of(index, count, leaf, &path);
                    assert_eq!(found, Some(root), "{index} of {count}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_path_leads_to_the_root_only_from_its_own_leaf_and_index(
            count in 1..3_000_u64,
            pick in any::<prop::sample::Index>(),
            other in any::<prop::sample::Index>(),
            bit in 0..256_usize,
        ) {
            let leaves = leaves(count);
            let (root, nodes) = built(&leaves);
            let index = pick.index(leaves.len());
            let path = joined_path(index as u64, &leaves, &nodes);
            let found = |index: usize, leaf, path: &[Hash]| {
                tree_hash_of(index as u64, count, leaf, path)
            };

            prop_assert_eq!(found(index, leaves[index], &path), Some(root));
            let elsewhere = other.index(leaves.len());
            if elsewhere != index {
                prop_assert_ne!(found(elsewhere, leaves[index], &path), Some(root));
                prop_assert_ne!(found(index, leaves[elsewhere], &path), Some(root));
            }
            let mut longer = path.clone();
            longer.push(root);
            prop_assert_eq!(found(index, leaves[index], &longer), None);
            if let Some((_, shorter)) = path.split_last() {
                prop_assert_eq!(found(index, leaves[index], shorter), None);
                let mut changed = path.clone();
                let at = other.index(path.len());
                changed[at][bit / 8] ^= 1 << (bit % 8);
                prop_assert_ne!(found(index, leaves[index], &changed), Some(root));
            }
        }
    }
}
