//! Keys from a file.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::json;

use super::{answer, believed, count, end, keys_from, logged, refused, with};
use crate::harness::{Answering, IssuerKey, JwksServer, TempFile, World, claims, eventually, jwks};

const FAILED: &str = r#"luckybag_jwks_refreshes_total{source="jwks_file",outcome="failed"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_read_again_and_a_bad_one_changes_nothing() {
    let world = World::new().await;
    let [first, second, third, fourth] =
        ["first", "second", "third", "fourth"].map(IssuerKey::es256);
    let file = TempFile::new(&jwks(&[&first]));
    let process = world.serve_with(&[("AUTH__JWKS_FILE", file.path())]).await;
    let api = world.api(&process).await;
    let failures = async |least: f64| {
        eventually("a failed look at the file", async || {
            let failed = count(&api, FAILED).await;
            if failed >= least {
                Ok(failed)
            } else {
                Err(failed)
            }
        })
        .await
    };
    assert_eq!(answer(&api, &first.operator()).await, 200);

    file.write(&jwks(&[&first, &second]));
    believed(&api, &second).await;
    assert_eq!(answer(&api, &first.operator()).await, 200);

    file.replace(&jwks(&[&third]));
    believed(&api, &third).await;
    for gone in [&first, &second] {
        assert_eq!(answer(&api, &gone.operator()).await, 401);
    }

    file.write("{\"keys\": [");
    let failed = failures(1.0).await;
    assert_eq!(answer(&api, &third.operator()).await, 200);
    file.remove();
    failures(failed + 2.0).await;
    assert_eq!(answer(&api, &third.operator()).await, 200);

    file.write(&jwks(&[&fourth]));
    believed(&api, &fourth).await;
    refused(&api, &third).await;
    assert_eq!(logged(&process, "the present ones stay").len(), 1);
    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weak_or_symmetric_key_is_skipped_by_name() {
    let world = World::new().await;
    let good = IssuerKey::rs256("good");
    let weak = json!({ "kty": "RSA", "kid": "weak", "n": URL_SAFE_NO_PAD.encode([0xff; 128]), "e": "AQAB" });
    let secret = [7; 32];
    let shown = URL_SAFE_NO_PAD.encode(secret);
    let symmetric = json!({ "kty": "oct", "kid": "symmetric", "k": shown, "alg": "HS256" });
    let keys = json!({ "keys": [weak, symmetric, good.jwk()] });
    let file = TempFile::new(&keys.to_string());
    let process = world.serve_with(&[("AUTH__JWKS_FILE", file.path())]).await;
    let api = world.api(&process).await;

    assert_eq!(answer(&api, &good.operator()).await, 200);
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("symmetric".to_owned());
    let key = EncodingKey::from_secret(&secret).expect("a secret");
    let claims = claims(&json!({ "roles": ["operator"] }));
    let token = jsonwebtoken::encode(&header, &claims, &key).expect("a token");
    assert_eq!(answer(&api, &token).await, 401);

    for (kid, why) in [("weak", "RSA of 1024 bits"), ("symmetric", "symmetric key")] {
        let lines = logged(&process, "a key of the set is not used");
        let is_named = |line: &&String| line.contains(&format!("\"{kid}\"")) && line.contains(why);
        assert_eq!(
            lines.iter().filter(is_named).count(),
            1,
            "{kid} in {lines:?}"
        );
        assert!(!lines.join("").contains(&shown), "{lines:?}");
    }
    assert!((count(&api, r#"luckybag_jwks_keys{source="jwks_file"}"#).await - 1.0).abs() < 0.1);
    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_file_and_url_serve_side_by_side_and_of_one_name_the_file_has_its_say() {
    let world = World::new().await;
    let [filed, in_file, in_url] = ["filed", "both", "both"].map(IssuerKey::es256);
    let fetched = IssuerKey::ed_dsa("served");
    let file = TempFile::new(&jwks(&[&filed, &in_file]));
    let server = JwksServer::start(Answering::Body(jwks(&[&fetched, &in_url]))).await;
    let url = server.url();
    let settings = with(keys_from(&url), &[("AUTH__JWKS_FILE", file.path())]);
    let process = world.serve_with(&settings).await;
    let api = world.api(&process).await;

    for token in [
        api.operator(),
        filed.operator(),
        fetched.operator(),
        in_file.operator(),
    ] {
        assert_eq!(answer(&api, &token).await, 200);
    }
    assert_eq!(answer(&api, &in_url.operator()).await, 401);
    end(world, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_secret_nothing_is_believed_that_claims_one() {
    let world = World::new().await;
    let key = IssuerKey::es256("only");
    let file = TempFile::new(&jwks(&[&key]));
    let settings = [
        ("AUTH__JWKS_FILE", file.path()),
        ("AUTH__SIGNING_SECRET", ""),
    ];
    let process = world.serve_with(&settings).await;
    let api = world.api(&process).await;

    assert_eq!(answer(&api, &key.operator()).await, 200);
    assert_eq!(answer(&api, &api.operator()).await, 401);
    end(world, process).await;
}
