//! What is stored about one user as a winner.

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};
use serde::Serialize;

use crate::{
    infra::mysql::sql,
    kernel::{ActivityId, PrizeId, Timestamp, UserId, WinRecordId, to_millis},
};

/// A win record, whole.
#[derive(Clone, Debug, FromQueryResult, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredWin {
    #[serde(rename = "winRecordId")]
    pub id: WinRecordId,
    pub activity_id: ActivityId,
    pub seat: u32,
    pub round: u32,
    pub prize_id: PrizeId,
    pub prize_rank: u32,
    pub score: f64,
    pub status: String,
    pub fulfilment: String,
    pub fulfilment_ref: Option<String>,
    #[serde(with = "to_millis")]
    pub drawn_at: Timestamp,
    #[serde(with = "to_millis::option")]
    pub revoked_at: Option<Timestamp>,
    pub revoke_reason: Option<String>,
}

/// Everything that a user has won, the oldest first, revoked wins too.
pub async fn list_of_user(
    conn: &impl ConnectionTrait,
    user_id: UserId,
) -> Result<Vec<StoredWin>, DbErr> {
    StoredWin::find_by_statement(sql(
        "SELECT id, activity_id, seat, round, prize_id, prize_rank, score, status, fulfilment, \
         fulfilment_ref, drawn_at, revoked_at, revoke_reason \
         FROM win_record WHERE user_id = ? ORDER BY drawn_at, id",
        [user_id.into()],
    ))
    .all(conn)
    .await
}
