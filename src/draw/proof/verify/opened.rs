//! The winners' scores and entries, and the root over all entries.

use super::ProofFault;
use crate::{
    activity::Seed,
    candidate::{
        Standing,
        entries::{EntryState, Hash, Salt, empty_tree, entries_root, leaf_hash, tree_hash_of},
    },
    draw::proof::document::{Opening, Proof, Winner, hashes},
    kernel::{ActivityId, UserId},
};

/// What follows from seed and user ids of the winners, in the order of the document.
#[derive(Debug)]
pub(super) struct Winners {
    pub(super) standings: Vec<Standing>,
}

/// Where a winner's path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToTheTree,
    Elsewhere,
    /// The tree has no such place.
    Nowhere,
}

impl Winners {
    pub(super) fn of(proof: &Proof) -> Self {
        let seed = Seed::new(proof.seed.0);
        let standing = |winner: &Winner| Standing::of(&seed, UserId(winner.user_id.0));
        Self {
            standings: proof.winners.iter().map(standing).collect(),
        }
    }

    /// Whether each winner's score follows from the seed.
    pub(super) fn have_their_scores(&self, proof: &Proof) -> bool {
        let mut scores = proof.winners.iter().zip(&self.standings);
        scores.all(|(winner, standing)| has_score(winner, standing))
    }

    /// Holds scores and entries against the seed and the root.
    pub(super) fn check(&self, proof: &Proof) -> Result<(), ProofFault> {
        let id = ActivityId(proof.activity_id.0);
        let ways: Vec<Way> = proof.winners.iter().map(|w| way(proof, w)).collect();
        let root = entries_root(id, proof.entries_count, &proof.entries_tree.0);
        if root != proof.entries_root.0 {
            return Err(if ways.contains(&Way::Nowhere) {
                ProofFault::EntriesCount
            } else if ways.contains(&Way::Elsewhere) {
                ProofFault::EntriesTree
            } else {
                ProofFault::EntriesRoot
            });
        }
        if proof.entries_count == 0 && proof.entries_tree.0 != empty_tree() {
            return Err(ProofFault::EmptyTree);
        }
        for (index, (winner, way)) in proof.winners.iter().zip(ways).enumerate() {
            let standing = &self.standings[index];
            if !has_score(winner, standing) {
                return Err(match way {
                    Way::ToTheTree => ProofFault::WinnerScore {
                        index,
                        found: winner.score.0,
                        expected: standing.score.value(),
                    },
                    Way::Elsewhere | Way::Nowhere => ProofFault::WinnerUser { index },
                });
            }
            if way != Way::ToTheTree {
                return Err(ProofFault::WinnerEntry { index });
            }
        }
        in_order(proof)
    }
}

#[expect(clippy::float_cmp, reason = "a score is exact")]
fn has_score(winner: &Winner, standing: &Standing) -> bool {
    winner.score.0 == standing.score.value()
}

/// Where the entry of a winner leads, if it was eligible.
fn way(proof: &Proof, winner: &Winner) -> Way {
    let Opening { index, salt, path } = &winner.entry;
    let user_id = UserId(winner.user_id.0);
    let id = ActivityId(proof.activity_id.0);
    let leaf = leaf_hash(id, &Salt(salt.0), user_id, EntryState::ELIGIBLE);
    let found: Option<Hash> = tree_hash_of(*index, proof.entries_count, leaf, &hashes(path));
    match found {
        Some(tree) if tree == proof.entries_tree.0 => Way::ToTheTree,
        Some(_) => Way::Elsewhere,
        None => Way::Nowhere,
    }
}

/// A higher user id has a higher index.
fn in_order(proof: &Proof) -> Result<(), ProofFault> {
    let mut by_user: Vec<(usize, &Winner)> = proof.winners.iter().enumerate().collect();
    by_user.sort_by_key(|(_, winner)| winner.user_id);
    for pair in by_user.windows(2) {
        if let [(_, lower), (index, higher)] = pair
            && lower.user_id != higher.user_id
            && lower.entry.index >= higher.entry.index
        {
            return Err(ProofFault::EntryOrder { index: *index });
        }
    }
    Ok(())
}
