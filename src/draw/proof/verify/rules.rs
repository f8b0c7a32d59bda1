//! Seed, rules and the commitment to both.

use serde::Deserialize;

use super::{ProofFault, opened::Winners, strict};
use crate::{
    activity::{SCORE_RULE_VERSION, Seed, commitment, rules_hash},
    draw::proof::document::{Id, Proof},
    kernel::ActivityId,
};

/// An activity has no more.
const MOST_SEATS: u64 = 10_000;

/// What the verifier needs of the rules; the text itself is bound by the commitment.
#[derive(Debug)]
pub(super) struct Rules {
    activity_id: Id,
    score_rule_version: u32,
    /// By rank, each with its last seat; those for nobody are left out.
    prizes: Vec<(u64, Prize)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    activity_id: Id,
    score_rule_version: u32,
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
    pub(super) fn parse(text: &str) -> Result<Self, ProofFault> {
        let unusable = |error: serde_json::Error| ProofFault::RulesUnusable(error.to_string());
        strict::check(text).map_err(unusable)?;
        let text: Text = serde_json::from_str(text).map_err(unusable)?;
        let Text {
            activity_id,
            score_rule_version,
            mut prizes,
        } = text;
        prizes.retain(|prize| prize.quantity > 0);
        prizes.sort_by_key(|prize| prize.rank);
        let mut last_seat = 0;
        let prizes = prizes.into_iter().map(|prize| {
            last_seat += u64::from(prize.quantity);
            (last_seat, prize)
        });
        let rules = Self {
            activity_id,
            score_rule_version,
            prizes: prizes.collect(),
        };
        if rules.seats() > MOST_SEATS {
            let text = format!("they have more than {MOST_SEATS} seats");
            return Err(ProofFault::RulesUnusable(text));
        }
        Ok(rules)
    }

    pub(super) fn seats(&self) -> u64 {
        self.prizes.last().map_or(0, |(last_seat, _)| *last_seat)
    }

    /// The prize of a seat: the best ones come first.
    pub(super) fn prize_of(&self, seat: u32) -> Option<Prize> {
        let before = |(last_seat, _): &(u64, Prize)| *last_seat < u64::from(seat);
        let at = self.prizes.partition_point(before);
        self.prizes.get(at).map(|(_, prize)| *prize)
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
    let rules = Rules::parse(&proof.rules)?;
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
