//! The `activity` and `activity_prize` tables: reading. The draw's own columns are in `drawing`,
//! changes in `changes`.

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, Value};

use super::{
    Activity, Status,
    row::{self, ActivityRow, PrizeRow},
};
use crate::{
    infra::mysql::{placeholders, sql},
    kernel::{ActivityId, RoomId, Timestamp, UserId},
};

async fn select(
    conn: &impl ConnectionTrait,
    condition: &str,
    values: Vec<Value>,
) -> Result<Vec<Activity>, DbErr> {
    let text = format!("SELECT {} FROM activity WHERE {condition}", row::COLUMNS);
    let rows = ActivityRow::find_by_statement(sql(text, values))
        .all(conn)
        .await?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let text = format!(
        "SELECT activity_id, prize_rank, prize_id, quantity, name, kind, image FROM activity_prize \
         WHERE activity_id IN {} ORDER BY activity_id, prize_rank",
        placeholders(1, rows.len())
    );
    let ids = rows.iter().map(|row| row.id.into());
    let prize_rows = PrizeRow::find_by_statement(sql(text, ids))
        .all(conn)
        .await?;
    row::assemble(rows, prize_rows)
}

/// An activity with its prizes; [`DbErr::Type`] when its row makes no sense.
pub async fn find(conn: &impl ConnectionTrait, id: ActivityId) -> Result<Option<Activity>, DbErr> {
    let found = select(conn, "id = ?", vec![id.into()]).await?;
    Ok(found.into_iter().next())
}

/// The same, with the row locked against every other reader that locks.
pub async fn find_for_update(
    conn: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<Option<Activity>, DbErr> {
    let found = select(conn, "id = ? FOR UPDATE", vec![id.into()]).await?;
    Ok(found.into_iter().next())
}

/// Locks activities so that their state cannot change before the caller's transaction ends;
/// ordered by id, unknown ids are left out.
pub async fn lock_shared(
    conn: &impl ConnectionTrait,
    ids: &[ActivityId],
) -> Result<Vec<Activity>, DbErr> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let condition = format!(
        "id IN {} ORDER BY id LOCK IN SHARE MODE",
        placeholders(1, ids.len())
    );
    let values = ids.iter().map(|id| (*id).into()).collect();
    select(conn, &condition, values).await
}

/// What a list of activities is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct ActivityFilter {
    pub status: Option<Status>,
    /// `None` for every room.
    pub rooms: Option<Vec<RoomId>>,
}

/// Activities, newest first, older than `before`.
pub(super) async fn list(
    conn: &impl ConnectionTrait,
    filter: &ActivityFilter,
    before: Option<ActivityId>,
    limit: u64,
) -> Result<Vec<Activity>, DbErr> {
    let mut conditions = vec!["id < ?".to_owned()];
    let mut values: Vec<Value> = vec![before.map_or(u64::MAX, |id| id.0).into()];
    if let Some(status) = filter.status {
        conditions.push("status = ?".to_owned());
        values.push(status.as_str().into());
    }
    if let Some(rooms) = &filter.rooms {
        if rooms.is_empty() {
            return Ok(Vec::new());
        }
        conditions.push(format!("room_id IN {}", placeholders(1, rooms.len())));
        values.extend(rooms.iter().map(|room| Value::from(*room)));
    }
    values.push(limit.into());
    let condition = format!("{} ORDER BY id DESC LIMIT ?", conditions.join(" AND "));
    select(conn, &condition, values).await
}

/// The database's time at this statement.
pub(super) async fn now(conn: &impl ConnectionTrait) -> Result<Timestamp, DbErr> {
    conn.query_one_raw(sql("SELECT NOW(3) AS now", []))
        .await?
        .ok_or_else(|| DbErr::RecordNotFound("NOW(3)".to_owned()))?
        .try_get("", "now")
}

#[derive(FromQueryResult)]
struct IdRow {
    id: ActivityId,
}

/// The ids of the activities that run in a room.
pub(super) async fn list_running_ids(
    conn: &impl ConnectionTrait,
    room_id: RoomId,
) -> Result<Vec<ActivityId>, DbErr> {
    let rows = IdRow::find_by_statement(sql(
        "SELECT id FROM activity WHERE open_room_id = ?",
        [room_id.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// An activity with a scheduled start; in the order of these, earliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
pub(super) struct Scheduled {
    pub(super) start_at: Timestamp,
    pub(super) id: ActivityId,
}

/// Ready activities whose scheduled start has come, earliest first, of those behind `after`.
pub(super) async fn list_to_open(
    conn: &impl ConnectionTrait,
    after: Option<Scheduled>,
    limit: u64,
) -> Result<Vec<Scheduled>, DbErr> {
    let mut text =
        "SELECT start_at, id FROM activity WHERE status = 'ready' AND start_at <= NOW(3)"
            .to_owned();
    let mut values: Vec<Value> = Vec::new();
    if let Some(after) = after {
        text.push_str(" AND (start_at > ? OR (start_at = ? AND id > ?))");
        values.extend([
            after.start_at.into(),
            after.start_at.into(),
            after.id.into(),
        ]);
    }
    text.push_str(" ORDER BY start_at, id LIMIT ?");
    values.push(limit.into());
    Scheduled::find_by_statement(sql(text, values))
        .all(conn)
        .await
}

/// Every open activity, the oldest first.
pub async fn list_open_ids(conn: &impl ConnectionTrait) -> Result<Vec<ActivityId>, DbErr> {
    let rows = IdRow::find_by_statement(sql(
        "SELECT id FROM activity WHERE status = 'open' ORDER BY id",
        [],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// The activities whose joins may still be in the stream: those that run, and those whose drawAt
/// lies less than 10 minutes back, twice as long as a draw waits for the stream at most.
pub async fn list_ids_in_stream(conn: &impl ConnectionTrait) -> Result<Vec<ActivityId>, DbErr> {
    let rows = IdRow::find_by_statement(sql(
        "SELECT id FROM activity WHERE status IN ('open', 'drawing') \
         OR (status IN ('drawn', 'cancelled') AND draw_at > NOW(3) - INTERVAL 10 MINUTE) \
         ORDER BY id",
        [],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Which activities run (open or drawing) in these rooms, at most one a room; locks nothing.
pub async fn list_ids_running_in(
    conn: &impl ConnectionTrait,
    rooms: &[RoomId],
) -> Result<Vec<ActivityId>, DbErr> {
    if rooms.is_empty() {
        return Ok(Vec::new());
    }
    let text = format!(
        "SELECT id FROM activity WHERE open_room_id IN {}",
        placeholders(1, rooms.len())
    );
    let rows = IdRow::find_by_statement(sql(text, rooms.iter().map(|room| (*room).into())))
        .all(conn)
        .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Open activities whose draw should be on its way and is not, earliest first.
pub(super) async fn list_to_arm(
    conn: &impl ConnectionTrait,
    ahead_secs: u32,
    limit: u64,
) -> Result<Vec<ActivityId>, DbErr> {
    let rows = IdRow::find_by_statement(sql(
        "SELECT id FROM activity WHERE status = 'open' AND is_armed = FALSE \
         AND draw_at <= NOW(3) + INTERVAL ? SECOND ORDER BY draw_at LIMIT ?",
        [ahead_secs.into(), limit.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Activities with ids above `after`, in their order, whatever their state.
pub async fn list_ids(
    conn: &impl ConnectionTrait,
    after: ActivityId,
    limit: u64,
) -> Result<Vec<ActivityId>, DbErr> {
    let rows = IdRow::find_by_statement(sql(
        "SELECT id FROM activity WHERE id > ? ORDER BY id LIMIT ?",
        [after.into(), limit.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

#[derive(FromQueryResult)]
struct VersionRow {
    id: ActivityId,
    version: u32,
}

/// The same with the version of each.
pub async fn list_versions(
    conn: &impl ConnectionTrait,
    after: ActivityId,
    limit: u64,
) -> Result<Vec<(ActivityId, u32)>, DbErr> {
    let rows = VersionRow::find_by_statement(sql(
        "SELECT id, version FROM activity WHERE id > ? ORDER BY id LIMIT ?",
        [after.into(), limit.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.version)).collect())
}

/// The activities of which a user is the host. Reads them all: for commands, not for calls.
pub async fn list_ids_hosted_by(
    conn: &impl ConnectionTrait,
    host_id: UserId,
) -> Result<Vec<ActivityId>, DbErr> {
    let rows = IdRow::find_by_statement(sql(
        "SELECT id FROM activity WHERE host_id = ? ORDER BY id",
        [host_id.into()],
    ))
    .all(conn)
    .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Activities that were over within the last days, with ids above `after`, in their order.
pub async fn list_recent(
    conn: &impl ConnectionTrait,
    after: ActivityId,
    days: u32,
    limit: u64,
) -> Result<Vec<Activity>, DbErr> {
    select(
        conn,
        "participants_removed_at IS NULL AND over_at > NOW(3) - INTERVAL ? DAY AND id > ? \
         ORDER BY id LIMIT ?",
        vec![days.into(), after.into(), limit.into()],
    )
    .await
}
