//! Who takes part in an activity, page by page in the order of user ids.

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use crate::{
    infra::mysql::sql,
    kernel::{ActivityId, UserId},
};

#[derive(FromQueryResult)]
struct Bounds {
    first: Option<UserId>,
    last: Option<UserId>,
}

/// The lowest and the highest user id among all participations, rejected and late ones too.
pub async fn participation_range(
    conn: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<Option<(UserId, UserId)>, DbErr> {
    let bounds = Bounds::find_by_statement(sql(
        "SELECT MIN(user_id) AS first, MAX(user_id) AS last FROM participation \
         WHERE activity_id = ?",
        [id.into()],
    ))
    .one(conn)
    .await?;
    Ok(bounds.and_then(|bounds| bounds.first.zip(bounds.last)))
}

#[derive(FromQueryResult)]
struct UserRow {
    user_id: UserId,
}

/// Joined participants behind `after` (a user id, or 0) up to and with `until`, in order.
pub async fn list_joined(
    conn: &impl ConnectionTrait,
    id: ActivityId,
    after: u64,
    until: u64,
    limit: u64,
) -> Result<Vec<UserId>, DbErr> {
    let rows = UserRow::find_by_statement(sql(
        "SELECT user_id FROM participation WHERE activity_id = ? AND user_id > ? \
         AND user_id <= ? AND status = 'joined' ORDER BY user_id LIMIT ?",
        [id.into(), after.into(), until.into(), limit.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.user_id).collect())
}
