use std::io;

use actix_web::{http::Method, web};

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("cannot read activity 7")]
struct Outer(#[source] io::Error);

async fn fails() -> Result<String, Problem> {
    Err(Problem::internal(Outer(io::Error::other(
        "password of db1.internal refused",
    ))))
}

async fn busy() -> Result<String, Problem> {
    Err(Problem::unavailable(
        "join_queue_full",
        "later",
        Duration::from_millis(1200),
    ))
}

async fn panics() -> &'static str {
    panic!("a handler's bug")
}

async fn current_id() -> String {
    RequestId::current().unwrap().to_string()
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(Endpoint::new("/fails").route(Method::GET, web::get().to(fails)))
        .service(
            Endpoint::new("/busy")
                .get(busy, Operation::new(Tag::Service, "busy", "Is busy"))
                .post(busy, Operation::new(Tag::Service, "busyToo", "Is busy")),
        )
        .service(Endpoint::new("/panics").route(Method::GET, web::get().to(panics)))
        .service(Endpoint::new("/id").route(Method::GET, web::get().to(current_id)))
        .service(web::resource("/bare").route(web::get().to(current_id)));
}

fn get(uri: &str) -> test::TestRequest {
    test::TestRequest::get().uri(uri)
}

#[actix_web::test]
async fn an_internal_error_is_not_shown() {
    let app = app(routes).await;

    let problem = send(&app, get("/fails")).await.problem(500).await;

    assert_eq!(problem["code"], "internal");
    assert_eq!(problem["title"], "Internal");
    let text = problem.to_string();
    assert!(
        !text.contains("activity 7") && !text.contains("password"),
        "{text}"
    );
}

#[actix_web::test]
async fn retry_after_is_rounded_up_to_seconds() {
    let app = app(routes).await;

    let answer = send(&app, get("/busy")).await;

    assert_eq!(answer.header("retry-after"), "2");
    let problem = answer.problem(503).await;
    assert_eq!(
        (&problem["code"], &problem["title"]),
        (&"join_queue_full".into(), &"Join queue full".into())
    );
}

#[actix_web::test]
async fn an_unknown_path_or_method_is_answered_with_a_problem() {
    let app = app(routes).await;

    assert_eq!(
        send(&app, get("/nowhere")).await.problem(404).await["code"],
        "not_found"
    );
    let answer = send(&app, test::TestRequest::delete().uri("/busy")).await;
    assert_eq!(answer.header("allow"), "HEAD, GET, POST");
    assert_eq!(answer.problem(405).await["code"], "method_not_allowed");
    let bare = send(&app, test::TestRequest::delete().uri("/bare")).await;
    assert_eq!(bare.problem(405).await["code"], "method_not_allowed");
}

#[actix_web::test]
async fn a_harmless_request_id_is_kept_and_any_other_replaced() {
    let app = app(routes).await;
    let long = "a".repeat(65);

    for (given, is_kept) in [
        ("abc-DEF_123", true),
        ("a b", false),
        ("a\"b", false),
        ("", false),
        (long.as_str(), false),
    ] {
        let answer = send(&app, get("/id").insert_header(("x-request-id", given))).await;
        let id = answer.header("x-request-id").to_owned();
        assert_eq!(id == given, is_kept, "{given:?}");
        assert_eq!(test::read_body(answer.response).await, id);
        assert!(is_kept || uuid::Uuid::parse_str(&id).unwrap().get_version_num() == 7);
    }
}

#[actix_web::test]
async fn a_panic_is_answered_500_and_the_next_request_is_served() {
    let (base, server) = serve(routes);

    let panicked = reqwest::get(format!("{base}/panics")).await.unwrap();
    let status = panicked.status().as_u16();
    let id = panicked.headers()["x-request-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let problem: Value = panicked.json().await.unwrap();
    let next = reqwest::get(format!("{base}/id")).await.unwrap();

    assert_eq!((status, &problem["requestId"]), (500, &Value::from(id)));
    assert_eq!(problem["code"], "internal");
    assert_eq!(next.status().as_u16(), 200);
    server.stop(false).await;
}
