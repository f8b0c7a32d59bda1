//! The rules that an activity is opened with, and the commitment to its seed. Pure.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Activity, PresenceRule, PrizeKind, Seed, ShardBy, Task};
use crate::kernel::{ActivityId, PrizeId, RoomId, Timestamp, to_millis};

/// Which rule turns seed and user id into a score.
pub const SCORE_RULE_VERSION: u32 = 1;

const COMMITMENT_DOMAIN: &[u8] = b"luckybag/commit/v1";

// RFC 8785 wants the keys sorted, so the fields of these stand in the order of their JSON names.
// The rest of it is what serde_json does anyway, as long as there are only strings, whole numbers
// and booleans.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rules<'a> {
    activity_id: ActivityId,
    cooldown_seconds: u64,
    #[serde(with = "to_millis")]
    draw_at: Timestamp,
    one_entry_per_device: bool,
    presence_rule: PresenceRule,
    prizes: Vec<RulesPrize<'a>>,
    room_id: RoomId,
    score_rule_version: u32,
    shard_by: ShardBy,
    tasks: Vec<RulesTask<'a>>,
    winner_count: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RulesPrize<'a> {
    kind: PrizeKind,
    name: &'a str,
    prize_id: PrizeId,
    quantity: u32,
    rank: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RulesTask<'a> {
    task_id: &'a str,
    title: &'a str,
}

impl<'a> From<&'a Task> for RulesTask<'a> {
    fn from(task: &'a Task) -> Self {
        Self {
            task_id: &task.task_id,
            title: &task.title,
        }
    }
}

/// The rules of an activity that is drawn at `draw_at`, as RFC 8785 canonical JSON.
pub(super) fn canonical_rules(
    activity: &Activity,
    draw_at: Timestamp,
) -> Result<String, serde_json::Error> {
    let prizes = activity.prizes.iter().map(|prize| RulesPrize {
        kind: prize.kind,
        name: &prize.name,
        prize_id: prize.prize_id,
        quantity: prize.quantity,
        rank: prize.rank,
    });
    serde_json::to_string(&Rules {
        activity_id: activity.id,
        cooldown_seconds: activity.cooldown.as_secs(),
        draw_at,
        one_entry_per_device: activity.one_entry_per_device,
        presence_rule: activity.presence_rule,
        prizes: prizes.collect(),
        room_id: activity.room_id,
        score_rule_version: SCORE_RULE_VERSION,
        shard_by: activity.shard_by,
        tasks: activity.tasks.iter().map(RulesTask::from).collect(),
        winner_count: activity.winner_count,
    })
}

/// SHA-256 of the rules' text.
pub fn rules_hash(rules: &str) -> [u8; 32] {
    Sha256::digest(rules.as_bytes()).into()
}

/// SHA-256("luckybag/commit/v1" ‖ activity id as u64 big-endian ‖ seed ‖ rules hash).
pub fn commitment(id: ActivityId, seed: &Seed, rules_hash: &[u8; 32]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(COMMITMENT_DOMAIN);
    hasher.update(id.0.to_be_bytes());
    hasher.update(seed.bytes());
    hasher.update(rules_hash);
    hasher.finalize().into()
}
