//! `POST /v1/activities/{activityId}/redraws`.

use actix_web::{HttpResponse, http::StatusCode, web::Data};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{
    super::DrawService,
    order::{OrderBody, RedrawOrder},
    outcome::Redrawn,
};
use crate::{
    activity::{ACTIVITY_NOT_FOUND, actor},
    http::{
        Body, Endpoint, KnownProblem, Once, Operation, Operator, PathId, Problem, Routes, Tag,
        json_answer,
    },
    kernel::{ActivityId, UserId, WinRecordId},
    winners::{RESULT_EXPIRED, WinRecord, WonPrize},
};

/// The routes of this module.
pub(in crate::draw) fn routes(routes: &mut Routes) {
    routes.service(Endpoint::new("/v1/activities/{activityId}/redraws").post(redraw, operation()));
}

fn operation() -> Operation {
    Operation::new(Tag::Results, "redraw", "Takes wins back and fills the seats anew")
        .description(
            "Who comes next follows from the rows that the draw froze. A set of wins that was revoked in \
             one round is answered from the records of that round.",
        )
        .body(json!({ "winRecordIds": ["7265187412320780300"], "reason": "left the country" }))
        .answer::<RedrawView>(
            StatusCode::OK,
            "Who was revoked, who took the seats, and which stayed empty.",
            json!({
                "activityId": "7265187412320780288",
                "round": 2,
                "revoked": [
                    { "winRecordId": "7265187412320780300", "userId": "1234567890", "seat": 1 },
                ],
                "replaced": [{
                    "seat": 1,
                    "winRecordId": "7265187412320780301",
                    "userId": "1234567891",
                    "score": 0.981_273_645,
                    "prize": {
                        "prizeId": "1", "name": "Headphones", "kind": "physical", "rank": 1,
                    },
                }],
                "emptySeats": [],
            }),
        )
        .problems(&PROBLEMS)
}

const PROBLEMS: [KnownProblem; 7] = [
    ACTIVITY_NOT_FOUND,
    KnownProblem::conflict("not_drawn", "The activity has not been drawn"),
    KnownProblem::conflict(
        "already_revoked",
        "Some of the wins were revoked before, not all of them together",
    ),
    KnownProblem::conflict("win_delivered", "Some of the prizes are delivered"),
    KnownProblem::gone(
        "participants_expired",
        "The participants were removed at the end of their life",
    ),
    RESULT_EXPIRED,
    KnownProblem::UNAVAILABLE,
];

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Redrawn)]
struct RedrawView {
    activity_id: ActivityId,
    /// The round that this redraw made.
    round: u32,
    revoked: Vec<RevokedView>,
    replaced: Vec<ReplacedView>,
    empty_seats: Vec<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RevokedWin)]
struct RevokedView {
    win_record_id: WinRecordId,
    user_id: UserId,
    seat: u32,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewWin)]
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
