//! The `meta` table: facts that all processes of an installation share.

use sea_orm::{ConnectionTrait, DbErr};

use super::sql;

/// The name of the fact how many partitions the stream has.
pub const STREAM_PARTITIONS: &str = "stream_partitions";

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
    find_fact(conn, name)
        .await?
        .ok_or_else(|| DbErr::RecordNotFound(format!("meta.{name}")))
}

/// What the installation holds of a fact; `None` when nobody has settled it.
pub async fn find_fact(conn: &impl ConnectionTrait, name: &str) -> Result<Option<String>, DbErr> {
    let row = conn
        .query_one_raw(sql("SELECT value FROM meta WHERE name = ?", [name.into()]))
        .await?;
    row.map(|row| row.try_get("", "value")).transpose()
}

/// Changes a settled fact; `false` when it is no longer what the caller took it for.
pub async fn change_fact(
    conn: &impl ConnectionTrait,
    name: &str,
    from: &str,
    to: &str,
) -> Result<bool, DbErr> {
    let result = conn
        .execute_raw(sql(
            "UPDATE meta SET value = ? WHERE name = ? AND value = ?",
            [to.into(), name.into(), from.into()],
        ))
        .await?;
    Ok(result.rows_affected() == 1)
}
