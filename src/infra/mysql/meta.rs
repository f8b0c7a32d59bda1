//! The `meta` table: facts that all processes of an installation share.

use sea_orm::{ConnectionTrait, DbErr};

use super::sql;

/// Settles a fact at its first mention: answers what the installation holds, which is `value` only
/// when nobody came before with another one.
pub async fn settle_fact(
    conn: &impl ConnectionTrait,
    name: &str,
    value: &str,
) -> Result<String, DbErr> {
    // Of several processes that start at once one inserts, and all read what it wrote.
    conn.execute_raw(sql(
        "INSERT INTO meta (name, value) VALUES (?, ?) ON DUPLICATE KEY UPDATE name = name",
        [name.into(), value.into()],
    ))
    .await?;
    let row = conn
        .query_one_raw(sql("SELECT value FROM meta WHERE name = ?", [name.into()]))
        .await?;
    row.ok_or_else(|| DbErr::RecordNotFound(format!("meta.{name}")))?
        .try_get("", "value")
}
