//! What everybody may see of an activity.

use serde::{Deserialize, Serialize};

use super::{Activity, ActivityPrize, PresenceRule, Status, Task};
use crate::kernel::{ActivityId, RoomId, Timestamp, UserId, exact_number, to_millis};

/// The public part of an activity, as `lb:activity:<id>` holds it. Never the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActivityDetail {
    pub id: ActivityId,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    pub room_id: RoomId,
    pub host_id: UserId,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<String>,
    /// Best prize first.
    pub prizes: Vec<ActivityPrize>,
    pub winner_count: u32,
    pub tasks: Vec<Task>,
    pub presence_rule: PresenceRule,
    pub one_entry_per_device: bool,
    pub cooldown_seconds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub countdown_seconds: Option<u64>,
    #[serde(with = "to_millis::option")]
    pub start_at: Option<Timestamp>,
    #[serde(with = "to_millis::option")]
    pub draw_at: Option<Timestamp>,
    #[serde(with = "to_millis::option")]
    pub drawn_at: Option<Timestamp>,
    /// Lower-case hex, from the opening on.
    pub commitment: Option<String>,
    /// Canonical JSON text, from the opening on.
    pub rules: Option<String>,
    pub joined_count: Option<u64>,
    pub eligible_count: Option<u64>,
    #[serde(default, deserialize_with = "exact_number::option::deserialize")]
    pub cutoff_score: Option<f64>,
    #[serde(default, with = "to_millis::option")]
    pub proof_published_at: Option<Timestamp>,
    /// Since when nothing is told of its participants any more.
    #[serde(
        default,
        with = "to_millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub participants_removed_at: Option<Timestamp>,
    /// Since when nothing is told of its results any more.
    #[serde(
        default,
        with = "to_millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub wins_removed_at: Option<Timestamp>,
    /// 0 before the draw.
    pub round: u32,
    pub version: u32,
    #[serde(with = "to_millis")]
    pub created_at: Timestamp,
}

impl ActivityDetail {
    /// Whether it was ever opened; from then on viewers see it.
    pub fn was_opened(&self) -> bool {
        self.commitment.is_some()
    }

    /// Whether viewers may know of it: not before its review is through.
    pub fn is_public(&self) -> bool {
        match self.status {
            Status::Draft | Status::InReview | Status::Rejected => false,
            Status::Ready | Status::Open | Status::Drawing | Status::Drawn => true,
            Status::Cancelled => self.was_opened(),
        }
    }

    /// Whether it may still become open, so that "not open" must not be told from a copy.
    pub(super) fn may_yet_open(&self) -> bool {
        matches!(
            self.status,
            Status::Draft | Status::InReview | Status::Ready
        )
    }
}

impl From<Activity> for ActivityDetail {
    fn from(activity: Activity) -> Self {
        Self {
            id: activity.id,
            status: activity.status,
            status_reason: activity.status_reason,
            room_id: activity.room_id,
            host_id: activity.host_id,
            title: activity.title,
            conditions: activity.conditions,
            prizes: activity.prizes,
            winner_count: activity.winner_count,
            tasks: activity.tasks,
            presence_rule: activity.presence_rule,
            one_entry_per_device: activity.one_entry_per_device,
            cooldown_seconds: activity.cooldown.as_secs(),
            countdown_seconds: activity.countdown.map(|countdown| countdown.as_secs()),
            start_at: activity.start_at,
            draw_at: activity.draw_at,
            drawn_at: activity.drawn_at,
            commitment: activity.commitment.map(hex::encode),
            rules: activity.rules,
            joined_count: activity.joined_count,
            eligible_count: activity.eligible_count,
            cutoff_score: activity.cutoff_score,
            proof_published_at: activity.proof_published_at,
            participants_removed_at: activity.participants_removed_at,
            wins_removed_at: activity.wins_removed_at,
            round: activity.round,
            version: activity.version,
            created_at: activity.created_at,
        }
    }
}
