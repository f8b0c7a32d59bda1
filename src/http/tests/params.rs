use actix_web::{
    http::Method,
    web::{self, Json},
};
use serde::Deserialize;

use super::*;
use crate::kernel::ActivityId;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ListQuery {
    room_id: Option<RoomId>,
    limit: Option<PageLimit>,
    cursor: Option<Cursor>,
}

async fn one(id: PathId<ActivityId>) -> String {
    id.0.to_string()
}

/// The numbers from 1 to 120, or from a room id to 120.
async fn list(query: Query<ListQuery>) -> Result<Json<Page<u64>>, Problem> {
    let request = PageRequest::new(query.0.limit, query.0.cursor);
    let first = query.0.room_id.map_or(1, |id| id.0);
    let after: u64 = request.after()?.unwrap_or(first - 1);
    let rows = (after + 1..=120)
        .take(usize::try_from(request.rows_to_read()).unwrap())
        .collect();
    Ok(Json(Page::of_rows(rows, &request, |row| *row)?))
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(Endpoint::new("/activities/{activityId}").route(Method::GET, web::get().to(one)))
        .service(Endpoint::new("/list").route(Method::GET, web::get().to(list)));
}

fn get(uri: &str) -> test::TestRequest {
    test::TestRequest::get().uri(uri)
}

#[actix_web::test]
async fn an_id_in_the_path_is_canonical_or_named_as_faulty() {
    let app = app(routes).await;

    let answer = send(&app, get("/activities/9223372036854775807")).await;
    assert_eq!(
        test::read_body(answer.response).await,
        "9223372036854775807"
    );

    for bad in [
        "0",
        "007",
        "9223372036854775808",
        "18446744073709551616",
        "-1",
        "+1",
        "x",
        "1%20",
    ] {
        let problem = send(&app, get(&format!("/activities/{bad}")))
            .await
            .problem(422)
            .await;
        assert_eq!(problem["code"], "invalid_request", "{bad}");
        assert_eq!(problem["errors"][0]["field"], "activityId", "{bad}");
    }
}

#[actix_web::test]
async fn a_faulty_or_unknown_parameter_is_named() {
    let app = app(routes).await;

    for (query, field) in [
        ("bogus=1", "bogus"),
        ("roomId=1&colour=red", "colour"),
        ("roomId=007", "roomId"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=many", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=zz", "cursor"),
        ("cursor=7b7d", "cursor"),
    ] {
        let problem = send(&app, get(&format!("/list?{query}")))
            .await
            .problem(422)
            .await;
        assert_eq!(problem["errors"][0]["field"], field, "{query}: {problem}");
    }
}

#[actix_web::test]
async fn the_pages_of_a_list_show_every_item_once() {
    let app = app(routes).await;
    let (mut seen, mut sizes, mut uri) = (Vec::new(), Vec::new(), "/list".to_owned());

    loop {
        let page = send(&app, get(&uri)).await.json().await;
        let items = page["items"].as_array().unwrap();
        sizes.push(items.len());
        seen.extend(items.iter().map(|item| item.as_u64().unwrap()));
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        uri = format!("/list?cursor={cursor}");
    }

    assert_eq!(sizes, [50, 50, 20]);
    assert_eq!(seen, (1..=120).collect::<Vec<u64>>());
}

#[actix_web::test]
async fn a_full_last_page_has_no_next_cursor() {
    let app = app(routes).await;

    let page = send(&app, get("/list?limit=120")).await.json().await;

    assert_eq!(page["items"].as_array().unwrap().len(), 120);
    assert_eq!(page.get("nextCursor"), None);
}
