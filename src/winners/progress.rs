//! The `notify_progress` table: how far the results of a draw have been told. No other file reads
//! or writes it.

use std::time::Duration;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use crate::{
    infra::mysql::sql,
    kernel::{ActivityId, UserId},
};

/// The part that tells the winners; the others tell ranges of user ids that they did not win.
pub const WINNERS_PART: u16 = 0;

/// How many ranges the participants are told in.
pub const RANGES: u16 = 16;

/// One part of what has to be told, claimed by the caller until its claim runs out.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct TellingPart {
    pub activity_id: ActivityId,
    pub part: u16,
    pub first_user_id: u64,
    pub last_user_id: u64,
    /// Everybody up to here has been told; 0 when nobody has.
    pub told_user_id: u64,
}

/// Cuts the ids from `first` to `last` into up to [`RANGES`] ranges of equal width, both ends
/// included.
fn ranges(first: u64, last: u64) -> Vec<(u64, u64)> {
    let width = (last.saturating_sub(first)) / u64::from(RANGES) + 1;
    let starts = (0..u64::from(RANGES)).map(|part| first.saturating_add(part * width));
    starts
        .take_while(|start| *start <= last)
        .map(|start| (start, start.saturating_add(width - 1).min(last)))
        .collect()
}

/// Notes in the draw's transaction who has to be told: the winners, then the participants, whose
/// lowest and highest user ids are given.
pub async fn insert(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    participants: Option<(UserId, UserId)>,
) -> Result<(), DbErr> {
    let winners = (WINNERS_PART, (1, i64::MAX.unsigned_abs()));
    let others = participants.map_or_else(Vec::new, |(first, last)| ranges(first.0, last.0));
    let parts: Vec<_> = std::iter::once(winners)
        .chain((WINNERS_PART + 1..).zip(others))
        .collect();
    let rows = vec!["(?, ?, ?, ?, NOW(3))"; parts.len()].join(", ");
    let text = format!(
        "INSERT INTO notify_progress (activity_id, part, first_user_id, last_user_id, not_before) \
         VALUES {rows}"
    );
    let values = parts
        .into_iter()
        .flat_map(|(part, (first, last))| [id.into(), part.into(), first.into(), last.into()]);
    tx.execute_raw(sql(text, values)).await.map(|_| ())
}

/// Locks the next part that is due; the winners of an activity come before its other parts.
///
/// The caller moves it on by [`postpone`] in the same transaction: that is its claim.
pub async fn find_due_for_update(tx: &impl ConnectionTrait) -> Result<Option<TellingPart>, DbErr> {
    TellingPart::find_by_statement(sql(
        "SELECT activity_id, part, first_user_id, last_user_id, told_user_id \
         FROM notify_progress AS due \
         WHERE is_done = FALSE AND not_before <= NOW(3) AND (part = 0 OR NOT EXISTS ( \
             SELECT 1 FROM notify_progress AS winners \
             WHERE winners.activity_id = due.activity_id AND winners.part = 0 \
             AND winners.is_done = FALSE)) \
         ORDER BY not_before, activity_id, part LIMIT 1 FOR UPDATE SKIP LOCKED",
        [],
    ))
    .one(tx)
    .await
}

/// Moves a part's next turn to `pause` from now.
pub async fn postpone(
    conn: &impl ConnectionTrait,
    part: &TellingPart,
    pause: Duration,
) -> Result<(), DbErr> {
    conn.execute_raw(sql(
        "UPDATE notify_progress SET not_before = NOW(3) + INTERVAL ? MICROSECOND \
         WHERE activity_id = ? AND part = ?",
        [
            u64::try_from(pause.as_micros()).unwrap_or(u64::MAX).into(),
            part.activity_id.into(),
            part.part.into(),
        ],
    ))
    .await
    .map(|_| ())
}

/// Remembers that everybody up to `told_user_id` has been told; never goes back.
pub async fn mark_told(
    conn: &impl ConnectionTrait,
    part: &TellingPart,
    told_user_id: u64,
) -> Result<(), DbErr> {
    conn.execute_raw(sql(
        "UPDATE notify_progress SET told_user_id = GREATEST(told_user_id, ?) \
         WHERE activity_id = ? AND part = ?",
        [
            told_user_id.into(),
            part.activity_id.into(),
            part.part.into(),
        ],
    ))
    .await
    .map(|_| ())
}

/// Remembers that nobody of the part is left to tell.
pub async fn mark_done(conn: &impl ConnectionTrait, part: &TellingPart) -> Result<(), DbErr> {
    conn.execute_raw(sql(
        "UPDATE notify_progress SET is_done = TRUE WHERE activity_id = ? AND part = ?",
        [part.activity_id.into(), part.part.into()],
    ))
    .await
    .map(|_| ())
}

/// Removes how far the results of an activity were told, which nobody will be told any more.
pub async fn forget(
    tx: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<Option<(&'static str, u64)>, DbErr> {
    let deleted = tx
        .execute_raw(sql(
            "DELETE FROM notify_progress WHERE activity_id = ?",
            [id.into()],
        ))
        .await?;
    let rows = deleted.rows_affected();
    Ok((rows > 0).then_some(("notify_progress", rows)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::MAX_ID;

    proptest! {
        #[test]
        fn ranges_cover_every_id_exactly_once(a in 1..=MAX_ID, b in 1..=MAX_ID) {
            let (first, last) = (a.min(b), a.max(b));

            let ranges = ranges(first, last);

            prop_assert!(ranges.len() <= usize::from(RANGES));
            prop_assert_eq!(ranges.first().map(|range| range.0), Some(first));
            prop_assert_eq!(ranges.last().map(|range| range.1), Some(last));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
        }
    }

    #[test]
    fn few_ids_make_few_ranges() {
        assert_eq!(ranges(7, 7), [(7, 7)]);
        assert_eq!(ranges(1, 3), [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(ranges(1, MAX_ID).len(), 16);
    }
}
