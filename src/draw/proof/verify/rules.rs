//! Seed, rules and the commitment to both.

use serde::Deserialize;

use super::{ProofFault, opened::Winners};
use crate::{
    activity::{SCORE_RULE_VERSION, Seed, commitment, rules_hash},
    draw::proof::document::{Id, Proof},
    kernel::ActivityId,
};

/// An activity has no more.
const MOST_SEATS: u64 = 10_000;

/// What the verifier needs of the rules; the text itself is bound by the commitment.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rules {
    activity_id: Id,
    score_rule_version: u32,
    /// By rank.
    prizes: Vec<Prize>,
}

/// A prize and how many seats are for it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prize {
    pub(super) rank: u32,
    #[serde(rename = "prizeId")]
    pub(super) id: Id,
    quantity: u32,
}

impl Rules {
    pub(super) fn seats(&self) -> u64 {
        let quantities = self.prizes.iter().map(|prize| u64::from(prize.quantity));
        quantities.sum()
    }

    /// The prize of a seat: the best ones come first.
    pub(super) fn prize_of(&self, seat: u32) -> Option<Prize> {
        let mut last_seat = 0;
        let mut prizes = self.prizes.iter();
        let found = prizes.find(|prize| {
            last_seat += u64::from(prize.quantity);
            u64::from(seat) <= last_seat
        });
        found.copied()
    }
}

/// Holds seed, rules and commitment against each other.
pub(super) fn check(proof: &Proof, winners: &Winners) -> Result<Rules, ProofFault> {
    let id = ActivityId(proof.activity_id.0);
    let seed = Seed::new(proof.seed.0);
    let commits_to = |hash: &[u8; 32]| commitment(id, &seed, hash) == proof.commitment.0;

    let hash = rules_hash(&proof.rules);
    if hash != proof.rules_hash.0 {
        return Err(if commits_to(&hash) {
            ProofFault::RulesHash
        } else {
            ProofFault::Rules
        });
    }
    let mut rules: Rules = serde_json::from_str(&proof.rules)
        .map_err(|error| ProofFault::RulesUnusable(error.to_string()))?;
    if rules.seats() > MOST_SEATS {
        let text = format!("they have more than {MOST_SEATS} seats");
        return Err(ProofFault::RulesUnusable(text));
    }
    rules.prizes.sort_by_key(|prize| prize.rank);
    if rules.activity_id != proof.activity_id {
        return Err(ProofFault::ActivityId(rules.activity_id.0));
    }
    if rules.score_rule_version != proof.score_rule_version {
        return Err(ProofFault::ScoreRuleVersion {
            found: proof.score_rule_version,
            expected: rules.score_rule_version,
        });
    }
    if rules.score_rule_version != SCORE_RULE_VERSION {
        return Err(ProofFault::UnknownScoreRule(rules.score_rule_version));
    }
    if !commits_to(&hash) {
        return Err(if winners.have_their_scores(proof) {
            ProofFault::Commitment
        } else {
            ProofFault::Seed
        });
    }
    Ok(rules)
}
