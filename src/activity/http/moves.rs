//! Moving activities on: submit, approve, reject, open, cancel.

use actix_web::{HttpResponse, http::StatusCode, web::Data};
use serde::Deserialize;

use super::{
    super::{ActivityService, check},
    activities::{actor, answer, in_own_room},
};
use crate::{
    http::{Body, FieldErrors, HostOrOperator, NoFields, Operator, OptionalBody, PathId, Problem},
    kernel::ActivityId,
};

/// `POST …/submit`.
pub(super) async fn submit(
    caller: HostOrOperator,
    id: PathId<ActivityId>,
    _body: OptionalBody<NoFields>,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    in_own_room(&activities, &caller, id.0).await?;
    let detail = activities.submit(id.0, &actor(caller.user_id())).await?;
    answer(StatusCode::OK, &detail, &activities)
}

/// `POST …/approve`.
pub(super) async fn approve(
    operator: Operator,
    id: PathId<ActivityId>,
    _body: OptionalBody<NoFields>,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let detail = activities.approve(id.0, &actor(operator.user_id())).await?;
    answer(StatusCode::OK, &detail, &activities)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RejectBody {
    reason: String,
}

/// `POST …/reject`.
pub(super) async fn reject(
    operator: Operator,
    id: PathId<ActivityId>,
    body: Body<RejectBody>,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let reason = checked_reason(Some(body.0.reason))?.unwrap_or_default();
    let detail = activities
        .reject(id.0, &reason, &actor(operator.user_id()))
        .await?;
    answer(StatusCode::OK, &detail, &activities)
}

/// `POST …/open`.
pub(super) async fn open(
    caller: HostOrOperator,
    id: PathId<ActivityId>,
    _body: OptionalBody<NoFields>,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    in_own_room(&activities, &caller, id.0).await?;
    let detail = activities.open(id.0, &actor(caller.user_id())).await?;
    answer(StatusCode::OK, &detail, &activities)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CancelBody {
    reason: Option<String>,
}

/// `POST …/cancel`.
pub(super) async fn cancel(
    caller: HostOrOperator,
    id: PathId<ActivityId>,
    body: OptionalBody<CancelBody>,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    in_own_room(&activities, &caller, id.0).await?;
    let reason = checked_reason(body.0.reason)?;
    let detail = activities
        .cancel(id.0, reason.as_deref(), &actor(caller.user_id()))
        .await?;
    answer(StatusCode::OK, &detail, &activities)
}

fn checked_reason(reason: Option<String>) -> Result<Option<String>, Problem> {
    let mut errors = FieldErrors::new();
    let reason = check::reason(reason, &mut errors);
    errors.into_result()?;
    Ok(reason)
}
