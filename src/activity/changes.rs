//! The `activity` and `activity_prize` tables: writing. Every change of an activity's row carries
//! the version it was decided on in its WHERE clause, and raises it.

use sea_orm::{ConnectionTrait, DbErr, Value};

use super::{Activity, ActivityPrize, Status, draft::Draft};
use crate::{
    infra::mysql::{placeholders, sql},
    kernel::{ActivityId, Timestamp, UserId},
    settings::CandidateSettings,
};

fn seconds(duration: Option<std::time::Duration>) -> Value {
    duration.map(|duration| duration.as_secs()).into()
}

fn tasks_json(draft: &Draft) -> Result<String, DbErr> {
    serde_json::to_string(&draft.tasks).map_err(|error| DbErr::Json(error.to_string()))
}

/// Adds the row of a draft; its prizes come separately.
pub(super) async fn insert(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    host_id: UserId,
    draft: &Draft,
    pool: &CandidateSettings,
) -> Result<(), DbErr> {
    tx.execute_raw(sql(
        "INSERT INTO activity (id, kind, room_id, host_id, title, conditions, winner_count, tasks, \
         presence_rule, one_entry_per_device, shard_by, cooldown_secs, trim_after, trim_floor, \
         status, countdown_secs, start_at, draw_at, created_at, updated_at) \
         VALUES (?, 'luckyBag', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'draft', ?, ?, ?, NOW(3), NOW(3))",
        [
            id.into(),
            draft.room_id.into(),
            host_id.into(),
            draft.title.as_str().into(),
            draft.conditions.clone().into(),
            draft.winner_count.into(),
            tasks_json(draft)?.into(),
            draft.presence_rule.as_str().into(),
            draft.one_entry_per_device.into(),
            draft.shard_by.as_str().into(),
            draft.cooldown.as_secs().into(),
            pool.trim_after.into(),
            pool.trim_floor.into(),
            seconds(draft.countdown),
            draft.start_at.into(),
            draft.draw_at.into(),
        ],
    ))
    .await
    .map(|_| ())
}

/// Adds the prizes of an activity.
pub(super) async fn insert_prizes(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    prizes: &[ActivityPrize],
) -> Result<(), DbErr> {
    let text = format!(
        "INSERT INTO activity_prize (activity_id, prize_rank, prize_id, quantity, name, kind, image) \
         VALUES {}",
        placeholders(prizes.len(), 7)
    );
    let values = prizes.iter().flat_map(|prize| -> [Value; 7] {
        [
            id.into(),
            prize.rank.into(),
            prize.prize_id.into(),
            prize.quantity.into(),
            prize.name.as_str().into(),
            prize.kind.as_str().into(),
            prize.image.clone().into(),
        ]
    });
    tx.execute_raw(sql(text, values)).await.map(|_| ())
}

/// Removes the prizes of a draft, to be replaced.
pub(super) async fn delete_prizes(tx: &impl ConnectionTrait, id: ActivityId) -> Result<(), DbErr> {
    tx.execute_raw(sql(
        "DELETE FROM activity_prize WHERE activity_id = ?",
        [id.into()],
    ))
    .await
    .map(|_| ())
}

/// Changes one row from the state it was decided on; answers whether it was still there.
async fn update(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    assignments: &str,
    extra_condition: &str,
    mut values: Vec<Value>,
) -> Result<bool, DbErr> {
    let text = format!(
        "UPDATE activity SET {assignments}, version = version + 1, updated_at = NOW(3) \
         WHERE id = ? AND status = ? AND version = ? {extra_condition}"
    );
    values.extend([
        activity.id.into(),
        activity.status.as_str().into(),
        activity.version.into(),
    ]);
    let result = tx.execute_raw(sql(text, values)).await?;
    Ok(result.rows_affected() == 1)
}

/// Rewrites a draft; answers whether nobody else had changed it.
pub(super) async fn mark_edited(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    draft: &Draft,
) -> Result<bool, DbErr> {
    let assignments = "title = ?, conditions = ?, winner_count = ?, tasks = ?, presence_rule = ?, \
         one_entry_per_device = ?, shard_by = ?, cooldown_secs = ?, countdown_secs = ?, \
         start_at = ?, draw_at = ?";
    let values = vec![
        draft.title.as_str().into(),
        draft.conditions.clone().into(),
        draft.winner_count.into(),
        tasks_json(draft)?.into(),
        draft.presence_rule.as_str().into(),
        draft.one_entry_per_device.into(),
        draft.shard_by.as_str().into(),
        draft.cooldown.as_secs().into(),
        seconds(draft.countdown),
        draft.start_at.into(),
        draft.draw_at.into(),
    ];
    update(tx, activity, assignments, "", values).await
}

/// Moves an activity on to `status`; answers whether nobody else had changed it.
pub(super) async fn mark_status(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    status: Status,
    reason: Option<&str>,
) -> Result<bool, DbErr> {
    let values = vec![status.as_str().into(), reason.into()];
    update(tx, activity, "status = ?, status_reason = ?", "", values).await
}

/// Keeps why a scheduled opening failed; answers whether nobody else had changed the activity.
pub(super) async fn mark_reason(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    reason: &str,
) -> Result<bool, DbErr> {
    update(tx, activity, "status_reason = ?", "", vec![reason.into()]).await
}

/// What the opening fixes for good.
pub(super) struct Opening {
    pub(super) start_at: Timestamp,
    pub(super) draw_at: Timestamp,
    pub(super) seed: [u8; 32],
    pub(super) commitment: [u8; 32],
    pub(super) rules: String,
    pub(super) rules_hash: [u8; 32],
    pub(super) leaf_key: [u8; 32],
    pub(super) is_armed: bool,
}

/// Opens a ready activity and claims its room; a duplicate key means that the room is taken.
pub(super) async fn mark_open(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    opening: &Opening,
) -> Result<bool, DbErr> {
    let assignments = "status = 'open', status_reason = NULL, start_at = ?, draw_at = ?, seed = ?, \
         commitment = ?, rules = ?, rules_hash = ?, leaf_key = ?, is_armed = ?";
    let values = vec![
        opening.start_at.into(),
        opening.draw_at.into(),
        opening.seed.to_vec().into(),
        opening.commitment.to_vec().into(),
        opening.rules.as_str().into(),
        opening.rules_hash.to_vec().into(),
        opening.leaf_key.to_vec().into(),
        opening.is_armed.into(),
    ];
    update(tx, activity, assignments, "", values).await
}

/// Cancels an activity, an open one only before its drawAt by the database's clock.
///
/// The row must be locked already: `NOW(3)` is the time at which a statement starts, so waiting
/// for the lock in here would let it grow old.
pub(super) async fn mark_cancelled(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    reason: Option<&str>,
) -> Result<bool, DbErr> {
    let assignments = "status = 'cancelled', status_reason = ?, cancelled_at = NOW(3)";
    let in_time = "AND (status <> 'open' OR NOW(3) < draw_at)";
    update(tx, activity, assignments, in_time, vec![reason.into()]).await
}

/// Notes that an open activity's draw is on its way; answers whether it was not before.
pub(super) async fn mark_armed(
    tx: &impl ConnectionTrait,
    activity: &Activity,
) -> Result<bool, DbErr> {
    let not_armed = "AND is_armed = FALSE";
    update(tx, activity, "is_armed = TRUE", not_armed, Vec::new()).await
}
