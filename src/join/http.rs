//! `POST …/join` and `GET …/me`.

use std::time::Duration;

use actix_web::{
    HttpResponse,
    web::{Data, Json},
};

use super::{JoinBody, JoinError, JoinService, Me, operations};
use crate::{
    http::{Accepted, Endpoint, OptionalBody, PathId, Problem, RequestId, Routes, Viewer},
    kernel::ActivityId,
};

/// When somebody whose join was not taken may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const READ_FAILED: &str = "participations cannot be read now";

/// The routes of joining; they need `Data<JoinService>`.
pub fn routes(routes: &mut Routes) {
    routes
        .service(Endpoint::new("/v1/activities/{activityId}/join").post(join, operations::join()))
        .service(Endpoint::new("/v1/activities/{activityId}/me").get(me, operations::me()));
}

/// Takes the viewer's join; sending it again changes nothing.
async fn join(
    viewer: Viewer,
    activity_id: PathId<ActivityId>,
    body: OptionalBody<JoinBody>,
    joins: Data<JoinService>,
) -> Result<HttpResponse, Problem> {
    let request_id = RequestId::current().map_or_else(String::new, |id| id.to_string());
    joins
        .join(activity_id.0, viewer.user_id(), body.0, request_id)
        .await?;
    Ok(HttpResponse::Accepted().json(Accepted::NEW))
}

/// What has become of the viewer's join.
async fn me(
    viewer: Viewer,
    activity_id: PathId<ActivityId>,
    joins: Data<JoinService>,
) -> Result<Json<Me>, Problem> {
    let me = joins.me(activity_id.0, viewer.user_id()).await?;
    Ok(Json(me))
}

impl From<JoinError> for Problem {
    fn from(error: JoinError) -> Self {
        let detail = error.to_string();
        match error {
            JoinError::NotFound(_) => Self::not_found("activity_not_found", detail),
            JoinError::NotOpen(_) => Self::conflict("activity_not_open", detail),
            JoinError::Closed(_) | JoinError::ConfirmedLate(_) => {
                Self::conflict("activity_closed", detail)
            }
            JoinError::Expired(_) => Self::gone("participation_expired", detail),
            JoinError::Invalid(faults) => Self::invalid(faults),
            JoinError::QueueFull => Self::unavailable("join_queue_full", detail, RETRY_AFTER),
            JoinError::ClockUncertain | JoinError::NotTaken => {
                Self::unavailable("join_unavailable", detail, RETRY_AFTER)
            }
            JoinError::OutcomeUnknown => {
                Self::unavailable("join_outcome_unknown", detail, RETRY_AFTER)
            }
            JoinError::Activity(error) => Self::from(error),
            JoinError::Candidate(error) if !error.is_unavailable() => Self::internal(error),
            JoinError::Candidate(error) => {
                Self::unavailable("unavailable", READ_FAILED, RETRY_AFTER).with_cause(error)
            }
        }
    }
}
