//! Keys from a URL that stops working: the last good ones stay.

use serde_json::json;

use super::{answer, answered, believed, count, end, keys_from, logged, with};
use crate::harness::{
    Answering, Api, BagSpec, IssuerKey, JwksServer, Process, World, eventually, jwks, metric,
    metrics_page, named_down,
};

const FAILED: &str = r#"luckybag_jwks_refreshes_total{source="jwks_url",outcome="failed"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_url_answers_the_last_good_keys_stay() {
    let world = World::new().await;
    let (key, evil) = (IssuerKey::ed_dsa("good"), IssuerKey::ed_dsa("evil"));
    let good = Answering::Body(jwks(&[&key]));
    let server = JwksServer::start(good.clone()).await;
    let elsewhere = JwksServer::start(Answering::Body(jwks(&[&evil]))).await;
    let url = server.url();
    // Some of these answers have no end.
    let often = [
        ("AUTH__JWKS_REFRESH_SECS", "1"),
        ("AUTH__JWKS_TIMEOUT_MS", "1000"),
    ];
    let process = world.serve_with(&with(keys_from(&url), &often)).await;
    let api = world.api(&process).await;
    let huge = json!({ "keys": [evil.jwk()], "x": "x".repeat(300_000) });
    let secret = json!({ "keys": [{ "kty": "oct", "kid": "evil", "k": "c2VjcmV0" }] });

    for fault in [
        Answering::Status(500, jwks(&[&evil])),
        Answering::Status(204, String::new()),
        Answering::Redirect(elsewhere.url()),
        Answering::Body("<html>".to_owned()),
        Answering::Body("{}".to_owned()),
        Answering::Body(r#"{"keys":[]}"#.to_owned()),
        Answering::Body(secret.to_string()),
        Answering::Body(huge.to_string()),
        Answering::Endless,
        Answering::Trickle,
        Answering::Silence,
        Answering::CutOff,
    ] {
        check_outage(&api, &process, &server, fault).await;
        assert_eq!(answer(&api, &evil.operator()).await, 401);
        server.answer(good.clone());
        believed(&api, &key).await;
        named_down(&api.url, 200, &[]).await;
    }

    assert_eq!(elsewhere.asked(), 0);
    assert_eq!(answer(&api, &key.operator()).await, 200);
    end(world, process).await;
}

/// One outage: told once, counted each time, and the old key stays good.
async fn check_outage(api: &Api, process: &Process, server: &JwksServer, fault: Answering) {
    let warned = |process: &Process| logged(process, "the present ones stay").len();
    let (told, failed) = (warned(process), count(api, FAILED).await);
    let what = format!("two refreshes that fail by {fault:?}");
    let what = &what[..what.len().min(80)];
    server.answer(fault.clone());
    eventually(what, async || {
        let now = count(api, FAILED).await;
        if now >= failed + 2.0 {
            Ok(())
        } else {
            Err(now)
        }
    })
    .await;

    named_down(&api.url, 200, &["jwks"]).await;
    assert_eq!(warned(process), told + 1, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_at_the_start_the_process_waits_and_says_so() {
    let world = World::new().await;
    let key = IssuerKey::es256("late");
    let addr = crate::proxy::free_address();
    let url = format!("http://{addr}/jwks.json");
    let process = world.spawn(&keys_from(&url));
    let api = world.api(&process).await;

    answered(&api, &key, 503).await;
    named_down(&api.url, 503, &["jwks"]).await;
    let refused = api.get(&key.operator(), "/v1/prizes").await;
    assert_eq!(refused.header("retry-after"), "2");
    refused.expect_problem(503, "token_keys_unavailable");
    let page = metrics_page(&api.url).await;
    let keys = metric(&page, r#"luckybag_jwks_keys{source="jwks_url"}"#);
    assert_eq!(keys, Some(0.0), "{page}");
    // The secret needs no URL, and a draw no token.
    assert_eq!(answer(&api, &api.operator()).await, 200);
    let bag = api.open_bag(&BagSpec::waiting()).await;
    world.draw_soon(&[bag]).await;
    api.drawn(&bag).await;
    assert_eq!(logged(&process, "waiting for the keys of tokens").len(), 1);

    let server = JwksServer::start_at(addr, Answering::Body(jwks(&[&key]))).await;
    process.ready().await;
    assert_eq!(answer(&api, &key.operator()).await, 200);
    drop(server);
    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_waits_for_keys_stops_when_told_to() {
    let world = World::new().await;
    let server = JwksServer::start(Answering::Silence).await;
    let timeout = [("AUTH__JWKS_TIMEOUT_MS", "60000")];
    let process = world.spawn(&with(keys_from(&server.url()), &timeout));
    eventually("the fetch", async || {
        if server.asked() == 1 { Ok(()) } else { Err(()) }
    })
    .await;

    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_found_once_the_url_works_again() {
    let world = World::new().await;
    let (old, new) = (IssuerKey::es256("old"), IssuerKey::es256("new"));
    let server = JwksServer::start(Answering::Body(jwks(&[&old]))).await;
    let process = world.serve_with(&keys_from(&server.url())).await;
    let api = world.api(&process).await;

    server.answer(Answering::Status(503, String::new()));
    eventually("a fetch that fails", async || {
        assert_eq!(answer(&api, &new.operator()).await, 401);
        let failed = count(&api, FAILED).await;
        if failed >= 1.0 { Ok(()) } else { Err(failed) }
    })
    .await;
    assert_eq!(answer(&api, &old.operator()).await, 200);

    server.answer(Answering::Body(jwks(&[&old, &new])));
    believed(&api, &new).await;
    assert_eq!(answer(&api, &old.operator()).await, 200);
    end(world, process).await;
}
