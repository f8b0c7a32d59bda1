//! Reading, creating and editing activities.

use std::sync::Arc;

use actix_web::{HttpResponse, http::StatusCode, web::Data};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use utoipa::{IntoParams, ToSchema};

use super::{
    super::{
        ActivityDetail, ActivityError, ActivityFilter, ActivityForm, ActivityService, Actor, Status,
    },
    CountParticipants,
    view::ActivityView,
};
use crate::{
    http::{
        Body, Cursor, HostOrOperator, Once, Operator, Page, PageLimit, PageRequest, PathId,
        Principal, Problem, Query, RequestId, Viewer, json_answer, page::PageQuery,
    },
    infra::idempotency::Answer,
    kernel::{ActivityId, RoomId, UserId},
};

/// The caller as the audit names it.
pub fn actor(user_id: UserId) -> Actor {
    let request_id = RequestId::current();
    let request_id = request_id.as_ref().map_or("", RequestId::as_str);
    Actor::user(user_id, request_id)
}

/// The activity, if the caller may change it; to whoever may not even see it there is none.
pub async fn in_own_room(
    activities: &ActivityService,
    caller: &HostOrOperator,
    id: ActivityId,
) -> Result<Arc<ActivityDetail>, Problem> {
    let detail = visible(activities, caller.principal(), id).await?;
    caller.may_act_in(detail.room_id)?;
    Ok(detail)
}

/// The activity alone, as an answer; a new one with the place where it is.
pub(super) fn answering(
    status: StatusCode,
    activities: &Data<ActivityService>,
) -> impl Fn(&ActivityDetail) -> Result<Answer, Problem> + use<> {
    let activities = Data::clone(activities);
    move |detail| {
        let view = ActivityView::of(detail, activities.now_estimate())?;
        let is_new = status == StatusCode::CREATED;
        Ok(Answer {
            location: is_new.then(|| format!("/v1/activities/{}", detail.id)),
            ..json_answer(status, &view)?
        })
    }
}

/// `GET /v1/activities/{activityId}`.
pub(super) async fn show(
    viewer: Viewer,
    id: PathId<ActivityId>,
    activities: Data<ActivityService>,
    participants: Data<dyn CountParticipants>,
) -> Result<HttpResponse, Problem> {
    let detail = visible(&activities, viewer.principal(), id.0).await?;
    let view = view_with_count(&detail, &activities, &participants).await?;
    Ok(HttpResponse::Ok().json(view))
}

async fn visible(
    activities: &ActivityService,
    caller: &Principal,
    id: ActivityId,
) -> Result<Arc<ActivityDetail>, Problem> {
    let detail = activities.detail(id).await?;
    if detail.is_public() || caller.runs(detail.room_id) {
        Ok(detail)
    } else {
        Err(ActivityError::NotFound(id).into())
    }
}

async fn view_with_count<'a>(
    detail: &'a ActivityDetail,
    activities: &ActivityService,
    participants: &Data<dyn CountParticipants>,
) -> Result<ActivityView<'a>, Problem> {
    let view = ActivityView::of(detail, activities.now_estimate())?;
    let count = if !detail.was_opened() {
        Some(0)
    } else if detail.joined_count.is_none() {
        participants.count_participants(detail.id).await
    } else {
        None
    };
    Ok(view.with_participants(count))
}

#[derive(Serialize, ToSchema)]
pub(super) struct RoomActivities<'a> {
    items: Vec<ActivityView<'a>>,
}

/// `GET /v1/rooms/{roomId}/activities`.
pub(super) async fn of_room(
    _viewer: Viewer,
    room_id: PathId<RoomId>,
    activities: Data<ActivityService>,
    participants: Data<dyn CountParticipants>,
) -> Result<HttpResponse, Problem> {
    let details = activities.open_in_room(room_id.0).await?;
    let mut items = Vec::with_capacity(details.len());
    for detail in &details {
        items.push(view_with_count(detail, &activities, &participants).await?);
    }
    Ok(HttpResponse::Ok().json(RoomActivities { items }))
}

/// What a list of activities may be narrowed to.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those in this state.
    #[serde(default, deserialize_with = "status_word")]
    #[param(inline)]
    status: Option<Status>,
    /// Only those of this room.
    #[param(inline)]
    room_id: Option<RoomId>,
    /// How many items the page may have.
    #[param(inline)]
    limit: Option<PageLimit>,
    /// The `nextCursor` of the page before.
    #[param(inline)]
    cursor: Option<Cursor>,
}

fn status_word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Status>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let words = Status::ALL.map(Status::as_str).join(", ");
    Status::parse(&word)
        .map(Some)
        .ok_or_else(|| D::Error::custom(format_args!("a status is one of {words}")))
}

/// `GET /v1/activities`: a host sees those of its rooms.
pub(super) async fn list(
    caller: HostOrOperator,
    query: Query<ListQuery>,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let query = query.0;
    let filter = ActivityFilter {
        status: query.status,
        rooms: rooms_to_list(&caller, query.room_id)?,
    };
    let request = PageRequest::new(query.limit, query.cursor);
    let before = request.after()?;
    let rows = activities
        .list(&filter, before, request.rows_to_read())
        .await?;
    let page = Page::of_rows(rows, &request, |detail| detail.id)?;
    let now = activities.now_estimate();
    let mut items = Vec::with_capacity(page.items.len());
    for detail in &page.items {
        items.push(ActivityView::of(detail, now)?);
    }
    Ok(HttpResponse::Ok().json(Page {
        items,
        next_cursor: page.next_cursor.clone(),
    }))
}

fn rooms_to_list(
    caller: &HostOrOperator,
    asked_for: Option<RoomId>,
) -> Result<Option<Vec<RoomId>>, Problem> {
    match asked_for {
        Some(room_id) => {
            caller.may_act_in(room_id)?;
            Ok(Some(vec![room_id]))
        }
        None if caller.is_operator() => Ok(None),
        None => Ok(Some(caller.principal().rooms().to_vec())),
    }
}

/// `POST /v1/activities`.
pub(super) async fn create(
    caller: HostOrOperator,
    form: Body<ActivityForm>,
    once: Once,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    if let Some(room_id) = form.0.room_id() {
        caller.may_act_in(room_id)?;
    }
    let host_id = caller.user_id();
    let actor = actor(host_id);
    let change = activities.create(&form.0, host_id, &actor);
    let created = answering(StatusCode::CREATED, &activities);
    once.answer(host_id, created, change).await
}

/// `PATCH /v1/activities/{activityId}`.
pub(super) async fn update(
    caller: HostOrOperator,
    id: PathId<ActivityId>,
    form: Body<ActivityForm>,
    once: Once,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    in_own_room(&activities, &caller, id.0).await?;
    let actor = actor(caller.user_id());
    let change = activities.update(id.0, &form.0, &actor);
    let updated = answering(StatusCode::OK, &activities);
    once.answer(caller.user_id(), updated, change).await
}

/// `GET /v1/activities/{activityId}/audit`.
pub(super) async fn audit(
    _operator: Operator,
    id: PathId<ActivityId>,
    query: Query<PageQuery>,
    activities: Data<ActivityService>,
) -> Result<HttpResponse, Problem> {
    let request = PageRequest::from(query.0);
    let after = request.after()?;
    let rows = activities
        .audit(id.0, after, request.rows_to_read())
        .await?;
    let page = Page::of_rows(rows, &request, |record| record.id)?;
    Ok(HttpResponse::Ok().json(page))
}
