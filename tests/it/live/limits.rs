//! Who gets a stream, and how many.

use luckybag::{http::Role, kernel::UserId};
use reqwest::{Method, Response};
use serde_json::Value;

use super::{Stream, ask};
use crate::harness::{Api, Bag, BagSpec, World, eventually, metric, metrics_page};

#[tokio::test(flavor = "multi_thread")]
async fn streams_have_a_limit_for_each_user_and_one_for_the_process() {
    let world = World::new().await;
    let limits = [("LIVE__MAX_STREAMS", "5"), ("LIVE__STREAMS_PER_USER", "2")];
    let process = world.serve_with(&limits).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let path = bag.path("/events");
    let (ann, ben, service) = (api.viewer(101), api.viewer(102), api.service());

    let mut open = Vec::new();
    for token in [&ann, &ann, &service, &service, &service] {
        if open.len() == 2 {
            expect_refused(
                ask(&api, &ann, &path, None).await,
                429,
                "too_many_own_streams",
            )
            .await;
        }
        open.push(Stream::open(&api, token, &path).await);
    }
    expect_refused(ask(&api, &ben, &path, None).await, 503, "too_many_streams").await;
    streams_are(&api, 5.0).await;
    let page = metrics_page(&api.url).await;
    for limit in ["user", "process"] {
        let series = format!("luckybag_live_refused_total{{limit=\"{limit}\"}}");
        assert_eq!(metric(&page, &series), Some(1.0), "{limit}");
    }
    // One of Ann's ends, and another one of hers has place.
    open.remove(0);
    streams_are(&api, 4.0).await;
    open.push(Stream::open(&api, &ann, &path).await);
    streams_are(&api, 5.0).await;
    drop(open);
    streams_are(&api, 0.0).await;

    process.stop().await;
    world.end().await;
}

async fn expect_refused(response: Response, status: u16, code: &str) {
    assert_eq!(response.status(), status);
    assert!(response.headers().contains_key("retry-after"));
    let problem: Value = response.json().await.expect("a problem");
    assert_eq!(problem["code"], code, "{problem}");
}

/// Waits for the number of open streams: that a client has gone shows at the next word to it.
async fn streams_are(api: &Api, count: f64) {
    eventually("the number of streams", async || {
        let page = metrics_page(&api.url).await;
        let open = metric(&page, "luckybag_live_streams");
        if open == Some(count) {
            Ok(())
        } else {
            Err(open)
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_with_a_token_hears_of_what_is_public_and_of_nothing_else() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let draft = api.draft(&BagSpec::waiting()).await;

    for role in Role::ALL {
        let token = api.token(UserId(9), role, &[]);
        let mut stream = Stream::open(&api, &token, &bag.path("/events")).await;
        assert_eq!(stream.next().await.expect("the state").name, "status");
    }
    for token in [api.viewer(7), api.host_of(bag.room), api.operator()] {
        for id in [draft.0, draft.0 + 1] {
            let path = format!("/v1/activities/{id}/events");
            let answer = api.get(&token, &path).await;
            answer.expect_problem(404, "activity_not_found");
        }
    }
    let answer = api.get(&api.viewer(7), "/v1/activities/007/events").await;
    assert_eq!(answer.faulty_fields(), ["activityId"]);
    check_head(&api, &bag).await;

    process.stop().await;
    world.end().await;
}

async fn check_head(api: &Api, bag: &Bag) {
    streams_are(api, 0.0).await;
    for (path, status) in [
        (bag.path("/events"), 200),
        ("/v1/activities/5/events".to_owned(), 404),
    ] {
        let request = api.http.request(Method::HEAD, format!("{}{path}", api.url));
        let answer = request
            .bearer_auth(api.viewer(7))
            .send()
            .await
            .expect("an answer");
        assert_eq!(answer.status(), status);
        let text = answer.text().await.expect("the end of the answer");
        assert_eq!(text, "");
    }
    streams_are(api, 0.0).await;
}
