//! `POST …/draw`.

use actix_web::{HttpResponse, http::StatusCode, web::Data};
use serde_json::json;

use super::{DrawService, proof, redraw};
use crate::{
    activity::{ACTIVITY_NOT_FOUND, Status, actor},
    http::{
        Accepted, Endpoint, KnownProblem, NoFields, Operation, Operator, OptionalBody, PathId,
        Problem, Routes, Tag,
    },
    kernel::ActivityId,
};

/// The routes of this module.
pub fn routes(routes: &mut Routes) {
    routes
        .service(Endpoint::new("/v1/activities/{activityId}/draw").post(draw, operation()))
        .configure(redraw::routes)
        .configure(proof::routes);
}

fn operation() -> Operation {
    Operation::new(
        Tag::Results,
        "drawActivity",
        "Wakes the draw of an activity that is due",
    )
    .description("Not needed: what is due is drawn by itself.")
    .body(json!({}))
    .answer::<Accepted>(
        StatusCode::ACCEPTED,
        "It is drawn at once.",
        json!(Accepted::NEW),
    )
    .problems(&[
        ACTIVITY_NOT_FOUND,
        ACTIVITY_CANCELLED,
        KnownProblem::conflict("already_drawn", "The activity is drawn already"),
        KnownProblem::conflict("not_due", "The time of the draw has not come"),
        KnownProblem::UNAVAILABLE,
    ])
}

/// Nothing comes of an activity that was cancelled.
pub(super) const ACTIVITY_CANCELLED: KnownProblem =
    KnownProblem::conflict("activity_cancelled", "The activity was cancelled");

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
        return Ok(HttpResponse::Accepted().json(Accepted::NEW));
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
