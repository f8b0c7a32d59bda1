//! The tables of the admin database. No other file reads or writes them.

use std::collections::HashSet;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, Value};

use crate::{
    activity::ActivityDetail,
    infra::mysql::{in_list, placeholders, sql},
    kernel::{ActivityId, truncate_to_millis},
    winners::WinHistory,
};

/// Rows of one INSERT.
const BATCH: usize = 200;

/// Values of one `IN (…)`.
const IN_VALUES: usize = 1_024;

/// What the table holds after a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// What was copied.
    Copied,
    /// A higher version than the one that was to be copied.
    Newer,
}

/// In the order of [`activity_values`]; `version` comes last, for what is assigned before it is
/// compared with the version that was there.
const ACTIVITY_COLUMNS: [&str; 24] = [
    "id",
    "status",
    "status_reason",
    "room_id",
    "host_id",
    "title",
    "conditions",
    "prizes",
    "winner_count",
    "tasks",
    "presence_rule",
    "one_entry_per_device",
    "cooldown_secs",
    "start_at",
    "draw_at",
    "drawn_at",
    "commitment",
    "joined_count",
    "eligible_count",
    "cutoff_score",
    "proof_published_at",
    "round",
    "created_at",
    "version",
];

fn activity_values(detail: &ActivityDetail) -> Result<Vec<Value>, DbErr> {
    let json = |error: serde_json::Error| DbErr::Json(error.to_string());
    let time = |at: Option<crate::kernel::Timestamp>| Value::from(at.map(truncate_to_millis));
    Ok(vec![
        detail.id.into(),
        detail.status.as_str().into(),
        detail.status_reason.clone().into(),
        detail.room_id.into(),
        detail.host_id.into(),
        detail.title.as_str().into(),
        detail.conditions.clone().into(),
        serde_json::to_string(&detail.prizes).map_err(json)?.into(),
        detail.winner_count.into(),
        serde_json::to_string(&detail.tasks).map_err(json)?.into(),
        detail.presence_rule.as_str().into(),
        detail.one_entry_per_device.into(),
        detail.cooldown_seconds.into(),
        time(detail.start_at),
        time(detail.draw_at),
        time(detail.drawn_at),
        detail.commitment.clone().into(),
        detail.joined_count.into(),
        detail.eligible_count.into(),
        detail.cutoff_score.into(),
        time(detail.proof_published_at),
        detail.round.into(),
        truncate_to_millis(detail.created_at).into(),
        detail.version.into(),
    ])
}

/// Writes an activity unless a higher version is there; either way its row is locked from then on.
pub(super) async fn upsert_activity(
    tx: &impl ConnectionTrait,
    detail: &ActivityDetail,
) -> Result<Kept, DbErr> {
    const IS_NEWER: &str = "VALUES(version) >= version";

    let guarded = |column: &str| format!("{column} = IF({IS_NEWER}, VALUES({column}), {column})");
    let mut assignments = vec![format!("copied_at = IF({IS_NEWER}, NOW(3), copied_at)")];
    assignments.extend(ACTIVITY_COLUMNS[1..].iter().map(|column| guarded(column)));
    let text = format!(
        "INSERT INTO activity_copy (copied_at, {}) VALUES (NOW(3), {}) ON DUPLICATE KEY UPDATE {}",
        ACTIVITY_COLUMNS.join(", "),
        vec!["?"; ACTIVITY_COLUMNS.len()].join(", "),
        assignments.join(", ")
    );
    tx.execute_raw(sql(text, activity_values(detail)?)).await?;
    let held = find_version_for_update(tx, detail.id).await?;
    Ok(if held == Some(detail.version) {
        Kept::Copied
    } else {
        Kept::Newer
    })
}

#[derive(FromQueryResult)]
struct VersionRow {
    version: u32,
}

async fn find_version_for_update(
    tx: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<Option<u32>, DbErr> {
    let row = VersionRow::find_by_statement(sql(
        "SELECT version FROM activity_copy WHERE id = ? FOR UPDATE",
        [id.into()],
    ))
    .one(tx)
    .await?;
    Ok(row.map(|row| row.version))
}

/// Makes other copies of this activity wait; `false` when it was never copied.
pub(super) async fn lock_activity(
    tx: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<bool, DbErr> {
    Ok(find_version_for_update(tx, id).await?.is_some())
}

#[derive(FromQueryResult)]
struct IdRow {
    id: u64,
}

/// The win records of an activity that are there.
pub(super) async fn list_win_ids(
    tx: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<HashSet<u64>, DbErr> {
    let rows = IdRow::find_by_statement(sql(
        "SELECT id FROM win_record_copy WHERE activity_id = ?",
        [id.into()],
    ))
    .all(tx)
    .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

const WIN_COLUMNS: [&str; 14] = [
    "id",
    "activity_id",
    "user_id",
    "seat",
    "round",
    "prize_id",
    "prize_rank",
    "score",
    "status",
    "fulfilment",
    "fulfilment_ref",
    "drawn_at",
    "revoked_round",
    "revoked_at",
];

/// Writes win records over what is there; the activity's row is locked.
pub(super) async fn upsert_wins(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    wins: &[WinHistory],
) -> Result<(), DbErr> {
    let assignments: Vec<String> = WIN_COLUMNS[1..]
        .iter()
        .map(|column| format!("{column} = VALUES({column})"))
        .collect();
    for batch in wins.chunks(BATCH) {
        let text = format!(
            "INSERT INTO win_record_copy ({}) VALUES {} ON DUPLICATE KEY UPDATE {}",
            WIN_COLUMNS.join(", "),
            placeholders(batch.len(), WIN_COLUMNS.len()),
            assignments.join(", ")
        );
        let values = batch.iter().flat_map(|win| win_values(id, win));
        tx.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}

fn win_values(id: ActivityId, win: &WinHistory) -> [Value; 14] {
    [
        win.id.into(),
        id.into(),
        win.user_id.into(),
        win.seat.into(),
        win.round.into(),
        win.prize_id.into(),
        win.prize_rank.into(),
        win.score.into(),
        win.status.as_str().into(),
        win.fulfilment.as_str().into(),
        win.fulfilment_ref.clone().into(),
        win.drawn_at.into(),
        win.revoked_round.into(),
        win.revoked_at.into(),
    ]
}

/// Removes win records that are not kept any more.
pub(super) async fn delete_wins(tx: &impl ConnectionTrait, ids: Vec<u64>) -> Result<(), DbErr> {
    for chunk in ids.chunks(IN_VALUES) {
        let mut values = Vec::new();
        let list = in_list(chunk, &mut values);
        let text = format!("DELETE FROM win_record_copy WHERE id IN {list}");
        tx.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}
