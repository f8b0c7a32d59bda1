//! What others hear of results.

use serde_json::{Value, json};

use super::WinRecord;
use crate::{
    activity::Activity,
    infra::outbox::{Event, EventKind},
    kernel::{Timestamp, UserId, format_timestamp},
};

/// A user won; the same for every repeat.
pub fn won(activity: &Activity, win: &WinRecord) -> Event {
    Event {
        id: format!("won:{}:{}", win.activity_id, win.id),
        kind: EventKind::ResultWon,
        schema_version: 1,
        at: win.drawn_at,
        data: json!({
            "activityId": win.activity_id,
            "roomId": activity.room_id,
            "round": win.round,
            "userId": win.user_id,
            "winRecordId": win.id,
            "rank": win.seat,
            "prize": prize_of(activity, win),
            "drawnAt": format_timestamp(win.drawn_at),
        }),
    }
}

/// A win was taken back; the same for every repeat. Why is for the audit, not for others.
pub fn revoked(activity: &Activity, win: &WinRecord, round: u32, at: Timestamp) -> Event {
    Event {
        id: format!("revoked:{}:{}", win.activity_id, win.id),
        kind: EventKind::ResultRevoked,
        schema_version: 1,
        at,
        data: json!({
            "activityId": win.activity_id,
            "roomId": activity.room_id,
            "round": round,
            "userId": win.user_id,
            "winRecordId": win.id,
            "rank": win.seat,
            "prize": prize_of(activity, win),
            "revokedAt": format_timestamp(at),
        }),
    }
}

fn prize_of(activity: &Activity, win: &WinRecord) -> Value {
    let prize = activity
        .prizes
        .iter()
        .find(|prize| prize.rank == win.prize_rank);
    json!({
        "rank": win.prize_rank,
        "prizeId": win.prize_id,
        "name": prize.map(|prize| &prize.name),
        "kind": prize.map(|prize| prize.kind),
        "image": prize.and_then(|prize| prize.image.as_ref()),
    })
}

/// Some participants did not win. `first` is the lowest user id that the message is about before
/// winners are left out, so that a repeat has the same id.
pub fn not_won(
    activity: &Activity,
    drawn_at: Timestamp,
    part: u16,
    first: UserId,
    users: &[UserId],
) -> Event {
    Event {
        id: format!("notwon:{}:{part}:{first}", activity.id),
        kind: EventKind::ResultNotWon,
        schema_version: 1,
        at: drawn_at,
        data: json!({
            "activityId": activity.id,
            "roomId": activity.room_id,
            "round": activity.round,
            "userIds": users,
            "cutoffScore": activity.cutoff_score,
            "drawnAt": format_timestamp(drawn_at),
        }),
    }
}
