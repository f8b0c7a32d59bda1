//! The `win_record` table: reading, and the records of a draw. `changes` has what happens to a record
//! later; no other file reads or writes it.

use std::{collections::HashSet, time::Duration};

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::{WinRecord, WinStatus};
use crate::{
    infra::mysql::{in_list, placeholders, sql},
    kernel::{ActivityId, PrizeId, Timestamp, UserId, WinRecordId},
};

/// Rows of one INSERT; fixed, so that few statements have to be prepared.
const BATCH: usize = 200;

#[derive(FromQueryResult)]
struct WinRow {
    id: WinRecordId,
    activity_id: ActivityId,
    user_id: UserId,
    seat: u32,
    round: u32,
    prize_id: PrizeId,
    prize_rank: u32,
    score: f64,
    status: String,
    drawn_at: Timestamp,
    revoked_round: Option<u32>,
}

impl WinRow {
    const COLUMNS: &'static str = "id, activity_id, user_id, seat, round, prize_id, prize_rank, score, status, drawn_at, \
         revoked_round";

    fn into_record(self) -> Result<WinRecord, DbErr> {
        let status = WinStatus::parse(&self.status)
            .ok_or_else(|| DbErr::Type(format!("win record {} is `{}`", self.id, self.status)))?;
        Ok(WinRecord {
            id: self.id,
            activity_id: self.activity_id,
            user_id: self.user_id,
            seat: self.seat,
            round: self.round,
            prize_id: self.prize_id,
            prize_rank: self.prize_rank,
            score: self.score,
            status,
            drawn_at: self.drawn_at,
            revoked_round: self.revoked_round,
        })
    }
}

async fn select(
    conn: &impl ConnectionTrait,
    condition: &str,
    values: impl IntoIterator<Item = sea_orm::Value>,
) -> Result<Vec<WinRecord>, DbErr> {
    let text = format!(
        "SELECT {} FROM win_record WHERE {condition}",
        WinRow::COLUMNS
    );
    let rows = WinRow::find_by_statement(sql(text, values))
        .all(conn)
        .await?;
    rows.into_iter().map(WinRow::into_record).collect()
}

/// All wins of an activity, revoked ones too, by seat and round.
pub async fn list_all(
    conn: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<Vec<WinRecord>, DbErr> {
    select(conn, "activity_id = ? ORDER BY seat, round", [id.into()]).await
}

/// Wins of one round that still hold, by user id from the one behind `after` on.
pub async fn list_of_round(
    conn: &impl ConnectionTrait,
    id: ActivityId,
    round: u32,
    after: u64,
    limit: u32,
) -> Result<Vec<WinRecord>, DbErr> {
    select(
        conn,
        "activity_id = ? AND user_id > ? AND round = ? AND status = 'won' \
         ORDER BY user_id LIMIT ?",
        [id.into(), after.into(), round.into(), limit.into()],
    )
    .await
}

/// How many wins a round brought, revoked ones too.
pub async fn count_of_round(
    conn: &impl ConnectionTrait,
    id: ActivityId,
    round: u32,
) -> Result<u64, DbErr> {
    let row = conn
        .query_one_raw(sql(
            "SELECT COUNT(*) AS count FROM win_record WHERE activity_id = ? AND round = ?",
            [id.into(), round.into()],
        ))
        .await?;
    let count: Option<i64> = row.map(|row| row.try_get("", "count")).transpose()?;
    Ok(u64::try_from(count.unwrap_or(0)).unwrap_or(0))
}

#[derive(FromQueryResult)]
struct UserRow {
    user_id: UserId,
}

/// Who ever won the activity among the users from `first` to `last`, both included.
pub async fn list_winners_between(
    conn: &impl ConnectionTrait,
    id: ActivityId,
    first: UserId,
    last: UserId,
) -> Result<HashSet<UserId>, DbErr> {
    let rows = UserRow::find_by_statement(sql(
        "SELECT user_id FROM win_record WHERE activity_id = ? AND user_id BETWEEN ? AND ?",
        [id.into(), first.into(), last.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.user_id).collect())
}

/// Writes win records in the caller's transaction.
///
/// The unique keys refuse a second win of a user and a second holder of a seat in a round.
pub async fn record(tx: &impl ConnectionTrait, wins: &[WinRecord]) -> Result<(), DbErr> {
    for batch in wins.chunks(BATCH) {
        let text = format!(
            "INSERT INTO win_record ({}, fulfilment) VALUES {}",
            WinRow::COLUMNS,
            placeholders(batch.len(), 12)
        );
        let values = batch.iter().flat_map(|win| {
            [
                win.id.0.into(),
                win.activity_id.0.into(),
                win.user_id.0.into(),
                win.seat.into(),
                win.round.into(),
                win.prize_id.0.into(),
                win.prize_rank.into(),
                win.score.into(),
                win.status.as_str().into(),
                win.drawn_at.into(),
                win.revoked_round.into(),
                "pending".into(),
            ]
        });
        tx.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}

/// Removes up to `limit` win records of an activity, and tells how many; `None` when none is left.
pub async fn forget(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    limit: u64,
) -> Result<Option<(&'static str, u64)>, DbErr> {
    let deleted = tx
        .execute_raw(sql(
            "DELETE FROM win_record WHERE activity_id = ? ORDER BY seat, round LIMIT ?",
            [id.into(), limit.into()],
        ))
        .await?;
    let rows = deleted.rows_affected();
    Ok((rows > 0).then_some(("win_record", rows)))
}

#[derive(FromQueryResult)]
struct RecentWin {
    user_id: UserId,
    drawn_at: Timestamp,
}

/// Which of the users had won within `cooldown` before the time beside them, revoked wins aside.
///
/// A win counts from the moment it was drawn until `cooldown` later, that moment excluded.
pub async fn won_since(
    conn: &impl ConnectionTrait,
    pairs: &[(UserId, Timestamp)],
    cooldown: Duration,
) -> Result<HashSet<UserId>, DbErr> {
    let times = || pairs.iter().map(|(_, accepted_at)| *accepted_at);
    let (Some(first), Some(last)) = (times().min(), times().max()) else {
        return Ok(HashSet::new());
    };
    if cooldown.is_zero() {
        return Ok(HashSet::new());
    }
    let users: Vec<UserId> = pairs.iter().map(|(user, _)| *user).collect();
    let mut values = Vec::new();
    let user_ids = in_list(&users, &mut values);
    values.extend([(first - cooldown).into(), last.into()]);
    let text = format!(
        "SELECT user_id, drawn_at FROM win_record \
         WHERE user_id IN {user_ids} AND drawn_at > ? AND drawn_at <= ? AND status = 'won'"
    );
    let wins = RecentWin::find_by_statement(sql(text, values))
        .all(conn)
        .await?;

    let held_back = pairs.iter().filter(|(user, accepted_at)| {
        wins.iter().any(|win| {
            win.user_id == *user
                && win.drawn_at <= *accepted_at
                && win.drawn_at > *accepted_at - cooldown
        })
    });
    Ok(held_back.map(|(user, _)| *user).collect())
}
