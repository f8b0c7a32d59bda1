//! What others hear of a draw.

use serde_json::json;

use crate::{
    activity::{Activity, drawing::FinalFigures},
    infra::outbox::{Event, EventKind},
    kernel::{Timestamp, format_timestamp},
};

/// An activity was drawn.
pub(super) fn drawn(
    activity: &Activity,
    version: u32,
    drawn_at: Timestamp,
    winner_count: usize,
    figures: &FinalFigures,
) -> Event {
    Event {
        id: format!("drawn:{}", activity.id),
        kind: EventKind::ActivityDrawn,
        schema_version: 1,
        at: drawn_at,
        data: json!({
            "activityId": activity.id,
            "roomId": activity.room_id,
            "version": version,
            "round": 1,
            "drawAt": activity.draw_at.map(format_timestamp),
            "drawnAt": format_timestamp(drawn_at),
            "winnerCount": winner_count,
            "joinedCount": figures.joined_count,
            "eligibleCount": figures.eligible_count,
            "cutoffScore": figures.cutoff_score,
        }),
    }
}
