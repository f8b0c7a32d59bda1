//! `GET /v1/activities/{activityId}/stats`.

use std::{sync::Arc, time::Duration};

use actix_web::web::{Data, Json, ServiceConfig};

use super::Stats;
use crate::{
    activity::{self, ActivityService},
    candidate::{CandidateError, CandidateService},
    http::{Endpoint, HostOrOperator, PathId, Problem},
    kernel::ActivityId,
};

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The routes of statistics; they need `Data<CandidateService>` and `Data<ActivityService>`.
pub fn routes(config: &mut ServiceConfig) {
    config.service(Endpoint::new("/v1/activities/{activityId}/stats").get(stats));
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
