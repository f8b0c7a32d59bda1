//! `POST /v1/activities/{activityId}/redraws`.

use actix_web::{
    HttpResponse,
    http::StatusCode,
    web::{Data, ServiceConfig},
};
use serde::Serialize;

use super::{
    super::DrawService,
    order::{OrderBody, RedrawOrder},
    outcome::Redrawn,
};
use crate::{
    activity::actor,
    http::{Body, Endpoint, Once, Operator, PathId, Problem, json_answer},
    kernel::{ActivityId, UserId, WinRecordId},
    winners::{WinRecord, WonPrize},
};

/// The routes of this module.
pub(in crate::draw) fn routes(config: &mut ServiceConfig) {
    config.service(Endpoint::new("/v1/activities/{activityId}/redraws").post(redraw));
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RedrawView {
    activity_id: ActivityId,
    /// The round that this redraw made.
    round: u32,
    revoked: Vec<RevokedView>,
    replaced: Vec<ReplacedView>,
    empty_seats: Vec<u32>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RevokedView {
    win_record_id: WinRecordId,
    user_id: UserId,
    seat: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplacedView {
    seat: u32,
    win_record_id: WinRecordId,
    user_id: UserId,
    score: f64,
    prize: WonPrize,
}

/// Takes wins back and tells who took the seats.
async fn redraw(
    operator: Operator,
    PathId(id): PathId<ActivityId>,
    Body(body): Body<OrderBody>,
    once: Once,
    draws: Data<DrawService>,
) -> Result<HttpResponse, Problem> {
    let order = RedrawOrder::checked(body).map_err(Problem::invalid)?;
    let actor = actor(operator.user_id());
    let redrawn = |done: &Redrawn| json_answer(StatusCode::OK, &RedrawView::of(done));
    let change = draws.redraw(id, &order, &actor);
    once.answer_in_own_turns(operator.user_id(), redrawn, change)
        .await
}

impl RedrawView {
    fn of(Redrawn { redraw, prizes }: &Redrawn) -> Self {
        let revoked = |win: &WinRecord| RevokedView {
            win_record_id: win.id,
            user_id: win.user_id,
            seat: win.seat,
        };
        let replaced = |win: &WinRecord| ReplacedView {
            seat: win.seat,
            win_record_id: win.id,
            user_id: win.user_id,
            score: win.score,
            prize: WonPrize::of(prizes, win),
        };
        Self {
            activity_id: redraw.activity_id,
            round: redraw.round,
            revoked: redraw.revoked.iter().map(revoked).collect(),
            replaced: redraw.replaced.iter().map(replaced).collect(),
            empty_seats: redraw.empty_seats.clone(),
        }
    }
}
