//! The prize library.

use actix_web::{HttpResponse, web::Data};

use super::{
    super::{ActivityService, LibraryPrizeForm},
    activities::actor,
};
use crate::{
    http::{Body, Operator, Page, PageRequest, PathId, Problem, Query, page::PageQuery},
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
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let prize = activities
        .create_prize(&form.0, &actor(operator.user_id()))
        .await?;
    Ok(HttpResponse::Created().json(prize))
}

/// `PATCH /v1/prizes/{prizeId}`.
pub(super) async fn update(
    operator: Operator,
    id: PathId<PrizeId>,
    form: Body<LibraryPrizeForm>,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let prize = activities
        .update_prize(id.0, &form.0, &actor(operator.user_id()))
        .await?;
    Ok(HttpResponse::Ok().json(prize))
}
