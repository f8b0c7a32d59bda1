//! `GET …/result` and `GET …/winners`.

use std::collections::HashMap;

use actix_web::web::{Data, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    Fulfilment, UserResult, WinRecord, WinnerService, export, fulfilment, operations,
    result::WonPrize,
};
use crate::{
    activity::ActivityDetail,
    http::{
        Cursor, Endpoint, Page, PageLimit, PageRequest, PathId, Problem, Query, Routes, Viewer,
    },
    kernel::{ActivityId, PrizeId, UserId, WinRecordId},
};

/// The routes of this module.
pub fn routes(routes: &mut Routes) {
    routes
        .service(
            Endpoint::new("/v1/activities/{activityId}/result").get(result, operations::result()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/winners")
                .get(winners, operations::winners()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/winners.csv")
                .get(export::winners_csv, operations::winners_csv()),
        )
        .configure(fulfilment::routes);
}

/// Tells the caller whether it won.
async fn result(
    viewer: Viewer,
    PathId(id): PathId<ActivityId>,
    service: Data<WinnerService>,
) -> Result<Json<UserResult>, Problem> {
    Ok(Json(service.result(id, viewer.user_id()).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WinnersQuery {
    /// Only those who won this prize.
    #[param(inline)]
    prize_id: Option<PrizeId>,
    /// How many items the page may have.
    #[param(inline)]
    limit: Option<PageLimit>,
    /// The `nextCursor` of the page before.
    #[param(inline)]
    cursor: Option<Cursor>,
}

/// A winner as shown in the list.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Winner)]
struct WinnerView {
    /// 1 to the winner count, by order of score; a redraw keeps it.
    seat: u32,
    /// Masked unless the caller runs the room.
    user_id: String,
    win_record_id: WinRecordId,
    prize: WonPrize,
    score: f64,
    round: u32,
    /// How far its prize is; shown only to who runs the room.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    fulfilment: Option<Fulfilment>,
}

/// One page of winners; round 0 says that there is no result yet.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WinnersPage {
    round: u32,
    #[serde(flatten)]
    page: Page<WinnerView>,
}

/// Lists who won, best first.
async fn winners(
    viewer: Viewer,
    PathId(id): PathId<ActivityId>,
    Query(query): Query<WinnersQuery>,
    service: Data<WinnerService>,
) -> Result<Json<WinnersPage>, Problem> {
    let request = PageRequest::new(query.limit, query.cursor);
    let after: u32 = request.after()?.unwrap_or(0);
    let (detail, list) = service.list(id).await?;
    let runs_room = viewer.principal().runs(detail.room_id);
    let show_user: fn(UserId) -> String = if runs_room {
        |user| user.to_string()
    } else {
        masked
    };
    let is_wanted = |win: &&WinRecord| query.prize_id.is_none_or(|prize| win.prize_id == prize);
    let rows = list
        .current()
        .filter(is_wanted)
        .filter(|win| win.seat > after)
        .take(request.limit.get() + 1)
        .collect();
    let page = Page::of_rows(rows, &request, |win: &&WinRecord| win.seat)?;
    // Not from memory, which knows the wins but not what happens to their prizes.
    let mut fulfilments = if runs_room {
        let ids: Vec<WinRecordId> = page.items.iter().map(|win| win.id).collect();
        service.fulfilments(&ids).await?
    } else {
        HashMap::new()
    };
    Ok(Json(WinnersPage {
        round: list.round(),
        page: page.map(|win| WinnerView {
            fulfilment: fulfilments.remove(&win.id),
            ..WinnerView::of(&detail, win, show_user)
        }),
    }))
}

impl WinnerView {
    fn of(detail: &ActivityDetail, win: &WinRecord, show_user: fn(UserId) -> String) -> Self {
        Self {
            seat: win.seat,
            user_id: show_user(win.user_id),
            win_record_id: win.id,
            prize: WonPrize::of(&detail.prizes, win),
            score: win.score,
            round: win.round,
            fulfilment: None,
        }
    }
}

/// The first and last digits of a user id: enough to find oneself, too little to find others.
fn masked(user: UserId) -> String {
    let digits = user.to_string();
    let kept = if digits.len() >= 8 { 2 } else { 1 };
    match (digits.get(..kept), digits.get(digits.len() - kept..)) {
        (Some(head), Some(tail)) if digits.len() > 2 => format!("{head}****{tail}"),
        (Some(_) | None, Some(_) | None) => "****".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_id_keeps_its_ends_only() {
        assert_eq!(masked(UserId(1_234_567_890)), "12****90");
        assert_eq!(masked(UserId(1_234)), "1****4");
        assert_eq!(masked(UserId(12)), "****");
        assert_eq!(masked(UserId(7)), "****");
    }
}
