//! The rows of one user in many activities: shown, and removed.

use std::ops::AddAssign;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, Value};
use serde::Serialize;

use super::in_list;
use crate::{
    infra::mysql::sql,
    kernel::{ActivityId, Timestamp, UserId, to_millis},
};

/// A participation, whole.
#[derive(Clone, Debug, FromQueryResult, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredParticipation {
    pub activity_id: ActivityId,
    pub status: String,
    pub reason: Option<String>,
    pub device_id: Option<String>,
    pub is_trimmed: bool,
    #[serde(with = "to_millis")]
    pub accepted_at: Timestamp,
    pub request_id: String,
    pub revision: u32,
    #[serde(with = "to_millis")]
    pub created_at: Timestamp,
}

/// When the user last left and entered an activity's room.
#[derive(Clone, Debug, FromQueryResult, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPresence {
    pub activity_id: ActivityId,
    #[serde(with = "to_millis::option")]
    pub last_leave_at: Option<Timestamp>,
    #[serde(with = "to_millis::option")]
    pub last_enter_at: Option<Timestamp>,
}

/// A task that the user has finished.
#[derive(Clone, Debug, FromQueryResult, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredCompletion {
    pub activity_id: ActivityId,
    pub task_id: String,
    #[serde(with = "to_millis")]
    pub completed_at: Timestamp,
}

/// A device whose one entry the user holds.
#[derive(Clone, Debug, FromQueryResult, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredClaim {
    pub activity_id: ActivityId,
    pub device_id: String,
}

/// `activity_id IN (…) AND user_id = ?`: by the primary key of each table, none of which has an
/// index over users.
fn condition(ids: &[ActivityId], user_id: UserId) -> (String, Vec<Value>) {
    let mut values = Vec::new();
    let list = in_list(ids, &mut values);
    values.push(user_id.into());
    (format!("activity_id IN {list} AND user_id = ?"), values)
}

/// The user's participations in these activities.
pub(in crate::candidate) async fn list_participations_of(
    conn: &impl ConnectionTrait,
    ids: &[ActivityId],
    user_id: UserId,
) -> Result<Vec<StoredParticipation>, DbErr> {
    let (condition, values) = condition(ids, user_id);
    let text = format!(
        "SELECT activity_id, status, reason, device_id, is_trimmed, accepted_at, request_id, \
         revision, created_at FROM participation WHERE {condition} ORDER BY activity_id"
    );
    StoredParticipation::find_by_statement(sql(text, values))
        .all(conn)
        .await
}

/// The user's comings and goings in these activities.
pub(in crate::candidate) async fn list_presence_of(
    conn: &impl ConnectionTrait,
    ids: &[ActivityId],
    user_id: UserId,
) -> Result<Vec<StoredPresence>, DbErr> {
    let (condition, values) = condition(ids, user_id);
    let text = format!(
        "SELECT activity_id, last_leave_at, last_enter_at FROM presence \
         WHERE {condition} ORDER BY activity_id"
    );
    StoredPresence::find_by_statement(sql(text, values))
        .all(conn)
        .await
}

/// What the user has finished in these activities.
pub(in crate::candidate) async fn list_completions_of(
    conn: &impl ConnectionTrait,
    ids: &[ActivityId],
    user_id: UserId,
) -> Result<Vec<StoredCompletion>, DbErr> {
    let (condition, values) = condition(ids, user_id);
    let text = format!(
        "SELECT activity_id, task_id, completed_at FROM task_completion \
         WHERE {condition} ORDER BY activity_id, task_id"
    );
    StoredCompletion::find_by_statement(sql(text, values))
        .all(conn)
        .await
}

/// The entries of devices that the user holds: a claim is made with the participation that names
/// its device.
pub(in crate::candidate) async fn list_claims_of(
    conn: &impl ConnectionTrait,
    participations: &[StoredParticipation],
    user_id: UserId,
) -> Result<Vec<StoredClaim>, DbErr> {
    let mut claims = Vec::new();
    for participation in participations {
        let Some(device_id) = &participation.device_id else {
            continue;
        };
        let found = StoredClaim::find_by_statement(sql(
            "SELECT activity_id, device_id FROM device_claim \
             WHERE activity_id = ? AND device_id = ? AND user_id = ?",
            [
                participation.activity_id.into(),
                device_id.as_str().into(),
                user_id.into(),
            ],
        ))
        .one(conn)
        .await?;
        claims.extend(found);
    }
    Ok(claims)
}

/// How many rows of a user were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedRows {
    pub participations: u64,
    pub presence: u64,
    pub completed_tasks: u64,
    pub device_claims: u64,
}

impl AddAssign for RemovedRows {
    fn add_assign(&mut self, other: Self) {
        self.participations += other.participations;
        self.presence += other.presence;
        self.completed_tasks += other.completed_tasks;
        self.device_claims += other.device_claims;
    }
}

/// Removes everything of a user in one activity.
pub(in crate::candidate) async fn delete_rows_of(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    user_id: UserId,
) -> Result<RemovedRows, DbErr> {
    // The claim is found by its device, which the participation names.
    let claims = tx
        .execute_raw(sql(
            "DELETE FROM device_claim WHERE activity_id = ? AND user_id = ? AND device_id = \
             (SELECT device_id FROM participation WHERE activity_id = ? AND user_id = ?)",
            [id.into(), user_id.into(), id.into(), user_id.into()],
        ))
        .await?;
    let delete = async |table: &str| {
        let text = format!("DELETE FROM {table} WHERE activity_id = ? AND user_id = ?");
        let deleted = tx.execute_raw(sql(text, [id.into(), user_id.into()])).await;
        deleted.map(|deleted| deleted.rows_affected())
    };
    Ok(RemovedRows {
        device_claims: claims.rows_affected(),
        completed_tasks: delete("task_completion").await?,
        presence: delete("presence").await?,
        participations: delete("participation").await?,
    })
}
