//! `POST /v1/win-records/{winRecordId}/fulfilment`.

use actix_web::{HttpResponse, http::StatusCode, web::Data};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{
    super::WinnerService,
    FulfilmentState,
    service::{Fulfilled, NewReport},
};
use crate::{
    activity::{actor, check},
    http::{
        Body, Endpoint, FieldErrors, KnownProblem, Once, Operation, PathId, Problem, Routes,
        Service, Tag, json_answer,
    },
    kernel::WinRecordId,
};

const REFERENCE_MAX_CHARS: usize = 200;

/// The routes of this module.
pub(in crate::winners) fn routes(routes: &mut Routes) {
    routes.service(
        Endpoint::new("/v1/win-records/{winRecordId}/fulfilment").post(fulfil, operation()),
    );
}

fn operation() -> Operation {
    Operation::new(Tag::Results, "reportFulfilment", "Reports what became of a prize")
        .description(
            "A prize is `claimed`, then `delivered`; before that it may become `expired`. The same again \
             changes nothing.",
        )
        .body(json!({ "state": "claimed", "reference": "order 4711" }))
        .answer::<Fulfilled>(
            StatusCode::OK,
            "Where the prize is now.",
            json!({
                "winRecordId": "7265187412320780300",
                "activityId": "7265187412320780288",
                "userId": "1234567890",
                "state": "claimed",
                "reference": "order 4711",
            }),
        )
        .problems(&[
            KnownProblem::not_found("win_record_not_found", "There is no such win record"),
            KnownProblem::conflict("win_revoked", "The win was revoked by a redraw"),
            KnownProblem::conflict(
                "fulfilment_conflict",
                "What is known of the prize already does not go with this report",
            ),
            KnownProblem::UNAVAILABLE,
        ])
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReportBody {
    #[schema(value_type = ReportedState)]
    state: FulfilmentState,
    /// The reporting system's own word for it, such as an order number.
    #[schema(min_length = 1, max_length = 200)]
    reference: Option<String>,
}

/// What can be reported.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "the schema of a state without `pending`")]
enum ReportedState {
    Claimed,
    Delivered,
    Expired,
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
