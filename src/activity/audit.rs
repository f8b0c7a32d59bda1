//! The `audit` table: who did what to which activity. No other file reads or writes it.

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    http::openapi::Moment,
    infra::mysql::{in_list, sql},
    kernel::{ActivityId, Timestamp, UserId, to_millis},
};

/// One thing that somebody did, to be recorded in the transaction that did it.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    pub activity_id: Option<ActivityId>,
    /// `user:<id>`, or the part of the service that acted on its own; at most 32 characters.
    pub actor: String,
    /// At most 32 characters, such as `activity.open`.
    pub action: &'static str,
    pub detail: Option<Value>,
    pub request_id: String,
}

/// Who acts, and in which request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub name: String,
    pub request_id: String,
}

impl Actor {
    pub fn user(user_id: UserId, request_id: impl Into<String>) -> Self {
        Self {
            name: format!("user:{user_id}"),
            request_id: request_id.into(),
        }
    }

    /// A part of the service that acts on its own, such as `sweeper`.
    pub fn service(name: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            request_id: name.to_owned(),
        }
    }

    /// What this actor did, to an activity if one is named.
    pub fn did(
        &self,
        action: &'static str,
        id: impl Into<Option<ActivityId>>,
        detail: Option<Value>,
    ) -> AuditEntry {
        AuditEntry {
            activity_id: id.into(),
            actor: self.name.clone(),
            action,
            detail,
            request_id: self.request_id.clone(),
        }
    }
}

/// A recorded entry, as shown to operators.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    #[serde(skip)]
    pub id: u64,
    pub actor: String,
    pub action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub detail: Option<Value>,
    pub request_id: String,
    #[serde(with = "to_millis")]
    #[schema(value_type = Moment)]
    pub at: Timestamp,
}

/// Adds an entry in the caller's transaction.
pub async fn record(tx: &impl ConnectionTrait, entry: &AuditEntry) -> Result<(), DbErr> {
    let detail = entry.detail.as_ref().map(Value::to_string);
    tx.execute_raw(sql(
        "INSERT INTO audit (activity_id, actor, action, detail, request_id, created_at) \
         VALUES (?, ?, ?, ?, ?, NOW(3))",
        [
            entry.activity_id.map(|id| id.0).into(),
            entry.actor.as_str().into(),
            entry.action.into(),
            detail.into(),
            entry.request_id.as_str().into(),
        ],
    ))
    .await
    .map(|_| ())
}

#[derive(FromQueryResult)]
struct Row {
    id: u64,
    actor: String,
    action: String,
    detail: Option<String>,
    request_id: String,
    created_at: Timestamp,
}

impl From<Row> for AuditRecord {
    fn from(row: Row) -> Self {
        // Text that is not JSON is shown as it is: the record matters more than its form.
        let detail = row
            .detail
            .map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
        Self {
            id: row.id,
            actor: row.actor,
            action: row.action,
            detail,
            request_id: row.request_id,
            at: row.created_at,
        }
    }
}

#[derive(FromQueryResult)]
struct IdRow {
    id: u64,
}

/// An activity's entries, oldest first, after the one with the id `after`.
pub(super) async fn list(
    conn: &impl ConnectionTrait,
    id: ActivityId,
    after: Option<u64>,
    limit: u64,
) -> Result<Vec<AuditRecord>, DbErr> {
    let rows = Row::find_by_statement(sql(
        "SELECT id, actor, action, detail, request_id, created_at FROM audit \
         WHERE activity_id = ? AND id > ? ORDER BY id LIMIT ?",
        [id.into(), after.unwrap_or(0).into(), limit.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(AuditRecord::from).collect())
}

/// Removes up to `limit` entries that are older than `days`, and tells how many. Those of an activity
/// stay as long as it runs, and then for as many days after its draw, its cancellation or, when it
/// never ran, its last change.
pub async fn forget(conn: &impl ConnectionTrait, days: u32, limit: u64) -> Result<u64, DbErr> {
    let old = IdRow::find_by_statement(sql(
        "SELECT audit.id FROM audit LEFT JOIN activity ON activity.id = audit.activity_id \
         WHERE audit.created_at < NOW(3) - INTERVAL ? DAY AND (activity.id IS NULL \
         OR (activity.status NOT IN ('open', 'drawing') \
         AND COALESCE(activity.over_at, activity.updated_at) < NOW(3) - INTERVAL ? DAY)) \
         ORDER BY audit.created_at LIMIT ?",
        [days.into(), days.into(), limit.into()],
    ))
    .all(conn)
    .await?;
    if old.is_empty() {
        return Ok(0);
    }
    let ids: Vec<u64> = old.into_iter().map(|row| row.id).collect();
    let mut values = Vec::new();
    let list = in_list(&ids, &mut values);
    let deleted = conn
        .execute_raw(sql(format!("DELETE FROM audit WHERE id IN {list}"), values))
        .await?;
    Ok(deleted.rows_affected())
}

/// Something that a user did, for an export.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorRecord {
    pub activity_id: Option<ActivityId>,
    #[serde(flatten)]
    pub record: AuditRecord,
}

#[derive(FromQueryResult)]
struct ActivityIdRow {
    activity_id: Option<ActivityId>,
}

/// Everything that a user did, oldest first.
pub async fn list_of_user(
    conn: &impl ConnectionTrait,
    user_id: UserId,
) -> Result<Vec<ActorRecord>, DbErr> {
    let actor = Actor::user(user_id, "").name;
    let rows = conn
        .query_all_raw(sql(
            "SELECT id, activity_id, actor, action, detail, request_id, created_at FROM audit \
             WHERE actor = ? ORDER BY id",
            [actor.into()],
        ))
        .await?;
    rows.iter()
        .map(|row| {
            Ok(ActorRecord {
                activity_id: ActivityIdRow::from_query_result(row, "")?.activity_id,
                record: Row::from_query_result(row, "")?.into(),
            })
        })
        .collect()
}
