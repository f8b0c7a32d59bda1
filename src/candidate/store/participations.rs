//! The `participation` table.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::{IN_VALUES, INSERT_ROWS, Lock, PageOf, events, in_list};
use crate::{
    candidate::{Participation, Presence, UserRows, Verdict},
    infra::mysql::sql,
    kernel::{ActivityId, Timestamp, UserId},
};

#[derive(FromQueryResult)]
struct ParticipationRow {
    user_id: UserId,
    device_id: Option<String>,
    status: String,
    reason: Option<String>,
    is_trimmed: bool,
    accepted_at: Timestamp,
    request_id: String,
    revision: u32,
}

fn verdict(user_id: UserId, status: &str, reason: Option<&str>) -> Result<Verdict, DbErr> {
    Verdict::parse(status, reason).ok_or_else(|| {
        DbErr::Type(format!(
            "the participation of user {user_id} is `{status}`, reason `{reason:?}`"
        ))
    })
}

pub(super) async fn fill(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    users: &[UserId],
    lock: Lock,
    rows: &mut BTreeMap<UserId, UserRows>,
) -> Result<(), DbErr> {
    let mut values = vec![activity_id.into()];
    let list = in_list(users, &mut values);
    let lock = match lock {
        Lock::ForUpdate => "ORDER BY user_id FOR UPDATE",
        Lock::None => "",
    };
    let text = format!(
        "SELECT user_id, device_id, status, reason, is_trimmed, accepted_at, request_id, revision \
         FROM participation WHERE activity_id = ? AND user_id IN {list} {lock}"
    );
    let found = ParticipationRow::find_by_statement(sql(text, values))
        .all(conn)
        .await?;
    for row in found {
        rows.entry(row.user_id).or_default().participation = Some(Participation {
            verdict: verdict(row.user_id, &row.status, row.reason.as_deref())?,
            is_trimmed: row.is_trimmed,
            device_id: row.device_id,
            accepted_at: row.accepted_at,
            request_id: row.request_id,
            revision: row.revision,
        });
    }
    Ok(())
}

#[derive(FromQueryResult)]
struct PageRow {
    user_id: UserId,
    status: String,
    reason: Option<String>,
    is_trimmed: bool,
    accepted_at: Timestamp,
    revision: u32,
    last_leave_at: Option<Timestamp>,
    last_enter_at: Option<Timestamp>,
}

/// Participations with user ids above `after`, in their order. Device and request ids are left
/// out: a page is for who may win.
pub(in crate::candidate) async fn list_page(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    page_of: PageOf,
    after: UserId,
    limit: u64,
) -> Result<Vec<(UserId, UserRows)>, DbErr> {
    let condition = match page_of {
        PageOf::All => "",
        PageOf::Joined => "AND p.status = 'joined'",
        PageOf::Entries => "AND p.status IN ('joined', 'rejected')",
        PageOf::Trimmed => "AND p.status = 'joined' AND p.is_trimmed = TRUE",
    };
    let text = format!(
        "SELECT p.user_id, p.status, p.reason, p.is_trimmed, p.accepted_at, p.revision, \
         q.last_leave_at, q.last_enter_at FROM participation p \
         LEFT JOIN presence q ON q.activity_id = p.activity_id AND q.user_id = p.user_id \
         WHERE p.activity_id = ? AND p.user_id > ? {condition} ORDER BY p.user_id LIMIT ?"
    );
    let values = [activity_id.into(), after.into(), limit.into()];
    let found = PageRow::find_by_statement(sql(text, values))
        .all(conn)
        .await?;
    let Some(last) = found.last().map(|row| row.user_id) else {
        return Ok(Vec::new());
    };
    let mut completions = events::list_completions_between(conn, activity_id, after, last).await?;

    found
        .into_iter()
        .map(|row| {
            let rows = UserRows {
                participation: Some(Participation {
                    verdict: verdict(row.user_id, &row.status, row.reason.as_deref())?,
                    is_trimmed: row.is_trimmed,
                    device_id: None,
                    accepted_at: row.accepted_at,
                    request_id: String::new(),
                    revision: row.revision,
                }),
                presence: Presence {
                    last_leave_at: row.last_leave_at,
                    last_enter_at: row.last_enter_at,
                },
                completed_tasks: completions.remove(&row.user_id).unwrap_or_default(),
            };
            Ok((row.user_id, rows))
        })
        .collect()
}

/// Adds participations that were not there when they were read, sorted by user id.
pub(in crate::candidate) async fn insert_participations(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    new: &[(UserId, &Participation)],
) -> Result<(), DbErr> {
    for chunk in new.chunks(INSERT_ROWS) {
        let rows = vec!["(?, ?, ?, ?, ?, ?, ?, ?, ?, NOW(3))"; chunk.len()].join(", ");
        let text = format!(
            "INSERT INTO participation (activity_id, user_id, device_id, status, reason, \
             is_trimmed, accepted_at, request_id, revision, created_at) VALUES {rows}"
        );
        let values = chunk.iter().flat_map(|(user_id, participation)| {
            let (status, reason) = participation.verdict.as_words();
            [
                activity_id.into(),
                (*user_id).into(),
                participation.device_id.clone().into(),
                status.into(),
                reason.into(),
                participation.is_trimmed.into(),
                participation.accepted_at.into(),
                participation.request_id.clone().into(),
                participation.revision.into(),
            ]
        });
        conn.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}

/// Raises the revision of each by one; they are locked by the caller's read.
pub(in crate::candidate) async fn bump_revisions(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    users: &[UserId],
) -> Result<(), DbErr> {
    for chunk in users.chunks(IN_VALUES) {
        let mut values = vec![activity_id.into()];
        let list = in_list(chunk, &mut values);
        let text = format!(
            "UPDATE participation SET revision = revision + 1 \
             WHERE activity_id = ? AND user_id IN {list}"
        );
        conn.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}
