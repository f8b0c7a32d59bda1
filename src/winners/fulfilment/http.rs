//! `POST /v1/win-records/{winRecordId}/fulfilment`.

use actix_web::web::{Data, Json, ServiceConfig};
use serde::{Deserialize, Serialize};

use super::{super::WinnerService, Fulfilment, FulfilmentState, service::NewReport};
use crate::{
    activity::{actor, check},
    http::{Body, Endpoint, FieldErrors, PathId, Problem, Service},
    kernel::{ActivityId, UserId, WinRecordId},
};

const REFERENCE_MAX_CHARS: usize = 200;

/// The routes of this module.
pub(in crate::winners) fn routes(config: &mut ServiceConfig) {
    config.service(Endpoint::new("/v1/win-records/{winRecordId}/fulfilment").post(fulfil));
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportBody {
    state: FulfilmentState,
    reference: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FulfilledView {
    win_record_id: WinRecordId,
    activity_id: ActivityId,
    user_id: UserId,
    #[serde(flatten)]
    fulfilment: Fulfilment,
}

/// Takes a report about a prize.
async fn fulfil(
    caller: Service,
    PathId(id): PathId<WinRecordId>,
    Body(body): Body<ReportBody>,
    winners: Data<WinnerService>,
) -> Result<Json<FulfilledView>, Problem> {
    let mut errors = FieldErrors::new();
    let reference = check::line(
        body.reference,
        "reference",
        REFERENCE_MAX_CHARS,
        &mut errors,
    );
    errors.into_result()?;
    let report = NewReport {
        state: body.state,
        reference,
    };
    let actor = actor(caller.user_id());
    let fulfilled = winners.fulfil(id, &report, &actor).await?;
    Ok(Json(FulfilledView {
        win_record_id: id,
        activity_id: fulfilled.activity_id,
        user_id: fulfilled.user_id,
        fulfilment: fulfilled.fulfilment,
    }))
}
