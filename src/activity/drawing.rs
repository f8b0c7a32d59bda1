//! The draw's columns of the `activity` row: who may draw it and until when, and what came of it.
//!
//! Every change is one guarded UPDATE: it carries the state and the token it relies on, and tells
//! whether they held. A token grows with every claim, so whoever lost a claim can change nothing.

use std::time::Duration;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::Status;
use crate::{
    infra::mysql::sql,
    kernel::{ActivityId, Timestamp},
};

/// Where an activity is on its way to the draw, by the database's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawState {
    pub status: Status,
    /// `None` before the opening.
    pub draw_at: Option<Timestamp>,
    pub drawn_at: Option<Timestamp>,
    /// Of the last claim; 0 when there was none.
    pub draw_token: u64,
    /// Somebody is drawing it.
    pub is_held: bool,
    /// What the database's clock showed.
    pub now: Timestamp,
}

impl DrawState {
    /// The time of the draw while there is still something to draw.
    pub fn pending_draw_at(&self) -> Option<Timestamp> {
        match self.status {
            Status::Open | Status::Drawing => self.draw_at,
            Status::Draft
            | Status::InReview
            | Status::Rejected
            | Status::Ready
            | Status::Drawn
            | Status::Cancelled => None,
        }
    }
}

#[derive(FromQueryResult)]
struct StateRow {
    status: String,
    draw_at: Option<Timestamp>,
    drawn_at: Option<Timestamp>,
    draw_token: u64,
    lease_until: Option<Timestamp>,
    now: Timestamp,
}

/// Reads the state without a lock.
pub async fn find_state(
    conn: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<Option<DrawState>, DbErr> {
    let row = StateRow::find_by_statement(sql(
        "SELECT status, draw_at, drawn_at, draw_token, lease_until, NOW(3) AS now \
         FROM activity WHERE id = ?",
        [id.into()],
    ))
    .one(conn)
    .await?;
    row.map(|row| state_of(id, &row)).transpose()
}

fn state_of(id: ActivityId, row: &StateRow) -> Result<DrawState, DbErr> {
    let status = Status::parse(&row.status)
        .ok_or_else(|| DbErr::Type(format!("activity {id} is `{}`", row.status)))?;
    Ok(DrawState {
        status,
        draw_at: row.draw_at,
        drawn_at: row.drawn_at,
        draw_token: row.draw_token,
        is_held: row.lease_until.is_some_and(|until| until >= row.now),
        now: row.now,
    })
}

/// Claims the draw for `lease` and returns the new token; `None` when the activity is not open or
/// drawing, not due yet, or held by somebody else.
///
/// Call it in a transaction of its own: the token is read back behind the update.
pub async fn claim(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    lease: Duration,
) -> Result<Option<u64>, DbErr> {
    let result = tx
        .execute_raw(sql(
            "UPDATE activity \
             SET draw_token = draw_token + 1, lease_until = NOW(3) + INTERVAL ? MICROSECOND \
             WHERE id = ? AND status IN ('open', 'drawing') AND draw_at <= NOW(3) \
             AND (lease_until IS NULL OR lease_until < NOW(3))",
            [micros(lease).into(), id.into()],
        ))
        .await?;
    if result.rows_affected() == 0 {
        return Ok(None);
    }
    Ok(find_state(tx, id).await?.map(|state| state.draw_token))
}

/// Moves the end of the lease; `false` when the claim is no longer the latest one, or was given back:
/// a renewal that is overtaken by the release must not bring the lease back.
pub async fn renew(
    conn: &impl ConnectionTrait,
    id: ActivityId,
    token: u64,
    lease: Duration,
) -> Result<bool, DbErr> {
    let result = conn
        .execute_raw(sql(
            "UPDATE activity SET lease_until = NOW(3) + INTERVAL ? MICROSECOND \
             WHERE id = ? AND draw_token = ? AND status IN ('open', 'drawing') \
             AND lease_until IS NOT NULL",
            [micros(lease).into(), id.into(), token.into()],
        ))
        .await?;
    Ok(result.rows_affected() == 1)
}

/// Ends the lease at once, so that the next attempt need not wait for it to run out.
pub async fn release(conn: &impl ConnectionTrait, id: ActivityId, token: u64) -> Result<(), DbErr> {
    conn.execute_raw(sql(
        "UPDATE activity SET lease_until = NULL WHERE id = ? AND draw_token = ?",
        [id.into(), token.into()],
    ))
    .await
    .map(|_| ())
}

/// Shuts the stream out: from here on nothing about eligibility changes. `false` when the claim is
/// no longer the latest one.
///
/// Waits for the transactions that hold the row's shared lock.
pub async fn freeze(
    conn: &impl ConnectionTrait,
    id: ActivityId,
    token: u64,
) -> Result<bool, DbErr> {
    let result = conn
        .execute_raw(sql(
            "UPDATE activity SET status = 'drawing', version = version + 1, updated_at = NOW(3) \
             WHERE id = ? AND draw_token = ? AND status IN ('open', 'drawing')",
            [id.into(), token.into()],
        ))
        .await?;
    Ok(result.rows_affected() == 1)
}

/// The figures that are final with the draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinalFigures {
    pub joined_count: u64,
    pub rejected_count: u64,
    pub eligible_count: u64,
    /// The lowest score that won; `None` when nobody did.
    pub cutoff_score: Option<f64>,
}

/// Marks the row drawn, in round 1, and returns its new version; `None` when the claim is no longer
/// the latest one or the activity is not being drawn.
///
/// Takes the row's lock, so it comes first in its transaction.
pub async fn mark_drawn(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    token: u64,
    drawn_at: Timestamp,
    figures: &FinalFigures,
) -> Result<Option<u32>, DbErr> {
    let result = tx
        .execute_raw(sql(
            "UPDATE activity SET status = 'drawn', drawn_at = ?, joined_count = ?, \
             rejected_count = ?, eligible_count = ?, cutoff_score = ?, round = 1, lease_until = NULL, \
             version = version + 1, updated_at = NOW(3) \
             WHERE id = ? AND draw_token = ? AND status = 'drawing'",
            [
                drawn_at.into(),
                figures.joined_count.into(),
                figures.rejected_count.into(),
                figures.eligible_count.into(),
                figures.cutoff_score.into(),
                id.into(),
                token.into(),
            ],
        ))
        .await?;
    if result.rows_affected() == 0 {
        return Ok(None);
    }
    let row = tx
        .query_one_raw(sql(
            "SELECT version FROM activity WHERE id = ?",
            [id.into()],
        ))
        .await?;
    row.map(|row| row.try_get("", "version")).transpose()
}

/// Begins the next round of a drawn activity; `false` when it is not at `version` any more. The
/// figures stay those of the draw, the cut-off score too.
pub async fn mark_redrawn(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    version: u32,
) -> Result<bool, DbErr> {
    let result = tx
        .execute_raw(sql(
            "UPDATE activity SET round = round + 1, version = version + 1, updated_at = NOW(3) \
             WHERE id = ? AND version = ? AND status = 'drawn'",
            [id.into(), version.into()],
        ))
        .await?;
    Ok(result.rows_affected() == 1)
}

#[derive(FromQueryResult)]
struct IdRow {
    id: ActivityId,
}

/// Activities whose time has come and that nobody is drawing, the most overdue first.
pub async fn list_due(conn: &impl ConnectionTrait, limit: u32) -> Result<Vec<ActivityId>, DbErr> {
    let rows = IdRow::find_by_statement(sql(
        "SELECT id FROM activity WHERE status IN ('open', 'drawing') AND draw_at <= NOW(3) \
         AND (lease_until IS NULL OR lease_until < NOW(3)) ORDER BY draw_at LIMIT ?",
        [limit.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Activities that should have been drawn more than `overdue` ago, whoever is at it.
pub async fn list_overdue(
    conn: &impl ConnectionTrait,
    overdue: Duration,
    limit: u32,
) -> Result<Vec<ActivityId>, DbErr> {
    let rows = IdRow::find_by_statement(sql(
        "SELECT id FROM activity WHERE status IN ('open', 'drawing') \
         AND draw_at < NOW(3) - INTERVAL ? MICROSECOND ORDER BY draw_at LIMIT ?",
        [micros(overdue).into(), limit.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

#[derive(FromQueryResult)]
struct SeatsRow {
    id: ActivityId,
    seats: u64,
}

/// What was drawn within the last `recent`, and how many seats its draw could fill: as many as there
/// are prizes, or as eligible participants.
pub async fn list_drawn_within(
    conn: &impl ConnectionTrait,
    recent: Duration,
) -> Result<Vec<(ActivityId, u64)>, DbErr> {
    let rows = SeatsRow::find_by_statement(sql(
        "SELECT id, CAST(LEAST(winner_count, eligible_count) AS UNSIGNED) AS seats FROM activity \
         WHERE status = 'drawn' AND draw_at > NOW(3) - INTERVAL 1 DAY \
         AND drawn_at > NOW(3) - INTERVAL ? MICROSECOND AND eligible_count IS NOT NULL",
        [micros(recent).into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.seats)).collect())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
