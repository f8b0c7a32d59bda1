//! The `win_record` table: what happens to a record after the draw. Every change carries the state
//! that it was decided on.

use std::collections::HashMap;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::{Fulfilment, FulfilmentState, WinStatus};
use crate::{
    infra::mysql::{in_list, sql},
    kernel::{ActivityId, PrizeId, Timestamp, UserId, WinRecordId},
};

/// What taking wins back says of them.
#[derive(Clone, Copy, Debug)]
pub struct Revocation<'a> {
    pub round: u32,
    pub at: Timestamp,
    pub reason: &'a str,
}

/// Takes wins of an activity back in the caller's transaction and tells how many: not those that
/// were revoked or delivered before.
pub async fn revoke(
    tx: &impl ConnectionTrait,
    activity_id: ActivityId,
    ids: &[WinRecordId],
    revocation: &Revocation<'_>,
) -> Result<u64, DbErr> {
    let mut values = vec![
        revocation.round.into(),
        revocation.at.into(),
        revocation.reason.into(),
        activity_id.into(),
    ];
    let ids = in_list(ids, &mut values);
    let text = format!(
        "UPDATE win_record SET status = 'revoked', revoked_round = ?, revoked_at = ?, \
         revoke_reason = ? WHERE activity_id = ? AND status = 'won' \
         AND fulfilment <> 'delivered' AND id IN {ids}"
    );
    let result = tx.execute_raw(sql(text, values)).await?;
    Ok(result.rows_affected())
}

#[derive(FromQueryResult)]
struct FulfilmentRow {
    id: WinRecordId,
    activity_id: ActivityId,
    user_id: UserId,
    status: String,
    fulfilment: String,
    fulfilment_ref: Option<String>,
}

impl FulfilmentRow {
    const COLUMNS: &'static str = "id, activity_id, user_id, status, fulfilment, fulfilment_ref";

    fn into_handed_out(self) -> Result<HandedOut, DbErr> {
        let unknown = |word: &str| DbErr::Type(format!("win record {} is `{word}`", self.id));
        let status = WinStatus::parse(&self.status).ok_or_else(|| unknown(&self.status))?;
        let state =
            FulfilmentState::parse(&self.fulfilment).ok_or_else(|| unknown(&self.fulfilment))?;
        Ok(HandedOut {
            activity_id: self.activity_id,
            user_id: self.user_id,
            status,
            fulfilment: Fulfilment {
                state,
                reference: self.fulfilment_ref,
            },
        })
    }
}

/// A won prize and how far it is.
#[derive(Debug)]
pub(super) struct HandedOut {
    pub(super) activity_id: ActivityId,
    pub(super) user_id: UserId,
    pub(super) status: WinStatus,
    pub(super) fulfilment: Fulfilment,
}

/// One record, locked.
pub(super) async fn find_handed_out_for_update(
    tx: &impl ConnectionTrait,
    id: WinRecordId,
) -> Result<Option<HandedOut>, DbErr> {
    let text = format!(
        "SELECT {} FROM win_record WHERE id = ? FOR UPDATE",
        FulfilmentRow::COLUMNS
    );
    let row = FulfilmentRow::find_by_statement(sql(text, [id.into()]))
        .one(tx)
        .await?;
    row.map(FulfilmentRow::into_handed_out).transpose()
}

/// How far the prizes of these records are; unknown ids are left out.
pub async fn list_fulfilments(
    conn: &impl ConnectionTrait,
    ids: &[WinRecordId],
) -> Result<HashMap<WinRecordId, Fulfilment>, DbErr> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut values = Vec::new();
    let list = in_list(ids, &mut values);
    let text = format!(
        "SELECT {} FROM win_record WHERE id IN {list}",
        FulfilmentRow::COLUMNS
    );
    let rows = FulfilmentRow::find_by_statement(sql(text, values))
        .all(conn)
        .await?;
    rows.into_iter()
        .map(|row| Ok((row.id, row.into_handed_out()?.fulfilment)))
        .collect()
}

/// A win with everything that happened to it.
#[derive(Clone, Debug, FromQueryResult)]
pub struct WinHistory {
    pub id: WinRecordId,
    pub user_id: UserId,
    pub seat: u32,
    pub round: u32,
    pub prize_id: PrizeId,
    pub prize_rank: u32,
    pub score: f64,
    pub status: String,
    pub fulfilment: String,
    pub fulfilment_ref: Option<String>,
    pub drawn_at: Timestamp,
    pub revoked_round: Option<u32>,
    pub revoked_at: Option<Timestamp>,
}

impl WinHistory {
    const COLUMNS: &'static str = "id, user_id, seat, round, prize_id, prize_rank, score, status, \
         fulfilment, fulfilment_ref, drawn_at, revoked_round, revoked_at";
}

/// One win of an activity.
pub async fn find_history(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    id: WinRecordId,
) -> Result<Option<WinHistory>, DbErr> {
    let text = format!(
        "SELECT {} FROM win_record WHERE id = ? AND activity_id = ?",
        WinHistory::COLUMNS
    );
    WinHistory::find_by_statement(sql(text, [id.into(), activity_id.into()]))
        .one(conn)
        .await
}

/// Wins of an activity behind a seat and a round, by both, revoked ones too.
pub async fn list_histories(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    (seat, round): (u32, u32),
    limit: u32,
) -> Result<Vec<WinHistory>, DbErr> {
    WinHistory::find_by_statement(sql(
        format!(
            "SELECT {} FROM win_record WHERE activity_id = ? AND seat >= ? \
             AND (seat > ? OR round > ?) ORDER BY seat, round LIMIT ?",
            WinHistory::COLUMNS
        ),
        [
            activity_id.into(),
            seat.into(),
            seat.into(),
            round.into(),
            limit.into(),
        ],
    ))
    .all(conn)
    .await
}

/// Notes how far a prize is now; fails when it was not at `from`, which the caller's lock rules out.
pub(super) async fn move_fulfilment(
    tx: &impl ConnectionTrait,
    id: WinRecordId,
    from: FulfilmentState,
    to: &Fulfilment,
) -> Result<(), DbErr> {
    let result = tx
        .execute_raw(sql(
            "UPDATE win_record SET fulfilment = ?, fulfilment_ref = ? \
             WHERE id = ? AND status = 'won' AND fulfilment = ?",
            [
                to.state.as_str().into(),
                to.reference.clone().into(),
                id.into(),
                from.as_str().into(),
            ],
        ))
        .await?;
    if result.rows_affected() == 1 {
        Ok(())
    } else {
        Err(DbErr::RecordNotUpdated)
    }
}
