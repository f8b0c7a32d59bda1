//! `POST …/draw`.

use actix_web::{
    HttpResponse,
    web::{Data, ServiceConfig},
};
use serde_json::json;

use super::{DrawService, proof, redraw};
use crate::{
    activity::{Status, actor},
    http::{Endpoint, NoFields, Operator, OptionalBody, PathId, Problem},
    kernel::ActivityId,
};

/// The routes of this module.
pub fn routes(config: &mut ServiceConfig) {
    config
        .service(Endpoint::new("/v1/activities/{activityId}/draw").post(draw))
        .configure(redraw::routes)
        .configure(proof::routes);
}

/// Wakes the worker for an activity that is due.
async fn draw(
    operator: Operator,
    PathId(id): PathId<ActivityId>,
    _body: OptionalBody<NoFields>,
    draws: Data<DrawService>,
) -> Result<HttpResponse, Problem> {
    let state = draws.state_in_turn(id).await?;
    let is_due = state
        .pending_draw_at()
        .is_some_and(|draw_at| draw_at <= state.now);
    if is_due {
        draws.wake(id, &actor(operator.user_id())).await?;
        return Ok(HttpResponse::Accepted().json(json!({ "status": "accepted" })));
    }
    Err(match state.status {
        Status::Drawn => Problem::conflict("already_drawn", "the activity is drawn already"),
        Status::Cancelled => Problem::conflict("activity_cancelled", "the activity was cancelled"),
        Status::Draft
        | Status::InReview
        | Status::Rejected
        | Status::Ready
        | Status::Open
        | Status::Drawing => Problem::conflict("not_due", "the time of the draw has not come"),
    })
}
