//! Paths, methods, queries and the request id.

use reqwest::Method;

use super::serve;
use crate::harness::{Answer, Api, BagSpec, World};

#[tokio::test(flavor = "multi_thread")]
async fn paths_methods_and_queries_are_answered_with_what_is_wrong_about_them() {
    let world = World::new().await;
    let process = serve(&world).await;
    let api = world.api(&process).await;
    let bag = api
        .open_bag(&BagSpec {
            countdown_secs: 600,
            ..BagSpec::default()
        })
        .await;

    check_unknown_paths(&api).await;
    check_wrong_methods(&api, &bag.path("")).await;
    check_queries(&api, &bag.path("")).await;
    check_request_ids(&api, &bag.path("")).await;

    process.stop().await;
    world.end().await;
}

async fn call(api: &Api, method: Method, path: &str) -> Answer {
    let request = api.http.request(method, format!("{}{path}", api.url));
    api.send(request.bearer_auth(api.operator())).await
}

async fn check_unknown_paths(api: &Api) {
    for path in [
        "/",
        "/v1",
        "/v2/activities",
        "/v1/activities/",
        "/v1/activities/1/",
        "/v1/activities/1/winner",
        "/V1/activities",
        "/v1/activities/1/2/3",
        "/%00",
        "/%ff",
        "/..%2f..%2fetc/passwd",
    ] {
        for method in [Method::GET, Method::POST] {
            let answer = call(api, method, path).await;
            answer.expect_problem(404, "not_found");
        }
    }
}

async fn check_wrong_methods(api: &Api, bag: &str) {
    for (method, path, allowed) in [
        (Method::DELETE, "/v1/activities", "HEAD, GET, POST"),
        (Method::PUT, "/v1/activities", "HEAD, GET, POST"),
        (Method::DELETE, bag, "HEAD, GET, PATCH"),
        (Method::POST, bag, "HEAD, GET, PATCH"),
        (Method::GET, &format!("{bag}/join"), "POST"),
        (Method::PATCH, &format!("{bag}/me"), "HEAD, GET"),
        (Method::GET, &format!("{bag}/draw"), "POST"),
        (Method::POST, &format!("{bag}/proof"), "HEAD, GET"),
        (Method::GET, &format!("{bag}/redraws"), "POST"),
        (Method::GET, "/v1/win-records/7/fulfilment", "POST"),
        (Method::OPTIONS, "/v1/prizes", "HEAD, GET, POST"),
        (
            Method::from_bytes(b"BREW").expect("a method"),
            "/v1/prizes",
            "HEAD, GET, POST",
        ),
        (Method::POST, "/healthz", "HEAD, GET"),
    ] {
        let answer = call(api, method, path).await;
        assert_eq!(answer.header("allow"), allowed, "{path}");
        answer.expect_problem(405, "method_not_allowed");
    }
}

async fn check_queries(api: &Api, bag: &str) {
    let lists = [
        "/v1/activities".to_owned(),
        "/v1/prizes".to_owned(),
        format!("{bag}/winners"),
        format!("{bag}/audit"),
    ];
    for list in &lists {
        for (query, field) in [
            ("bogus=1", "bogus"),
            ("limit=10&userId=5", "userId"),
            ("limit=0", "limit"),
            ("limit=201", "limit"),
            ("limit=-1", "limit"),
            ("limit=ten", "limit"),
            ("limit=", "limit"),
            ("limit=99999999999999999999", "limit"),
            ("limit=5&limit=6", "limit"),
            ("cursor=", "cursor"),
            ("cursor=zz", "cursor"),
            ("cursor=5b5d", "cursor"),
            ("cursor=2d31", "cursor"),
            ("cursor=3939393939393939393939393939393939393939", "cursor"),
        ] {
            expect_refused(api, &format!("{list}?{query}"), field).await;
        }
        let answer = call(api, Method::GET, &format!("{list}?limit=200")).await;
        answer.expect(200);
    }
    for query in ["status=Open", "status=", "status=open,ready", "status=%ff"] {
        expect_refused(api, &format!("/v1/activities?{query}"), "status").await;
    }
    for id in ["0", "007", "-1", "abc", "", "9223372036854775808"] {
        expect_refused(api, &format!("/v1/activities?roomId={id}"), "roomId").await;
        expect_refused(api, &format!("{bag}/winners?prizeId={id}"), "prizeId").await;
    }
}

async fn expect_refused(api: &Api, path: &str, field: &str) {
    let answer = call(api, Method::GET, path).await;
    assert_eq!(answer.faulty_fields(), [field], "{path}: {}", answer.body);
    answer.expect_problem(422, "invalid_request");
}

/// The harness asks every answer for its id; here for the caller's own.
async fn check_request_ids(api: &Api, bag: &str) {
    for (path, given, is_kept) in [
        (bag, "my-call_7", true),
        ("/v1/unknown", "my-call_8", true),
        ("/healthz", "my-call_9", true),
        (bag, "a b", false),
        (bag, "<script>", false),
        (bag, &"x".repeat(65), false),
    ] {
        let request = api
            .http
            .get(format!("{}{path}", api.url))
            .bearer_auth(api.operator())
            .header("x-request-id", given);
        let answer = api.send(request).await;
        let id = answer.header("x-request-id");
        assert_eq!(id == given, is_kept, "{given}: {id}");
    }
}
