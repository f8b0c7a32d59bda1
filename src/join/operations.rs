//! How the calls about joining are described.

use actix_web::http::StatusCode;
use serde_json::json;

use super::Me;
use crate::{
    activity::ACTIVITY_NOT_FOUND,
    http::{Accepted, KnownProblem, Operation, Tag},
};

const EXPIRED: KnownProblem = KnownProblem::gone(
    "participation_expired",
    "The participants were removed at the end of their life",
);

pub(super) fn join() -> Operation {
    Operation::new(Tag::Joining, "joinActivity", "Takes part in an activity")
        .description(
            "Answered once the join is confirmed by the broker: it will not be lost. Whether the caller \
             takes part is decided a moment later; `getMyParticipation` tells. Sending it again is safe \
             and changes nothing. `completedTasks` are believed only when the configuration says that \
             the app may report them.",
        )
        .body(json!({ "deviceId": "a5c1f0d2", "completedTasks": ["follow"] }))
        .answer::<Accepted>(StatusCode::ACCEPTED, "The join is kept.", json!(Accepted::NEW))
        .problems(&[
            ACTIVITY_NOT_FOUND,
            KnownProblem::UNAVAILABLE,
            KnownProblem::conflict("activity_not_open", "The activity is not open yet"),
            KnownProblem::conflict(
                "activity_closed",
                "The activity takes no more joins: it was drawn or cancelled, or `drawAt` has passed; \
                 one that was sent in the last moment may count, `getMyParticipation` tells",
            ),
            KnownProblem::unavailable("join_queue_full", "Too many joins are waiting"),
            KnownProblem::unavailable(
                "join_unavailable",
                "The join was not taken: the broker does not answer, or the time is in doubt",
            ),
            KnownProblem::unavailable(
                "join_outcome_unknown",
                "Whether the join was taken is not known; sending it again is safe",
            ),
        ])
}

pub(super) fn me() -> Operation {
    Operation::new(
        Tag::Joining,
        "getMyParticipation",
        "Tells what has become of the caller's join",
    )
    .answer::<Me>(
        StatusCode::OK,
        "How far it has come, and whether the caller can win as things stand.",
        json!({
            "participation": "joined", "joinedAt": "2026-01-31T19:56:12.345Z",
            "eligibility": "tasksUnfinished", "tasksDone": [], "tasksLeft": ["follow"],
        }),
    )
    .problems(&[ACTIVITY_NOT_FOUND, EXPIRED, KnownProblem::UNAVAILABLE])
}
