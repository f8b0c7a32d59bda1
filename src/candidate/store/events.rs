//! The `presence` and `task_completion` tables.

use std::collections::{BTreeMap, BTreeSet};

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::{INSERT_ROWS, in_list};
use crate::{
    candidate::{Presence, UserRows},
    infra::mysql::{placeholders, sql},
    kernel::{ActivityId, Timestamp, UserId},
};

/// When a user last left and entered the activity's room.
#[derive(Clone, Copy, Debug, FromQueryResult)]
pub(in crate::candidate) struct PresenceRow {
    pub(in crate::candidate) user_id: UserId,
    pub(in crate::candidate) last_leave_at: Option<Timestamp>,
    pub(in crate::candidate) last_enter_at: Option<Timestamp>,
}

/// A task that a user has finished.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::candidate) struct CompletionRow {
    pub(in crate::candidate) user_id: UserId,
    pub(in crate::candidate) task_id: String,
    pub(in crate::candidate) completed_at: Timestamp,
}

#[derive(FromQueryResult)]
struct CompletedTask {
    user_id: UserId,
    task_id: String,
}

pub(super) async fn fill_presence(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    users: &[UserId],
    rows: &mut BTreeMap<UserId, UserRows>,
) -> Result<(), DbErr> {
    let mut values = vec![activity_id.into()];
    let list = in_list(users, &mut values);
    let text = format!(
        "SELECT user_id, last_leave_at, last_enter_at FROM presence \
         WHERE activity_id = ? AND user_id IN {list}"
    );
    let found = PresenceRow::find_by_statement(sql(text, values))
        .all(conn)
        .await?;
    for row in found {
        rows.entry(row.user_id).or_default().presence = Presence {
            last_leave_at: row.last_leave_at,
            last_enter_at: row.last_enter_at,
        };
    }
    Ok(())
}

pub(super) async fn fill_completions(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    users: &[UserId],
    rows: &mut BTreeMap<UserId, UserRows>,
) -> Result<(), DbErr> {
    let mut values = vec![activity_id.into()];
    let list = in_list(users, &mut values);
    let text = format!(
        "SELECT user_id, task_id FROM task_completion \
         WHERE activity_id = ? AND user_id IN {list}"
    );
    let found = CompletedTask::find_by_statement(sql(text, values))
        .all(conn)
        .await?;
    for row in found {
        let tasks = &mut rows.entry(row.user_id).or_default().completed_tasks;
        tasks.insert(row.task_id);
    }
    Ok(())
}

/// What the users above `after` up to `last` have finished.
pub(super) async fn list_completions_between(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    after: UserId,
    last: UserId,
) -> Result<BTreeMap<UserId, BTreeSet<String>>, DbErr> {
    let found = CompletedTask::find_by_statement(sql(
        "SELECT user_id, task_id FROM task_completion \
         WHERE activity_id = ? AND user_id > ? AND user_id <= ?",
        [activity_id.into(), after.into(), last.into()],
    ))
    .all(conn)
    .await?;
    let mut completions: BTreeMap<UserId, BTreeSet<String>> = BTreeMap::new();
    for row in found {
        completions
            .entry(row.user_id)
            .or_default()
            .insert(row.task_id);
    }
    Ok(completions)
}

/// Merges each into what is stored: the later of both counts. Sorted by user id.
pub(in crate::candidate) async fn upsert_presence(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    changed: &[PresenceRow],
) -> Result<(), DbErr> {
    // GREATEST is NULL as soon as one side is, so NULLs are told apart first.
    let later = |column: &str| {
        format!(
            "{column} = CASE WHEN {column} IS NULL OR VALUES({column}) > {column} \
             THEN VALUES({column}) ELSE {column} END"
        )
    };
    for chunk in changed.chunks(INSERT_ROWS) {
        let text = format!(
            "INSERT INTO presence (activity_id, user_id, last_leave_at, last_enter_at) VALUES {} \
             ON DUPLICATE KEY UPDATE {}, {}",
            placeholders(chunk.len(), 4),
            later("last_leave_at"),
            later("last_enter_at")
        );
        let values = chunk.iter().flat_map(|row| {
            [
                activity_id.into(),
                row.user_id.into(),
                row.last_leave_at.into(),
                row.last_enter_at.into(),
            ]
        });
        conn.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}

/// Adds completions that were not there when they were read, sorted by user id and task.
pub(in crate::candidate) async fn insert_completions(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    new: &[CompletionRow],
) -> Result<(), DbErr> {
    for chunk in new.chunks(INSERT_ROWS) {
        let text = format!(
            "INSERT INTO task_completion (activity_id, user_id, task_id, completed_at) VALUES {}",
            placeholders(chunk.len(), 4)
        );
        let values = chunk.iter().flat_map(|row| {
            [
                activity_id.into(),
                row.user_id.into(),
                row.task_id.clone().into(),
                row.completed_at.into(),
            ]
        });
        conn.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}
