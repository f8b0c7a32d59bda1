//! The prize library.

use actix_web::{HttpResponse, http::StatusCode, web::Data};

use super::{
    super::{ActivityService, LibraryPrize, LibraryPrizeForm},
    activities::actor,
};
use crate::{
    http::{
        Body, Once, Operator, Page, PageRequest, PathId, Problem, Query, json_answer,
        page::PageQuery,
    },
    kernel::PrizeId,
};

/// `GET /v1/prizes`.
pub(super) async fn list(
    _operator: Operator,
    query: Query<PageQuery>,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let request = PageRequest::from(query.0);
    let before = request.after()?;
    let rows = activities
        .list_prizes(before, request.rows_to_read())
        .await?;
    let page = Page::of_rows(rows, &request, |prize| prize.id)?;
    Ok(HttpResponse::Ok().json(page))
}

/// `POST /v1/prizes`.
pub(super) async fn create(
    operator: Operator,
    form: Body<LibraryPrizeForm>,
    once: Once,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let actor = actor(operator.user_id());
    let created = |prize: &LibraryPrize| json_answer(StatusCode::CREATED, prize);
    let change = activities.create_prize(&form.0, &actor);
    once.answer(operator.user_id(), created, change).await
}

/// `PATCH /v1/prizes/{prizeId}`.
pub(super) async fn update(
    operator: Operator,
    id: PathId<PrizeId>,
    form: Body<LibraryPrizeForm>,
    once: Once,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let actor = actor(operator.user_id());
    let updated = |prize: &LibraryPrize| json_answer(StatusCode::OK, prize);
    let change = activities.update_prize(id.0, &form.0, &actor);
    once.answer(operator.user_id(), updated, change).await
}
