//! How an activity is stored in a row, and read back from it.

use std::{collections::HashMap, time::Duration};

use sea_orm::{DbErr, FromQueryResult};

use super::{Activity, ActivityPrize, PresenceRule, PrizeKind, Seed, ShardBy, Status};
use crate::kernel::{ActivityId, PrizeId, RoomId, Timestamp, UserId};

/// The columns that [`ActivityRow`] reads.
pub(super) const COLUMNS: &str = "id, room_id, host_id, title, conditions, winner_count, tasks, \
     presence_rule, one_entry_per_device, shard_by, cooldown_secs, trim_after, trim_floor, status, \
     countdown_secs, start_at, draw_at, drawn_at, status_reason, seed, commitment, rules, \
     joined_count, eligible_count, cutoff_score, proof_published_at, \
     participants_removed_at, wins_removed_at, round, version, created_at";

// No Debug: it holds the seed.
#[derive(FromQueryResult)]
pub(super) struct ActivityRow {
    pub(super) id: ActivityId,
    room_id: RoomId,
    host_id: UserId,
    title: String,
    conditions: Option<String>,
    winner_count: u32,
    tasks: String,
    presence_rule: String,
    one_entry_per_device: bool,
    shard_by: String,
    cooldown_secs: u64,
    trim_after: u64,
    trim_floor: f64,
    status: String,
    countdown_secs: Option<u32>,
    start_at: Option<Timestamp>,
    draw_at: Option<Timestamp>,
    drawn_at: Option<Timestamp>,
    status_reason: Option<String>,
    seed: Option<Vec<u8>>,
    commitment: Option<Vec<u8>>,
    rules: Option<String>,
    joined_count: Option<u64>,
    eligible_count: Option<u64>,
    cutoff_score: Option<f64>,
    proof_published_at: Option<Timestamp>,
    participants_removed_at: Option<Timestamp>,
    wins_removed_at: Option<Timestamp>,
    round: u32,
    version: u32,
    created_at: Timestamp,
}

#[derive(Debug, FromQueryResult)]
pub(super) struct PrizeRow {
    activity_id: ActivityId,
    prize_rank: u32,
    prize_id: PrizeId,
    quantity: u32,
    name: String,
    kind: String,
    image: Option<String>,
}

/// The error of a row that makes no sense.
fn nonsense(id: ActivityId, column: &str) -> DbErr {
    DbErr::Type(format!("column {column} of activity {id} makes no sense"))
}

fn bytes32(id: ActivityId, name: &str, bytes: Option<Vec<u8>>) -> Result<Option<[u8; 32]>, DbErr> {
    bytes
        .map(|bytes| <[u8; 32]>::try_from(bytes).map_err(|_| nonsense(id, name)))
        .transpose()
}

impl ActivityRow {
    /// The activity with its prizes, best first; [`DbErr::Type`] for a row that makes no sense.
    pub(super) fn into_activity(self, prizes: Vec<ActivityPrize>) -> Result<Activity, DbErr> {
        let id = self.id;
        let bad = |column| move || nonsense(id, column);
        let seconds = |secs: u32| Duration::from_secs(secs.into());
        Ok(Activity {
            id,
            room_id: self.room_id,
            host_id: self.host_id,
            title: self.title,
            conditions: self.conditions,
            winner_count: self.winner_count,
            prizes,
            tasks: serde_json::from_str(&self.tasks).map_err(|_| nonsense(id, "tasks"))?,
            presence_rule: PresenceRule::parse(&self.presence_rule)
                .ok_or_else(bad("presence_rule"))?,
            one_entry_per_device: self.one_entry_per_device,
            shard_by: ShardBy::parse(&self.shard_by).ok_or_else(bad("shard_by"))?,
            cooldown: Duration::from_secs(self.cooldown_secs),
            trim_after: self.trim_after,
            trim_floor: self.trim_floor,
            status: Status::parse(&self.status).ok_or_else(bad("status"))?,
            countdown: self.countdown_secs.map(seconds),
            start_at: self.start_at,
            draw_at: self.draw_at,
            drawn_at: self.drawn_at,
            status_reason: self.status_reason,
            seed: bytes32(id, "seed", self.seed)?.map(Seed::new),
            commitment: bytes32(id, "commitment", self.commitment)?,
            rules: self.rules,
            joined_count: self.joined_count,
            eligible_count: self.eligible_count,
            cutoff_score: self.cutoff_score,
            proof_published_at: self.proof_published_at,
            participants_removed_at: self.participants_removed_at,
            wins_removed_at: self.wins_removed_at,
            round: self.round,
            version: self.version,
            created_at: self.created_at,
        })
    }
}

impl PrizeRow {
    fn into_prize(self) -> Result<ActivityPrize, DbErr> {
        let kind = PrizeKind::parse(&self.kind)
            .ok_or_else(|| nonsense(self.activity_id, "kind of a prize"))?;
        Ok(ActivityPrize {
            rank: self.prize_rank,
            prize_id: self.prize_id,
            name: self.name,
            kind,
            image: self.image,
            quantity: self.quantity,
        })
    }
}

/// Puts rows and their prizes together, in the order of the rows.
pub(super) fn assemble(
    rows: Vec<ActivityRow>,
    prize_rows: Vec<PrizeRow>,
) -> Result<Vec<Activity>, DbErr> {
    let mut prizes: HashMap<ActivityId, Vec<ActivityPrize>> = HashMap::new();
    for row in prize_rows {
        let of_activity = prizes.entry(row.activity_id).or_default();
        of_activity.push(row.into_prize()?);
    }
    rows.into_iter()
        .map(|row| {
            let prizes = prizes.remove(&row.id).unwrap_or_default();
            row.into_activity(prizes)
        })
        .collect()
}
