//! The `win_record` table. No other file reads or writes it.

use std::{collections::HashSet, time::Duration};

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::{WinRecord, WinStatus};
use crate::{
    infra::mysql::{placeholders, sql},
    kernel::{ActivityId, PrizeId, Timestamp, UserId, WinRecordId},
};

/// Rows of one INSERT; fixed, so that few statements have to be prepared.
const BATCH: usize = 200;

#[derive(FromQueryResult)]
struct WinRow {
    id: u64,
    activity_id: u64,
    user_id: u64,
    seat: u32,
    round: u32,
    prize_id: u64,
    prize_rank: u32,
    score: f64,
    status: String,
    drawn_at: Timestamp,
}

impl WinRow {
    const COLUMNS: &'static str =
        "id, activity_id, user_id, seat, round, prize_id, prize_rank, score, status, drawn_at";

    fn into_record(self) -> Result<WinRecord, DbErr> {
        let status = WinStatus::parse(&self.status)
            .ok_or_else(|| DbErr::Type(format!("win record {} is `{}`", self.id, self.status)))?;
        Ok(WinRecord {
            id: WinRecordId(self.id),
            activity_id: ActivityId(self.activity_id),
            user_id: UserId(self.user_id),
            seat: self.seat,
            round: self.round,
            prize_id: PrizeId(self.prize_id),
            prize_rank: self.prize_rank,
            score: self.score,
            status,
            drawn_at: self.drawn_at,
        })
    }
}

/// Writes win records in the caller's transaction.
///
/// The unique keys refuse a second win of a user and a second holder of a seat in a round.
pub async fn record(tx: &impl ConnectionTrait, wins: &[WinRecord]) -> Result<(), DbErr> {
    for batch in wins.chunks(BATCH) {
        let text = format!(
            "INSERT INTO win_record ({}, fulfilment) VALUES {}",
            WinRow::COLUMNS,
            placeholders(batch.len(), 11)
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
                "pending".into(),
            ]
        });
        tx.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}

#[derive(FromQueryResult)]
struct RecentWin {
    user_id: u64,
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
    let text = format!(
        "SELECT user_id, drawn_at FROM win_record \
         WHERE user_id IN {} AND drawn_at > ? AND drawn_at <= ? AND status = 'won'",
        placeholders(1, pairs.len())
    );
    let users = pairs.iter().map(|(user, _)| user.0.into());
    let values = users.chain([(first - cooldown).into(), last.into()]);
    let wins = RecentWin::find_by_statement(sql(text, values))
        .all(conn)
        .await?;

    let held_back = pairs.iter().filter(|(user, accepted_at)| {
        wins.iter().any(|win| {
            win.user_id == user.0
                && win.drawn_at <= *accepted_at
                && win.drawn_at > *accepted_at - cooldown
        })
    });
    Ok(held_back.map(|(user, _)| *user).collect())
}
