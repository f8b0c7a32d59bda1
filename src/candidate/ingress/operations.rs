//! How the calls with events are described.
#![expect(dead_code, reason = "schemas of events that are read field by field")]

use std::borrow::Cow;

use actix_web::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema},
};

use super::forms::EventsBody;
use crate::http::{
    Accepted, KnownProblem, Operation, Tag,
    openapi::{AnyId, Moment},
};

/// Who entered and left rooms.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PresenceEvents {
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<PresenceReport>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PresenceReport {
    #[schema(value_type = AnyId)]
    room_id: String,
    #[schema(value_type = AnyId)]
    user_id: String,
    kind: PresenceWord,
    /// Not far ahead of the service's clock.
    #[schema(value_type = Moment)]
    occurred_at: String,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum PresenceWord {
    Enter,
    Leave,
}

/// Who finished tasks.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct TaskEvents {
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<TaskReport>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskReport {
    #[schema(value_type = AnyId)]
    activity_id: String,
    #[schema(value_type = AnyId)]
    user_id: String,
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,64}$")]
    task_id: String,
    /// Not far ahead of the service's clock.
    #[schema(value_type = Moment)]
    completed_at: String,
}

// Which events it holds is for each operation to say.
impl PartialSchema for EventsBody {
    fn schema() -> RefOr<Schema> {
        Schema::Object(ObjectBuilder::new().build()).into()
    }
}

impl ToSchema for EventsBody {
    fn name() -> Cow<'static, str> {
        "Events".into()
    }
}

fn report<T: ToSchema>(id: &'static str, summary: &'static str, event: &Value) -> Operation {
    Operation::new(Tag::Events, id, summary)
        .description(
            "Answered once all events are confirmed by the broker. Neither order nor repetition matters, \
             so sending them again is safe.",
        )
        .body_of::<T>(json!({ "events": [event] }))
        .answer::<Accepted>(StatusCode::ACCEPTED, "The events are kept.", json!(Accepted::NEW))
        .problems(&[
            KnownProblem::unavailable(
                "events_unavailable",
                "The events were not taken: the service or the broker is not ready",
            ),
            KnownProblem::unavailable(
                "events_outcome_unknown",
                "Whether all events were taken is not known; sending them again is safe",
            ),
        ])
}

pub(super) fn presence() -> Operation {
    report::<PresenceEvents>(
        "reportPresence",
        "Reports who entered and left rooms",
        &json!({
            "roomId": "8001", "userId": "1234567890", "kind": "leave",
            "occurredAt": "2026-01-31T19:57:00.000Z",
        }),
    )
}

pub(super) fn tasks() -> Operation {
    report::<TaskEvents>(
        "reportTasks",
        "Reports who finished tasks",
        &json!({
            "activityId": "7265187412320780288", "userId": "1234567890", "taskId": "follow",
            "completedAt": "2026-01-31T19:57:00.000Z",
        }),
    )
}
