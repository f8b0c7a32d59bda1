//! Moving activities on: submit, approve, reject, open, cancel.

use actix_web::{HttpResponse, http::StatusCode, web::Data};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    super::{ActivityService, check},
    activities::{actor, answering, in_own_room},
};
use crate::{
    http::{
        Body, FieldErrors, HostOrOperator, NoFields, Once, Operator, OptionalBody, PathId, Problem,
    },
    kernel::ActivityId,
};

/// `POST …/submit`.
pub(super) async fn submit(
    caller: HostOrOperator,
    id: PathId<ActivityId>,
    _body: OptionalBody<NoFields>,
    once: Once,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    in_own_room(&activities, &caller, id.0).await?;
    let actor = actor(caller.user_id());
    let change = activities.submit(id.0, &actor);
    let answering = answering(StatusCode::OK, &activities);
    once.answer(caller.user_id(), answering, change).await
}

/// `POST …/approve`.
pub(super) async fn approve(
    operator: Operator,
    id: PathId<ActivityId>,
    _body: OptionalBody<NoFields>,
    once: Once,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let actor = actor(operator.user_id());
    let change = activities.approve(id.0, &actor);
    let answering = answering(StatusCode::OK, &activities);
    once.answer(operator.user_id(), answering, change).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RejectBody {
    #[schema(min_length = 1, max_length = 255)]
    reason: String,
}

/// `POST …/reject`.
pub(super) async fn reject(
    operator: Operator,
    id: PathId<ActivityId>,
    body: Body<RejectBody>,
    once: Once,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let reason = checked_reason(Some(body.0.reason))?.unwrap_or_default();
    let actor = actor(operator.user_id());
    let change = activities.reject(id.0, &reason, &actor);
    let answering = answering(StatusCode::OK, &activities);
    once.answer(operator.user_id(), answering, change).await
}

/// `POST …/open`.
pub(super) async fn open(
    caller: HostOrOperator,
    id: PathId<ActivityId>,
    _body: OptionalBody<NoFields>,
    once: Once,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    in_own_room(&activities, &caller, id.0).await?;
    let actor = actor(caller.user_id());
    let change = activities.open(id.0, &actor);
    let answering = answering(StatusCode::OK, &activities);
    once.answer(caller.user_id(), answering, change).await
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelBody {
    #[schema(min_length = 1, max_length = 255)]
    reason: Option<String>,
}

/// `POST …/cancel`.
pub(super) async fn cancel(
    caller: HostOrOperator,
    id: PathId<ActivityId>,
    body: OptionalBody<CancelBody>,
    once: Once,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    in_own_room(&activities, &caller, id.0).await?;
    let reason = checked_reason(body.0.reason)?;
    let actor = actor(caller.user_id());
    let change = activities.cancel(id.0, reason.as_deref(), &actor);
    let answering = answering(StatusCode::OK, &activities);
    once.answer(caller.user_id(), answering, change).await
}

fn checked_reason(reason: Option<String>) -> Result<Option<String>, Problem> {
    let mut errors = FieldErrors::new();
    let reason = check::reason(reason, &mut errors);
    errors.into_result()?;
    Ok(reason)
}
