//! Keys from a URL while it works.

use std::time::Instant;

use futures_util::future::join_all;
use serde_json::json;

use super::{answer, believed, count, end, forged, keys_from, refused, with};
use crate::harness::{Answering, IssuerKey, JwksServer, World, claims, eventually, jwks};

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_new_key_is_believed_at_once_and_one_of_a_removed_key_no_longer() {
    let world = World::new().await;
    let (old, new) = (IssuerKey::es256("2030-a"), IssuerKey::ed_dsa("2030-b"));
    let server = JwksServer::start(Answering::Body(jwks(&[&old]))).await;
    let url = server.url();
    let process = world.serve_with(&keys_from(&url)).await;
    let api = world.api(&process).await;
    assert_eq!(answer(&api, &old.operator()).await, 200);
    assert_eq!(answer(&api, &api.operator()).await, 200);

    server.answer(Answering::Body(jwks(&[&new])));
    believed(&api, &new).await;

    assert_eq!(answer(&api, &old.operator()).await, 401);
    assert_eq!(answer(&api, &api.operator()).await, 200);
    // One at the start, one for the unknown name, at most one for the name that was removed.
    assert!((2..=3).contains(&server.asked()), "{}", server.asked());
    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_are_fetched_again_from_time_to_time() {
    let world = World::new().await;
    let key = IssuerKey::es256("");
    let (before, after) = (IssuerKey::es256("same"), IssuerKey::es256("same"));
    let server = JwksServer::start(Answering::Body(jwks(&[&key, &before]))).await;
    let url = server.url();
    let settings = with(keys_from(&url), &[("AUTH__JWKS_REFRESH_SECS", "1")]);
    let process = world.serve_with(&settings).await;
    let api = world.api(&process).await;
    believed(&api, &before).await;

    // The name stays, so that no token asks for a fetch.
    server.answer(Answering::Body(jwks(&[&key, &after])));
    refused(&api, &before).await;

    assert_eq!(answer(&api, &after.operator()).await, 200);
    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_forged_names_make_few_fetches() {
    let world = World::new().await;
    let key = IssuerKey::ed_dsa("good");
    let server = JwksServer::start(Answering::Body(jwks(&[&key]))).await;
    let url = server.url();
    // So long does the fetch below last.
    let timeout = [("AUTH__JWKS_TIMEOUT_MS", "1000")];
    let process = world.serve_with(&with(keys_from(&url), &timeout)).await;
    let api = world.api(&process).await;
    let started = Instant::now();
    let storm = async |round: usize| {
        let tokens: Vec<String> = (0..100)
            .map(|n| forged(&key, &format!("{round}-{n}")))
            .collect();
        let answers = join_all(tokens.iter().map(|token| answer(&api, token))).await;
        assert!(answers.iter().all(|status| *status == 401), "{answers:?}");
    };

    for round in 0..10 {
        storm(round).await;
    }
    eventually("a fetch for an unknown name", async || {
        storm(10).await;
        if server.asked() > 1 { Ok(()) } else { Err(()) }
    })
    .await;
    // While a fetch lasts, all wait for that one.
    server.answer(Answering::Silence);
    eventually("a fetch that lasts", async || {
        let before = server.asked();
        storm(11).await;
        if server.asked() > before {
            Ok(())
        } else {
            Err(())
        }
    })
    .await;

    let fetches = server.asked() as u64;
    assert!(fetches <= 2 + started.elapsed().as_secs(), "{fetches}");
    assert_eq!(answer(&api, &key.operator()).await, 200);
    let unknown = r#"luckybag_tokens_refused_total{reason="unknown_key"}"#;
    assert!(count(&api, unknown).await >= 1200.0);
    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_names_fetch_nothing_in_the_pause_after_a_fetch() {
    let world = World::new().await;
    let key = IssuerKey::ed_dsa("good");
    let server = JwksServer::start(Answering::Body(jwks(&[&key]))).await;
    let url = server.url();
    let pause = [("AUTH__JWKS_LEAST_PAUSE_SECS", "3600")];
    let process = world.serve_with(&with(keys_from(&url), &pause)).await;
    let api = world.api(&process).await;

    for n in 0..50 {
        assert_eq!(answer(&api, &forged(&key, &n.to_string())).await, 401);
    }

    assert_eq!(server.asked(), 1);
    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_a_name_is_believed_when_one_key_alone_fits() {
    let world = World::new().await;
    let (ec, ed, other) = (
        IssuerKey::es256("ec"),
        IssuerKey::ed_dsa("ed"),
        IssuerKey::ed_dsa("ed-2"),
    );
    let server = JwksServer::start(Answering::Body(jwks(&[&ec, &ed, &other]))).await;
    let url = server.url();
    let process = world.serve_with(&keys_from(&url)).await;
    let api = world.api(&process).await;
    let nameless = |key: &IssuerKey| {
        let mut header = key.header();
        header.kid = None;
        key.sign_as(&header, &claims(&json!({ "roles": ["operator"] })))
    };

    assert_eq!(answer(&api, &nameless(&ec)).await, 200);
    assert_eq!(answer(&api, &nameless(&ed)).await, 401);
    assert_eq!(answer(&api, &ed.operator()).await, 200);

    assert_eq!(server.asked(), 1);
    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn issuer_audience_and_times_count_for_every_key() {
    let world = World::new().await;
    let key = IssuerKey::rs256("rsa");
    let server = JwksServer::start(Answering::Body(jwks(&[&key]))).await;
    let url = server.url();
    let checks = [("AUTH__ISSUER", "us"), ("AUTH__AUDIENCE", "bags")];
    let process = world.serve_with(&with(keys_from(&url), &checks)).await;
    let api = world.api(&process).await;
    let now = claims(&json!({}))["exp"].as_i64().expect("a time") - 600;

    for (changes, status) in [
        (json!({}), 200),
        (json!({ "aud": ["boxes", "bags"] }), 200),
        (json!({ "nbf": now - 1, "exp": now + 60 }), 200),
        (json!({ "iss": "them" }), 401),
        (json!({ "iss": null }), 401),
        (json!({ "aud": "boxes" }), 401),
        (json!({ "aud": null }), 401),
        (json!({ "exp": null }), 401),
        (json!({ "exp": true }), 401),
        (json!({ "exp": [now + 60] }), 401),
        (json!({ "exp": now - 1 }), 401),
        (json!({ "nbf": now + 60 }), 401),
        (json!({ "nbf": "never" }), 401),
        (json!({ "sub": "0" }), 401),
        (json!({ "sub": 1 }), 401),
    ] {
        let mut all = json!({ "iss": "us", "aud": "bags", "roles": ["operator"] });
        let fields = changes.as_object().expect("an object").clone();
        all.as_object_mut().expect("an object").extend(fields);
        let answered = answer(&api, &key.sign(&claims(&all))).await;
        assert_eq!(answered, status, "{changes}");
    }

    for (reason, least) in [("issuer", 2.0), ("audience", 2.0), ("expired", 1.0)] {
        let series = format!(r#"luckybag_tokens_refused_total{{reason="{reason}"}}"#);
        assert!(count(&api, &series).await >= least, "{reason}");
    }
    end(world, process).await;
}
