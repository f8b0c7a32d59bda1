//! `GET /v1/activities/{activityId}/stats`.

use std::{sync::Arc, time::Duration};

use actix_web::{
    http::StatusCode,
    web::{Data, Json},
};
use serde_json::json;

use super::Stats;
use crate::{
    activity::{self, ACTIVITY_NOT_FOUND, ActivityService},
    candidate::{CandidateError, CandidateService},
    http::{Endpoint, HostOrOperator, KnownProblem, Operation, PathId, Problem, Routes, Tag},
    kernel::ActivityId,
};

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The routes of statistics; they need `Data<CandidateService>` and `Data<ActivityService>`.
pub fn routes(routes: &mut Routes) {
    routes.service(Endpoint::new("/v1/activities/{activityId}/stats").get(stats, operation()));
}

fn operation() -> Operation {
    Operation::new(
        Tag::Activities,
        "getStats",
        "Counts the participants and who of them can win",
    )
    .description("A few seconds old; older where counting takes long: `asOf` says.")
    .answer::<Stats>(
        StatusCode::OK,
        "The figures.",
        json!({
            "activityId": "7265187412320780288",
            "status": "open",
            "asOf": "2026-01-31T19:58:00.000Z",
            "joined": 1204,
            "eligible": 1100, "absent": 80, "tasksUnfinished": 20,
            "absentAndTasksUnfinished": 4, "forfeited": 0,
            "trimmed": 0,
            "rejected": { "blocked": 3, "cooldown": 41, "duplicateDevice": 0, "invalid": 0 },
            "late": 0,
            "winnerCount": 23,
            "fillsAllSeats": true,
        }),
    )
    .problems(&[
        ACTIVITY_NOT_FOUND,
        KnownProblem::gone(
            "stats_expired",
            "The participants were removed at the end of their life",
        ),
        KnownProblem::UNAVAILABLE,
    ])
}

/// Tells the host how many take part and how many of them can win.
async fn stats(
    caller: HostOrOperator,
    id: PathId<ActivityId>,
    activities: Data<ActivityService>,
    candidates: Data<CandidateService>,
) -> Result<Json<Arc<Stats>>, Problem> {
    let detail = activity::in_own_room(&activities, &caller, id.0).await?;
    if detail.participants_removed_at.is_some() {
        let detail = "the participations of this activity have been removed";
        return Err(Problem::gone("stats_expired", detail));
    }
    let stats = candidates.stats(id.0).await.map_err(refuse)?;
    Ok(Json(stats))
}

fn refuse(error: CandidateError) -> Problem {
    if error.is_unavailable() {
        let detail = "the statistics cannot be counted now";
        return Problem::unavailable("unavailable", detail, RETRY_AFTER).with_cause(error);
    }
    Problem::internal(error)
}
