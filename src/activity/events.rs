//! What others hear of an activity's life.

use serde_json::json;

use super::Activity;
use crate::{
    infra::outbox::{DrawMessage, Entry, Event, EventKind},
    kernel::{Timestamp, format_timestamp},
};

/// The name of the projection that brings `lb:activity`, `lb:prize` and `lb:room` up to date.
pub const PROJECTION: &str = "activity";

const SCHEMA_VERSION: u32 = 1;

/// Bring Redis up to date with this version of the activity.
pub(super) fn project(activity: &Activity) -> Entry {
    Entry::Project {
        what: PROJECTION,
        activity_id: activity.id,
        version: activity.version,
    }
}

/// `activity.opened`.
pub(super) fn opened(activity: &Activity) -> Entry {
    Entry::Publish(Event {
        id: format!("opened:{}", activity.id),
        kind: EventKind::ActivityOpened,
        schema_version: SCHEMA_VERSION,
        at: activity.start_at.unwrap_or(activity.created_at),
        data: json!({
            "activityId": activity.id,
            "roomId": activity.room_id,
            "hostId": activity.host_id,
            "title": activity.title,
            "prizes": activity.prizes,
            "winnerCount": activity.winner_count,
            "tasks": activity.tasks,
            "presenceRule": activity.presence_rule,
            "startAt": activity.start_at.map(format_timestamp),
            "drawAt": activity.draw_at.map(format_timestamp),
            "commitment": activity.commitment.map(hex::encode),
            "version": activity.version,
        }),
    })
}

/// `activity.cancelled`.
pub(super) fn cancelled(activity: &Activity, at: Timestamp) -> Entry {
    Entry::Publish(Event {
        id: format!("cancelled:{}", activity.id),
        kind: EventKind::ActivityCancelled,
        schema_version: SCHEMA_VERSION,
        at,
        data: json!({
            "activityId": activity.id,
            "roomId": activity.room_id,
            "reason": activity.status_reason,
            "wasOpened": activity.commitment.is_some(),
            "version": activity.version,
        }),
    })
}

/// The delayed draw of an open activity.
pub(super) fn draw(activity: &Activity) -> Option<Entry> {
    activity.draw_at.map(|draw_at| {
        Entry::Draw(DrawMessage {
            activity_id: activity.id,
            draw_at,
        })
    })
}
