//! What of an activity is past its life: the columns that say so, and the `removal` table, which
//! knows what is still to be removed.

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::PROJECTION;
use crate::{
    infra::{mysql::sql, outbox::Entry},
    kernel::ActivityId,
};

/// What has a life of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Everything about who took part.
    Participants,
    /// Who won what.
    WinRecords,
}

impl Removal {
    const ALL: [Self; 2] = [Self::Participants, Self::WinRecords];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Participants => "participants",
            Self::WinRecords => "winRecords",
        }
    }

    const fn column(self) -> &'static str {
        match self {
            Self::Participants => "participants_removed_at",
            Self::WinRecords => "wins_removed_at",
        }
    }
}

#[derive(FromQueryResult)]
struct DueRow {
    id: ActivityId,
    version: u32,
}

/// Begins the next removal that is due, `life_days` after the draw, the cancellation or the
/// rejection; answers what the caller's transaction owes for it, or `None`: none is due.
///
/// A draw whose proof is not published needs its participants, however old it is.
pub async fn begin(
    tx: &impl ConnectionTrait,
    what: Removal,
    life_days: u32,
) -> Result<Option<Entry>, DbErr> {
    let column = what.column();
    let text = format!(
        "SELECT id, version FROM activity \
         WHERE {column} IS NULL AND over_at < NOW(3) - INTERVAL ? DAY \
         AND (status IN ('cancelled', 'rejected') OR (status = 'drawn' AND proof_published_at IS NOT NULL)) \
         ORDER BY over_at LIMIT 1 FOR UPDATE SKIP LOCKED"
    );
    let due = DueRow::find_by_statement(sql(text, [life_days.into()]))
        .one(tx)
        .await?;
    let Some(DueRow { id, version }) = due else {
        return Ok(None);
    };
    let version = version + 1;
    // Nobody changes the activity: `updated_at`, from which a rejected one ages, stays.
    let text = format!("UPDATE activity SET {column} = NOW(3), version = ? WHERE id = ?");
    tx.execute_raw(sql(text, [version.into(), id.into()]))
        .await?;
    tx.execute_raw(sql(
        "INSERT INTO removal (activity_id, what) VALUES (?, ?)",
        [id.into(), what.as_str().into()],
    ))
    .await?;
    Ok(Some(Entry::Project {
        what: PROJECTION,
        activity_id: id,
        version,
    }))
}

/// Copies of an activity in memory live for about a second; for up to a minute where neither Redis nor
/// `MySQL` answers.
const KNOWN_AFTER_SECS: u32 = 5;

#[derive(FromQueryResult)]
struct RemovalRow {
    activity_id: ActivityId,
    what: String,
}

/// Locks a removal that nobody else is at and that began long enough ago for every process to know
/// of it: until then a copy of the activity in memory would have answers made of what is left. Who
/// reads rows makes sure afterwards that their removal has not begun.
pub async fn find_begun_for_update(
    tx: &impl ConnectionTrait,
) -> Result<Option<(ActivityId, Removal)>, DbErr> {
    let row = RemovalRow::find_by_statement(sql(
        "SELECT activity_id, what FROM removal WHERE begun_at <= NOW(3) - INTERVAL ? SECOND \
         LIMIT 1 FOR UPDATE SKIP LOCKED",
        [KNOWN_AFTER_SECS.into()],
    ))
    .one(tx)
    .await?;
    row.map(|row| {
        let what = Removal::ALL
            .into_iter()
            .find(|what| what.as_str() == row.what);
        let what = what.ok_or_else(|| DbErr::Type(format!("a removal of `{}`", row.what)))?;
        Ok((row.activity_id, what))
    })
    .transpose()
}

/// Ends a removal: nothing is left to remove.
pub async fn finish(tx: &impl ConnectionTrait, id: ActivityId, what: Removal) -> Result<(), DbErr> {
    tx.execute_raw(sql(
        "DELETE FROM removal WHERE activity_id = ? AND what = ?",
        [id.into(), what.as_str().into()],
    ))
    .await
    .map(|_| ())
}
