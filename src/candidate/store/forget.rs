//! Removing rows of whole activities, and of single users.

use sea_orm::{ConnectionTrait, DbErr};

use crate::{infra::mysql::sql, kernel::ActivityId};

/// What is stored about participants, in the order in which it goes.
const TABLES: [(&str, &str); 4] = [
    ("device_claim", "device_id"),
    ("task_completion", "user_id, task_id"),
    ("presence", "user_id"),
    ("participation", "user_id"),
];

/// Removes up to `limit` rows of the first of the tables that has any left.
pub(in crate::candidate) async fn forget_rows(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    limit: u64,
) -> Result<Option<(&'static str, u64)>, DbErr> {
    for (table, order) in TABLES {
        let text = format!("DELETE FROM {table} WHERE activity_id = ? ORDER BY {order} LIMIT ?");
        let deleted = tx.execute_raw(sql(text, [id.into(), limit.into()])).await?;
        if deleted.rows_affected() > 0 {
            return Ok(Some((table, deleted.rows_affected())));
        }
    }
    Ok(None)
}
