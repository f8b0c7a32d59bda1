//! The calls about deny lists: of the platform by operators, of an activity by its host too.

use std::collections::BTreeSet;

use actix_web::{
    HttpResponse,
    http::StatusCode,
    web::{Data, Json},
};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{Caller, DenyEntry, DenyScope, DenyService, Imported, operations};
use crate::{
    activity::{ActivityService, actor, check_reason, in_own_room},
    http::{
        BatchBody, Endpoint, FieldErrors, HostOrOperator, Once, Operator, OptionalBody, Page,
        PageRequest, PathId, Problem, Query, Routes, json_answer, openapi::AnyId, page::PageQuery,
    },
    kernel::{ActivityId, UserId},
};

/// Most ids of one import.
const MOST_IDS: usize = 10_000;

/// Needs `Data<DenyService>` and `Data<ActivityService>` in the application.
pub fn routes(routes: &mut Routes) {
    let platform = &operations::PLATFORM;
    routes
        .service(Endpoint::new("/v1/deny-list").get(list, platform.list()))
        .service(Endpoint::new("/v1/deny-list/import").post(import, platform.import()))
        .service(
            Endpoint::new("/v1/deny-list/{userId}")
                .put(put, platform.put())
                .delete(delete, platform.delete()),
        );
    let activity = &operations::ACTIVITY;
    routes
        .service(
            Endpoint::new("/v1/activities/{activityId}/deny-list")
                .get(list_of_activity, activity.list()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/deny-list/import")
                .post(import_to_activity, activity.import()),
        )
        .service(
            Endpoint::new("/v1/activities/{activityId}/deny-list/{userId}")
                .put(put_in_activity, activity.put())
                .delete(delete_from_activity, activity.delete()),
        );
}

/// The body of a PUT; all of it may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Denial)]
struct PutBody {
    #[schema(min_length = 1, max_length = 255)]
    reason: Option<String>,
}

impl PutBody {
    fn checked(self) -> Result<Option<String>, Problem> {
        let mut errors = FieldErrors::new();
        let reason = check_reason(self.reason, &mut errors);
        errors.into_result()?;
        Ok(reason)
    }
}

/// The body of an import, as it came: its check names every faulty id.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DenyListImport)]
struct ImportBody {
    #[schema(value_type = Vec<AnyId>, min_items = 1, max_items = 10_000)]
    user_ids: Vec<Value>,
    #[schema(value_type = Option<String>, min_length = 1, max_length = 255)]
    reason: Option<Value>,
}

struct Import {
    users: BTreeSet<UserId>,
    reason: Option<String>,
}

impl ImportBody {
    fn checked(self) -> Result<Import, Problem> {
        let mut errors = FieldErrors::new();
        let reason = self
            .reason
            .and_then(|text| errors.check("reason", String::deserialize(text)));
        let reason = check_reason(reason, &mut errors);
        let mut users = BTreeSet::new();
        if (1..=MOST_IDS).contains(&self.user_ids.len()) {
            for (index, id) in self.user_ids.iter().enumerate() {
                let id = UserId::deserialize(id);
                users.extend(errors.check(format!("userIds[{index}]"), id));
            }
        } else {
            errors.add("userIds", format!("this is a list of 1 to {MOST_IDS} ids"));
        }
        errors.into_result()?;
        Ok(Import { users, reason })
    }
}

fn caller(user_id: UserId) -> Caller {
    Caller {
        user_id,
        actor: actor(user_id),
    }
}

async fn page(
    denials: &DenyService,
    scope: DenyScope,
    query: PageQuery,
) -> Result<Json<Page<DenyEntry>>, Problem> {
    let request = PageRequest::from(query);
    let after = request.after()?;
    let rows = denials.list(scope, after, request.rows_to_read()).await?;
    Page::of_rows(rows, &request, |entry| entry.user_id).map(Json)
}

/// `GET /v1/deny-list`.
async fn list(
    _operator: Operator,
    query: Query<PageQuery>,
    denials: Data<DenyService>,
) -> Result<Json<Page<DenyEntry>>, Problem> {
    page(&denials, DenyScope::Platform, query.0).await
}

/// `PUT /v1/deny-list/{userId}`.
async fn put(
    operator: Operator,
    user_id: PathId<UserId>,
    body: OptionalBody<PutBody>,
    denials: Data<DenyService>,
) -> Result<Json<DenyEntry>, Problem> {
    let reason = body.0.checked()?;
    let caller = caller(operator.user_id());
    let entry = denials
        .put(DenyScope::Platform, user_id.0, reason.as_deref(), &caller)
        .await?;
    Ok(Json(entry))
}

/// `DELETE /v1/deny-list/{userId}`.
async fn delete(
    operator: Operator,
    user_id: PathId<UserId>,
    denials: Data<DenyService>,
) -> Result<HttpResponse, Problem> {
    let caller = caller(operator.user_id());
    denials
        .delete(DenyScope::Platform, user_id.0, &caller)
        .await?;
    Ok(HttpResponse::NoContent().finish())
}

/// `POST /v1/deny-list/import`.
async fn import(
    operator: Operator,
    body: BatchBody<ImportBody>,
    once: Once,
    denials: Data<DenyService>,
) -> Result<HttpResponse, Problem> {
    let import = body.0.checked()?;
    let scope = DenyScope::Platform;
    answer_import(&denials, scope, &import, operator.user_id(), once).await
}

/// `GET /v1/activities/{activityId}/deny-list`.
async fn list_of_activity(
    host: HostOrOperator,
    id: PathId<ActivityId>,
    query: Query<PageQuery>,
    activities: Data<ActivityService>,
    denials: Data<DenyService>,
) -> Result<Json<Page<DenyEntry>>, Problem> {
    in_own_room(&activities, &host, id.0).await?;
    page(&denials, DenyScope::Activity(id.0), query.0).await
}

/// `PUT /v1/activities/{activityId}/deny-list/{userId}`.
async fn put_in_activity(
    host: HostOrOperator,
    id: PathId<ActivityId>,
    user_id: PathId<UserId>,
    body: OptionalBody<PutBody>,
    activities: Data<ActivityService>,
    denials: Data<DenyService>,
) -> Result<Json<DenyEntry>, Problem> {
    in_own_room(&activities, &host, id.0).await?;
    let reason = body.0.checked()?;
    let scope = DenyScope::Activity(id.0);
    let caller = caller(host.user_id());
    let entry = denials
        .put(scope, user_id.0, reason.as_deref(), &caller)
        .await?;
    Ok(Json(entry))
}

/// `DELETE /v1/activities/{activityId}/deny-list/{userId}`.
async fn delete_from_activity(
    host: HostOrOperator,
    id: PathId<ActivityId>,
    user_id: PathId<UserId>,
    activities: Data<ActivityService>,
    denials: Data<DenyService>,
) -> Result<HttpResponse, Problem> {
    in_own_room(&activities, &host, id.0).await?;
    let caller = caller(host.user_id());
    denials
        .delete(DenyScope::Activity(id.0), user_id.0, &caller)
        .await?;
    Ok(HttpResponse::NoContent().finish())
}

/// `POST /v1/activities/{activityId}/deny-list/import`.
async fn import_to_activity(
    host: HostOrOperator,
    id: PathId<ActivityId>,
    body: BatchBody<ImportBody>,
    once: Once,
    activities: Data<ActivityService>,
    denials: Data<DenyService>,
) -> Result<HttpResponse, Problem> {
    in_own_room(&activities, &host, id.0).await?;
    let import = body.0.checked()?;
    let scope = DenyScope::Activity(id.0);
    answer_import(&denials, scope, &import, host.user_id(), once).await
}

async fn answer_import(
    denials: &DenyService,
    scope: DenyScope,
    Import { users, reason }: &Import,
    user_id: UserId,
    once: Once,
) -> Result<HttpResponse, Problem> {
    let caller = caller(user_id);
    let imported = |done: &Imported| json_answer(StatusCode::OK, done);
    let change = denials.import(scope, users, reason.as_deref(), &caller);
    once.answer(user_id, imported, change).await
}
