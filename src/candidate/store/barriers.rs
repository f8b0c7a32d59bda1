//! The `stream_barrier` table.

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use crate::{
    candidate::BarrierPass,
    infra::mysql::{placeholders, sql},
    kernel::ActivityId,
};

/// Notes that everything before the barriers has been handled in a partition; again is the same.
pub(in crate::candidate) async fn insert_barriers(
    conn: &impl ConnectionTrait,
    partition: u16,
    passes: &[BarrierPass],
) -> Result<(), DbErr> {
    if passes.is_empty() {
        return Ok(());
    }
    let mut passes = passes.to_vec();
    passes.sort_by_key(|pass| (pass.activity_id, pass.draw_token));
    let text = format!(
        "INSERT INTO stream_barrier (activity_id, draw_token, stream_partition) VALUES {} \
         ON DUPLICATE KEY UPDATE draw_token = VALUES(draw_token)",
        placeholders(passes.len(), 3)
    );
    let values = passes.iter().flat_map(|pass| {
        [
            pass.activity_id.into(),
            pass.draw_token.into(),
            partition.into(),
        ]
    });
    conn.execute_raw(sql(text, values)).await.map(|_| ())
}

#[derive(FromQueryResult)]
struct PartitionRow {
    stream_partition: u16,
}

/// The partitions that have passed the barrier of one attempt to draw.
pub(in crate::candidate) async fn list_barriers(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    draw_token: u64,
) -> Result<Vec<u16>, DbErr> {
    let found = PartitionRow::find_by_statement(sql(
        "SELECT stream_partition FROM stream_barrier \
         WHERE activity_id = ? AND draw_token = ? ORDER BY stream_partition",
        [activity_id.into(), draw_token.into()],
    ))
    .all(conn)
    .await?;
    Ok(found.into_iter().map(|row| row.stream_partition).collect())
}

/// Forgets the barriers of all attempts to draw an activity: in the transaction of the draw, after
/// which there are no others.
pub async fn forget_barriers(conn: &impl ConnectionTrait, id: ActivityId) -> Result<(), DbErr> {
    conn.execute_raw(sql(
        "DELETE FROM stream_barrier WHERE activity_id = ?",
        [id.into()],
    ))
    .await
    .map(|_| ())
}
