//! How often users and addresses may call.

use std::cell::Cell;

use futures_util::{StreamExt, stream};

use crate::harness::{Answer, Api, BagSpec, Proxies, World, eventually, metric, metrics_page};

const THREE_OF_A_USER: [(&str, &str); 2] = [
    ("LIMITS__USER_PER_SECOND", "1"),
    ("LIMITS__USER_BURST", "3"),
];

/// Calls until it is told to wait.
async fn until_limited(call: impl AsyncFn() -> Answer) -> Answer {
    for _ in 0..50 {
        let answer = call().await;
        if answer.status.as_u16() == 429 {
            return answer;
        }
    }
    panic!("never told to wait");
}

/// Is told to wait when the tokens are spent; one comes back each second, also between two calls.
async fn waits_too(spend: &impl AsyncFn() -> Answer, call: impl AsyncFn() -> Answer) {
    let limited = eventually("to be told to wait", async || {
        until_limited(async || spend().await).await;
        let answer = call().await;
        if answer.status.as_u16() == 429 {
            Ok(answer)
        } else {
            Err(answer)
        }
    })
    .await;
    assert_told_to_wait(limited);
}

fn assert_told_to_wait(answer: Answer) {
    assert_eq!(answer.header("retry-after"), "1", "{answer:?}");
    answer.expect_problem(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_calls_too_often_is_refused_without_a_look_at_any_server() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let mut changes = proxies.changes();
    changes.extend(THREE_OF_A_USER);
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    for (_, proxy) in proxies.by_name() {
        proxy.stall();
    }

    // A token that may not ask this is counted all the same.
    let viewer = api.viewer(7);
    let limited = until_limited(async || api.get(&viewer, "/v1/prizes").await).await;
    assert_told_to_wait(limited);
    let spend = async || api.get(&viewer, "/v1/prizes").await;
    for path in ["/v1/activities/1", "/v1/activities/1/me"] {
        waits_too(&spend, async || api.get(&viewer, path).await).await;
    }
    let join = "/v1/activities/1/join";
    waits_too(&spend, async || api.post(&viewer, join, None).await).await;
    let other = api.get(&api.viewer(8), "/v1/prizes").await;
    other.expect_problem(403, "forbidden");

    let page = metrics_page(&process.health_url().await).await;
    let counted = metric(&page, r#"luckybag_rate_limited_total{by="user"}"#);
    assert!(counted.is_some_and(|count| count >= 4.0), "{counted:?}");
    for (_, proxy) in proxies.by_name() {
        proxy.resume();
    }
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_limited_before_its_token_is_looked_at_and_health_never() {
    let world = World::new().await;
    let changes = [
        ("LIMITS__IP_PER_SECOND", "1"),
        ("LIMITS__IP_BURST", "3"),
        ("SERVER__TRUSTED_PROXIES", "127.0.0.1, 10.0.0.0/8"),
    ];
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    let from = async |client: &str, token: &str| {
        let url = format!("{}/v1/prizes", api.url);
        let request = api.http.get(url).bearer_auth(token);
        api.send(request.header("X-Forwarded-For", client)).await
    };

    let limited = until_limited(async || from("198.51.100.7", "nonsense").await).await;
    assert_told_to_wait(limited);
    let spend = async || from("198.51.100.7", "nonsense").await;
    let operator = api.operator();
    waits_too(&spend, async || from("198.51.100.7", &operator).await).await;
    let forwarded = "203.0.113.1, 198.51.100.7:5000, 10.1.1.1";
    waits_too(&spend, async || from(forwarded, "x").await).await;
    from("198.51.100.8", &api.operator()).await.expect(200);
    from("2001:db8::1", &api.operator()).await.expect(200);
    for path in ["healthz", "readyz", "metrics"] {
        for _ in 0..10 {
            let answer = reqwest::get(format!("{}/{path}", api.url)).await;
            assert_eq!(answer.expect("an answer").status(), 200, "{path}");
        }
    }

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stranger_says_of_its_address_gives_it_no_other_limit() {
    let world = World::new().await;
    let changes = [
        ("LIMITS__IP_PER_SECOND", "1"),
        ("LIMITS__IP_BURST", "3"),
        ("SERVER__TRUSTED_PROXIES", "10.0.0.0/8"),
    ];
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    let calls = Cell::new(0);

    let limited = until_limited(async || {
        calls.set(calls.get() + 1);
        let client = format!("198.51.100.{}", calls.get());
        let request = api.http.get(format!("{}/v1/prizes", api.url));
        let request = request.bearer_auth(api.operator());
        api.send(request.header("X-Forwarded-For", client)).await
    })
    .await;

    assert_told_to_wait(limited);
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_nobody_named_is_told_of_once() {
    let world = World::new().await;
    let process = world.serve_with(&[("LIMITS__IP_PER_SECOND", "1000")]).await;
    let api = world.api(&process).await;

    for client in ["198.51.100.7", "198.51.100.8"] {
        let request = api.http.get(format!("{}/v1/prizes", api.url));
        let request = request.bearer_auth(api.operator());
        api.send(request.header("X-Forwarded-For", client))
            .await
            .expect(200);
    }

    let lines = process.log_lines();
    let told = lines
        .iter()
        .filter(|line| line.contains("server.trusted_proxies"));
    assert_eq!(told.count(), 1, "{lines:?}");
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_thousands_of_viewers_may_share_an_address() {
    const VIEWERS: u64 = 3_000;
    let world = World::new().await;
    let rates = World::default_rates();
    let changes: Vec<_> = rates
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;

    let limited: Vec<u64> = stream::iter(1..=VIEWERS)
        .map(|user| joins_and_looks(&api, bag.path(""), user))
        .buffer_unordered(64)
        .filter_map(std::future::ready)
        .collect()
        .await;

    assert!(limited.is_empty(), "{} were told to wait", limited.len());
    process.stop().await;
    world.end().await;
}

/// A join, and a look at what becomes of it; the user when one of them was too much.
async fn joins_and_looks(api: &Api, path: String, user: u64) -> Option<u64> {
    let token = api.viewer(user);
    let joined = api.post(&token, &format!("{path}/join"), None).await;
    let result = api.get(&token, &format!("{path}/result")).await;
    let is_limited = |answer: &Answer| answer.status.as_u16() == 429;
    (is_limited(&joined) || is_limited(&result)).then_some(user)
}
