//! The `outbox` table. No other file reads or writes it.

use std::time::Duration;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::entry::{Entry, Kind, StoredEntry};
use crate::{
    infra::mysql::{placeholders, sql},
    kernel::Timestamp,
};

/// Rows of one INSERT.
const BATCH: usize = 200;

/// A row that this relay may work on until its claim runs out.
#[derive(Debug, FromQueryResult)]
pub(super) struct ClaimedRow {
    pub(super) id: u64,
    pub(super) body: String,
    /// How often it was claimed before.
    pub(super) attempts: u32,
    /// When the claim runs out. Tells it from later ones, and from the row owed again meanwhile.
    pub(super) claimed_until: Timestamp,
}

impl ClaimedRow {
    pub(super) fn entry(&self) -> serde_json::Result<StoredEntry> {
        serde_json::from_str(&self.body)
    }
}

/// Adds what the caller's transaction owes; an entry that already waits is not added twice.
pub(super) async fn insert(conn: &impl ConnectionTrait, entries: &[Entry]) -> Result<(), DbErr> {
    for batch in entries.chunks(BATCH) {
        insert_batch(conn, batch).await?;
    }
    Ok(())
}

async fn insert_batch(conn: &impl ConnectionTrait, entries: &[Entry]) -> Result<(), DbErr> {
    let rows = vec!["(?, ?, ?, NOW(3), NOW(3))"; entries.len()].join(", ");
    let mut values = Vec::with_capacity(entries.len() * 3);
    for entry in entries {
        let body = serde_json::to_string(&entry.to_stored())
            .map_err(|error| DbErr::Json(error.to_string()))?;
        values.extend([
            entry.dedupe_key().into(),
            entry.kind().as_str().into(),
            body.into(),
        ]);
    }
    let text = format!(
        "INSERT INTO outbox (dedupe_key, kind, body, not_before, created_at) VALUES {rows} \
         ON DUPLICATE KEY UPDATE not_before = VALUES(not_before)"
    );
    conn.execute_raw(sql(text, values)).await.map(|_| ())
}

/// Locks the oldest due rows of a kind that nobody else is looking at, to be claimed for so long.
pub(super) async fn list_due_for_update(
    conn: &impl ConnectionTrait,
    kind: Kind,
    limit: u32,
    life: Duration,
) -> Result<Vec<ClaimedRow>, DbErr> {
    ClaimedRow::find_by_statement(sql(
        "SELECT id, body, attempts, \
         CAST(NOW(3) + INTERVAL ? MICROSECOND AS DATETIME(3)) AS claimed_until \
         FROM outbox WHERE kind = ? AND not_before <= NOW(3) \
         ORDER BY not_before LIMIT ? FOR UPDATE SKIP LOCKED",
        [micros(life).into(), kind.as_str().into(), limit.into()],
    ))
    .all(conn)
    .await
}

/// Claims rows that the transaction has locked.
pub(super) async fn claim(conn: &impl ConnectionTrait, rows: &[ClaimedRow]) -> Result<(), DbErr> {
    let text = format!(
        "UPDATE outbox SET not_before = ?, attempts = attempts + 1 WHERE id IN {}",
        placeholders(1, rows.len())
    );
    let until = rows.first().map(|row| row.claimed_until.into());
    let values = until
        .into_iter()
        .chain(rows.iter().map(|row| row.id.into()));
    conn.execute_raw(sql(text, values)).await.map(|_| ())
}

/// Makes a row due after a pause, unless its claim is over.
pub(super) async fn put_back(
    conn: &impl ConnectionTrait,
    row: &ClaimedRow,
    pause: Duration,
) -> Result<(), DbErr> {
    let text = "UPDATE outbox SET not_before = NOW(3) + INTERVAL ? MICROSECOND \
                WHERE id = ? AND not_before = ?";
    let values = [
        micros(pause).into(),
        row.id.into(),
        row.claimed_until.into(),
    ];
    conn.execute_raw(sql(text, values)).await.map(|_| ())
}

/// Deletes rows, but not those whose claim is over: they are owed again, or somebody else works on them.
pub(super) async fn delete(conn: &impl ConnectionTrait, rows: &[&ClaimedRow]) -> Result<(), DbErr> {
    let each = vec!["(id = ? AND not_before = ?)"; rows.len()].join(" OR ");
    let text = format!("DELETE FROM outbox WHERE {each}");
    let values = rows
        .iter()
        .flat_map(|row| [row.id.into(), row.claimed_until.into()]);
    conn.execute_raw(sql(text, values)).await.map(|_| ())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// How long the oldest row of a kind has been waiting, in milliseconds; 0 when none waits.
pub(super) async fn age_ms(conn: &impl ConnectionTrait, kind: Kind) -> Result<u64, DbErr> {
    let row = conn
        .query_one_raw(sql(
            "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, created_at, NOW(3)) DIV 1000 AS SIGNED) AS age \
             FROM outbox WHERE kind = ? ORDER BY created_at LIMIT 1",
            [kind.as_str().into()],
        ))
        .await?;
    let age: i64 = row
        .map(|row| row.try_get("", "age"))
        .transpose()?
        .unwrap_or(0);
    Ok(u64::try_from(age).unwrap_or(0))
}

/// Of more rows only so many are counted.
const COUNTED: u32 = 10_000;

/// How many rows of a kind wait, 10,000 at most.
pub(super) async fn count_rows(conn: &impl ConnectionTrait, kind: Kind) -> Result<u64, DbErr> {
    count(conn, "= ?", &[kind]).await
}

/// How many rows wait of kinds that only other versions know, 10,000 at most.
pub(super) async fn count_other_rows(conn: &impl ConnectionTrait) -> Result<u64, DbErr> {
    let none_of_ours = format!("NOT IN {}", placeholders(1, Kind::ALL.len()));
    count(conn, &none_of_ours, &Kind::ALL).await
}

async fn count(
    conn: &impl ConnectionTrait,
    is_counted: &str,
    kinds: &[Kind],
) -> Result<u64, DbErr> {
    let text = format!(
        "SELECT COUNT(*) AS count FROM (SELECT 1 FROM outbox WHERE kind {is_counted} LIMIT ?) AS waiting"
    );
    let values = kinds.iter().map(|kind| kind.as_str().into());
    let values = values.chain([COUNTED.into()]);
    let row = conn.query_one_raw(sql(text, values)).await?;
    let count: i64 = row
        .map(|row| row.try_get("", "count"))
        .transpose()?
        .unwrap_or(0);
    Ok(u64::try_from(count).unwrap_or(0))
}
