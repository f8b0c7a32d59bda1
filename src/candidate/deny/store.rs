//! The `deny_list` table. No other file reads or writes it.

use std::collections::BTreeSet;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};
use serde::Serialize;
use utoipa::ToSchema;

use super::DenyScope;
use crate::{
    candidate::store::{IN_VALUES, INSERT_ROWS},
    http::openapi::Moment,
    infra::mysql::{in_list, sql},
    kernel::{ActivityId, Timestamp, UserId, to_millis},
};

/// One user who may not take part.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DenyEntry {
    pub user_id: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
    pub created_by: UserId,
    #[serde(with = "to_millis")]
    #[schema(value_type = Moment)]
    pub created_at: Timestamp,
}

#[derive(FromQueryResult)]
struct UserRow {
    user_id: UserId,
}

/// Which of the users are on the platform's deny list or the activity's.
pub(in crate::candidate) async fn list_denied(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    users: &[UserId],
) -> Result<BTreeSet<UserId>, DbErr> {
    let mut denied = BTreeSet::new();
    for chunk in users.chunks(IN_VALUES) {
        let scopes = [DenyScope::Platform, DenyScope::Activity(activity_id)];
        let mut values: Vec<_> = scopes.map(|scope| scope.number().into()).to_vec();
        let list = in_list(chunk, &mut values);
        let text =
            format!("SELECT user_id FROM deny_list WHERE scope IN (?, ?) AND user_id IN {list}");
        let found = UserRow::find_by_statement(sql(text, values))
            .all(conn)
            .await?;
        denied.extend(found.into_iter().map(|row| row.user_id));
    }
    Ok(denied)
}

/// The entry of one user, locked.
pub(super) async fn find_for_update(
    conn: &impl ConnectionTrait,
    scope: DenyScope,
    user_id: UserId,
) -> Result<Option<DenyEntry>, DbErr> {
    DenyEntry::find_by_statement(sql(
        "SELECT user_id, reason, created_by, created_at FROM deny_list \
         WHERE scope = ? AND user_id = ? FOR UPDATE",
        [scope.number().into(), user_id.into()],
    ))
    .one(conn)
    .await
}

/// Entries with user ids above `after`, in their order.
pub(super) async fn list(
    conn: &impl ConnectionTrait,
    scope: DenyScope,
    after: Option<UserId>,
    limit: u64,
) -> Result<Vec<DenyEntry>, DbErr> {
    DenyEntry::find_by_statement(sql(
        "SELECT user_id, reason, created_by, created_at FROM deny_list \
         WHERE scope = ? AND user_id > ? ORDER BY user_id LIMIT ?",
        [
            scope.number().into(),
            after.map_or(0, |user| user.0).into(),
            limit.into(),
        ],
    ))
    .all(conn)
    .await
}

/// Which of the users are on this list.
pub(super) async fn list_present(
    conn: &impl ConnectionTrait,
    scope: DenyScope,
    users: &BTreeSet<UserId>,
) -> Result<BTreeSet<UserId>, DbErr> {
    let users: Vec<UserId> = users.iter().copied().collect();
    let mut present = BTreeSet::new();
    for chunk in users.chunks(IN_VALUES) {
        let mut values = vec![scope.number().into()];
        let list = in_list(chunk, &mut values);
        let text = format!("SELECT user_id FROM deny_list WHERE scope = ? AND user_id IN {list}");
        let found = UserRow::find_by_statement(sql(text, values))
            .all(conn)
            .await?;
        present.extend(found.into_iter().map(|row| row.user_id));
    }
    Ok(present)
}

/// Adds users who were not there when they were read.
pub(super) async fn insert(
    tx: &impl ConnectionTrait,
    scope: DenyScope,
    users: &BTreeSet<UserId>,
    reason: Option<&str>,
    created_by: UserId,
) -> Result<(), DbErr> {
    let users: Vec<UserId> = users.iter().copied().collect();
    for chunk in users.chunks(INSERT_ROWS) {
        let rows = vec!["(?, ?, ?, ?, NOW(3))"; chunk.len()].join(", ");
        let text = format!(
            "INSERT INTO deny_list (scope, user_id, reason, created_by, created_at) VALUES {rows}"
        );
        let values = chunk.iter().flat_map(|user| {
            [
                scope.number().into(),
                (*user).into(),
                reason.into(),
                created_by.into(),
            ]
        });
        tx.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}

/// Gives an entry that the caller has locked another reason.
pub(super) async fn update_reason(
    tx: &impl ConnectionTrait,
    scope: DenyScope,
    user_id: UserId,
    reason: &str,
) -> Result<(), DbErr> {
    tx.execute_raw(sql(
        "UPDATE deny_list SET reason = ? WHERE scope = ? AND user_id = ?",
        [reason.into(), scope.number().into(), user_id.into()],
    ))
    .await
    .map(|_| ())
}

/// Takes a user off a list; `false` when there was no entry.
pub(super) async fn delete(
    tx: &impl ConnectionTrait,
    scope: DenyScope,
    user_id: UserId,
) -> Result<bool, DbErr> {
    let deleted = tx
        .execute_raw(sql(
            "DELETE FROM deny_list WHERE scope = ? AND user_id = ?",
            [scope.number().into(), user_id.into()],
        ))
        .await?;
    Ok(deleted.rows_affected() > 0)
}

/// Removes up to `limit` entries of an activity's list, and tells how many.
pub(in crate::candidate) async fn forget(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    limit: u64,
) -> Result<u64, DbErr> {
    let deleted = tx
        .execute_raw(sql(
            "DELETE FROM deny_list WHERE scope = ? ORDER BY user_id LIMIT ?",
            [DenyScope::Activity(id).number().into(), limit.into()],
        ))
        .await?;
    Ok(deleted.rows_affected())
}

/// An entry about a user, with the list that it stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredDenial {
    /// `None` on the platform's list.
    pub activity_id: Option<ActivityId>,
    pub reason: Option<String>,
    pub created_by: UserId,
    #[serde(with = "to_millis")]
    pub created_at: Timestamp,
}

#[derive(FromQueryResult)]
struct DenialRow {
    scope: u64,
    reason: Option<String>,
    created_by: UserId,
    created_at: Timestamp,
}

async fn list_in(
    conn: &impl ConnectionTrait,
    scopes: &[u64],
    user_id: UserId,
) -> Result<Vec<StoredDenial>, DbErr> {
    let mut values = Vec::new();
    let list = in_list(scopes, &mut values);
    values.push(user_id.into());
    let text = format!(
        "SELECT scope, reason, created_by, created_at FROM deny_list \
         WHERE scope IN {list} AND user_id = ? ORDER BY scope"
    );
    let rows = DenialRow::find_by_statement(sql(text, values))
        .all(conn)
        .await?;
    let denial = |row: DenialRow| StoredDenial {
        activity_id: (row.scope != DenyScope::Platform.number()).then_some(ActivityId(row.scope)),
        reason: row.reason,
        created_by: row.created_by,
        created_at: row.created_at,
    };
    Ok(rows.into_iter().map(denial).collect())
}

/// What the lists of these activities say about a user.
pub(in crate::candidate) async fn list_of_user(
    conn: &impl ConnectionTrait,
    ids: &[ActivityId],
    user_id: UserId,
) -> Result<Vec<StoredDenial>, DbErr> {
    let scopes: Vec<u64> = ids
        .iter()
        .map(|id| DenyScope::Activity(*id).number())
        .collect();
    list_in(conn, &scopes, user_id).await
}

/// What the platform's list says about a user.
pub(in crate::candidate) async fn list_of_user_on_platform(
    conn: &impl ConnectionTrait,
    user_id: UserId,
) -> Result<Vec<StoredDenial>, DbErr> {
    list_in(conn, &[DenyScope::Platform.number()], user_id).await
}

/// Removes a user from an activity's list, and tells how many entries that were.
pub(in crate::candidate) async fn delete_of_user(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    user_id: UserId,
) -> Result<u64, DbErr> {
    delete(tx, DenyScope::Activity(id), user_id)
        .await
        .map(u64::from)
}
