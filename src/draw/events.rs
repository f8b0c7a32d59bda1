//! What others hear of a draw.

use serde_json::json;

use crate::{
    activity::{Activity, drawing::FinalFigures},
    candidate::entries::BuiltEntries,
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

/// An activity's entries are fixed under one root, and its seed is public.
pub(super) fn proof_published(
    activity: &Activity,
    version: u32,
    at: Timestamp,
    entries: &BuiltEntries,
) -> Event {
    Event {
        id: format!("proof:{}", activity.id),
        kind: EventKind::ProofPublished,
        schema_version: 1,
        at,
        data: json!({
            "activityId": activity.id,
            "roomId": activity.room_id,
            "version": version,
            "commitment": activity.commitment.map(hex::encode),
            "entriesCount": entries.count,
            "entriesRoot": hex::encode(entries.root),
            "publishedAt": format_timestamp(at),
        }),
    }
}
