//! The `pool_count` table: how many participations there are, by verdict and shard.

use std::{collections::BTreeMap, ops::AddAssign};

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::INSERT_ROWS;
use crate::{
    candidate::{LateReason, Participation, RejectReason, Verdict},
    infra::{
        mysql::{in_list, placeholders, sql},
        redis::Shard,
    },
    kernel::ActivityId,
};

/// A shard of an activity's pool.
pub(in crate::candidate) type ShardKey = (ActivityId, Shard);

/// How many participations of a shard there are, or how many more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCount {
    pub pooled: u64,
    pub trimmed: u64,
    pub blocked: u64,
    pub cooldown: u64,
    pub duplicate_device: u64,
    pub invalid: u64,
    pub late: u64,
    /// The sum of the revisions of the pooled ones.
    pub revision_sum: u64,
}

impl PoolCount {
    /// Counts a participation that is new.
    pub(in crate::candidate) fn count(&mut self, new: &Participation) {
        let counter = match new.verdict {
            Verdict::Joined if new.is_trimmed => &mut self.trimmed,
            Verdict::Joined => &mut self.pooled,
            Verdict::Rejected(RejectReason::Blocked) => &mut self.blocked,
            Verdict::Rejected(RejectReason::Cooldown) => &mut self.cooldown,
            Verdict::Rejected(RejectReason::DuplicateDevice) => &mut self.duplicate_device,
            Verdict::Rejected(RejectReason::Invalid) => &mut self.invalid,
            Verdict::Late(LateReason::Closed | LateReason::Cancelled) => &mut self.late,
        };
        *counter += 1;
        if new.is_pooled() {
            self.revision_sum += u64::from(new.revision);
        }
    }

    /// Everybody whose join holds.
    pub fn joined(&self) -> u64 {
        self.pooled + self.trimmed
    }

    fn values(self) -> [u64; 8] {
        [
            self.pooled,
            self.trimmed,
            self.blocked,
            self.cooldown,
            self.duplicate_device,
            self.invalid,
            self.late,
            self.revision_sum,
        ]
    }
}

impl AddAssign for PoolCount {
    fn add_assign(&mut self, other: Self) {
        self.pooled += other.pooled;
        self.trimmed += other.trimmed;
        self.blocked += other.blocked;
        self.cooldown += other.cooldown;
        self.duplicate_device += other.duplicate_device;
        self.invalid += other.invalid;
        self.late += other.late;
        self.revision_sum += other.revision_sum;
    }
}

const COLUMNS: [&str; 8] = [
    "pooled",
    "trimmed",
    "blocked",
    "cooldown",
    "duplicate_device",
    "invalid",
    "late",
    "revision_sum",
];

/// Adds to the counts of one partition, in the order of the map.
pub(in crate::candidate) async fn raise_pool_counts(
    conn: &impl ConnectionTrait,
    partition: u16,
    more: &BTreeMap<ShardKey, PoolCount>,
) -> Result<(), DbErr> {
    let raise = COLUMNS.map(|column| format!("{column} = {column} + VALUES({column})"));
    let more: Vec<_> = more
        .iter()
        .filter(|(_, count)| **count != PoolCount::default())
        .collect();
    for chunk in more.chunks(INSERT_ROWS) {
        let text = format!(
            "INSERT INTO pool_count (activity_id, stream_partition, shard, {}) VALUES {} \
             ON DUPLICATE KEY UPDATE {}",
            COLUMNS.join(", "),
            placeholders(chunk.len(), 3 + COLUMNS.len()),
            raise.join(", ")
        );
        let values = chunk.iter().flat_map(|((activity_id, shard), count)| {
            let key = [
                (*activity_id).into(),
                partition.into(),
                u16::from(shard.index()).into(),
            ];
            key.into_iter().chain(count.values().map(Into::into))
        });
        conn.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}

#[derive(FromQueryResult)]
struct PoolCountRow {
    shard: u16,
    pooled: u64,
    trimmed: u64,
    blocked: u64,
    cooldown: u64,
    duplicate_device: u64,
    invalid: u64,
    late: u64,
    revision_sum: u64,
}

/// The counts of an activity by shard, over all partitions; a shard without any is left out.
pub(in crate::candidate) async fn read_pool_counts(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
) -> Result<BTreeMap<Shard, PoolCount>, DbErr> {
    let text = format!(
        "SELECT shard, {} FROM pool_count WHERE activity_id = ?",
        COLUMNS.join(", ")
    );
    let found = PoolCountRow::find_by_statement(sql(text, [activity_id.into()]))
        .all(conn)
        .await?;
    let mut counts: BTreeMap<Shard, PoolCount> = BTreeMap::new();
    for row in found {
        *counts.entry(Shard::of(row.shard.into())).or_default() += PoolCount {
            pooled: row.pooled,
            trimmed: row.trimmed,
            blocked: row.blocked,
            cooldown: row.cooldown,
            duplicate_device: row.duplicate_device,
            invalid: row.invalid,
            late: row.late,
            revision_sum: row.revision_sum,
        };
    }
    Ok(counts)
}

/// A number that grows whenever anything of these activities is committed.
pub(in crate::candidate) async fn progress(
    conn: &impl ConnectionTrait,
    activities: &[ActivityId],
) -> Result<u64, DbErr> {
    if activities.is_empty() {
        return Ok(0);
    }
    let mut values = Vec::new();
    let list = in_list(activities, &mut values);
    let text = format!(
        "SELECT CAST(COALESCE(SUM({}), 0) AS UNSIGNED) FROM pool_count WHERE activity_id IN {list}",
        COLUMNS.join(" + ")
    );
    let row = conn.query_one_raw(sql(text, values)).await?;
    row.map_or(Ok(0), |row| row.try_get_by_index(0))
}
