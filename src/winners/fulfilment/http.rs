//! `POST /v1/win-records/{winRecordId}/fulfilment`.

use actix_web::{
    HttpResponse,
    http::StatusCode,
    web::{Data, ServiceConfig},
};
use serde::Deserialize;

use super::{
    super::WinnerService,
    FulfilmentState,
    service::{Fulfilled, NewReport},
};
use crate::{
    activity::{actor, check},
    http::{Body, Endpoint, FieldErrors, Once, PathId, Problem, Service, json_answer},
    kernel::WinRecordId,
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

/// Takes a report about a prize.
async fn fulfil(
    caller: Service,
    PathId(id): PathId<WinRecordId>,
    Body(body): Body<ReportBody>,
    once: Once,
    winners: Data<WinnerService>,
) -> Result<HttpResponse, Problem> {
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
    let fulfilled = |done: &Fulfilled| json_answer(StatusCode::OK, done);
    let change = winners.fulfil(id, &report, &actor);
    once.answer(caller.user_id(), fulfilled, change).await
}
