//! How an activity is shown.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    super::{ActivityDetail, ActivityPrize, PresenceRule, Status, Task},
    schemas::Rules,
};
use crate::{
    http::{
        Problem,
        openapi::{Hex32, Moment},
    },
    kernel::{ActivityId, RoomId, Timestamp, UserId, to_millis},
};

/// An activity as callers see it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Activity)]
pub(super) struct ActivityView<'a> {
    id: ActivityId,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    status_reason: Option<&'a str>,
    room_id: RoomId,
    host_id: UserId,
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    conditions: Option<&'a str>,
    prizes: &'a [ActivityPrize],
    winner_count: u32,
    tasks: &'a [Task],
    presence_rule: PresenceRule,
    one_entry_per_device: bool,
    cooldown_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    countdown_seconds: Option<u64>,
    #[serde(with = "to_millis::option")]
    #[schema(value_type = Option<Moment>, required)]
    start_at: Option<Timestamp>,
    #[serde(with = "to_millis::option")]
    #[schema(value_type = Option<Moment>, required)]
    draw_at: Option<Timestamp>,
    #[serde(with = "to_millis::option")]
    #[schema(value_type = Option<Moment>, required)]
    drawn_at: Option<Timestamp>,
    /// The database's time, for the countdown on the caller's screen.
    #[serde(with = "to_millis::option")]
    #[schema(value_type = Option<Moment>, required)]
    server_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    participants: Option<u64>,
    #[schema(value_type = Option<Hex32>, required)]
    commitment: Option<&'a str>,
    /// Byte for byte the text whose SHA-256 is in the commitment.
    #[schema(value_type = Option<Rules>, required)]
    rules: Option<Box<RawValue>>,
    round: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    joined_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    eligible_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cutoff_score: Option<f64>,
    #[serde(with = "to_millis::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Moment>, nullable = false)]
    proof_published_at: Option<Timestamp>,
    version: u32,
    #[serde(with = "to_millis")]
    #[schema(value_type = Moment)]
    created_at: Timestamp,
}

impl<'a> ActivityView<'a> {
    pub(super) fn of(
        detail: &'a ActivityDetail,
        server_time: Option<Timestamp>,
    ) -> Result<Self, Problem> {
        let rules = detail.rules.clone().map(RawValue::from_string).transpose();
        Ok(Self {
            id: detail.id,
            status: detail.status,
            status_reason: detail.status_reason.as_deref(),
            room_id: detail.room_id,
            host_id: detail.host_id,
            title: &detail.title,
            conditions: detail.conditions.as_deref(),
            prizes: &detail.prizes,
            winner_count: detail.winner_count,
            tasks: &detail.tasks,
            presence_rule: detail.presence_rule,
            one_entry_per_device: detail.one_entry_per_device,
            cooldown_seconds: detail.cooldown_seconds,
            countdown_seconds: detail.countdown_seconds,
            start_at: detail.start_at,
            draw_at: detail.draw_at,
            drawn_at: detail.drawn_at,
            server_time,
            participants: detail.joined_count,
            commitment: detail.commitment.as_deref(),
            rules: rules.map_err(Problem::internal)?,
            round: detail.round,
            joined_count: detail.joined_count,
            eligible_count: detail.eligible_count,
            cutoff_score: detail.cutoff_score,
            proof_published_at: detail.proof_published_at,
            version: detail.version,
            created_at: detail.created_at,
        })
    }

    /// Adds how many take part, unless the final figure is known.
    #[must_use]
    pub(super) fn with_participants(mut self, count: Option<u64>) -> Self {
        self.participants = self.participants.or(count);
        self
    }
}
