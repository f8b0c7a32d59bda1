//! What a process tells its operators, and what it never tells.

use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use crate::harness::{Api, BagSpec, World, eventually, metric, metrics_page};

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_on_an_address_of_their_own_are_not_on_the_public_one() {
    let world = World::new().await;
    let process = world
        .serve_with(&[("SERVER__OPS_BIND", "127.0.0.1:0")])
        .await;
    let (public, ops) = (process.url().await, process.health_url().await);
    let api = world.api(&process).await;

    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(status(&format!("{ops}{path}")).await, 200, "{path}");
        assert_eq!(status(&format!("{public}{path}")).await, 404, "{path}");
    }
    let path = "/v1/rooms/8001/activities";
    api.get(&api.viewer(7), path).await.expect(200);
    let on_ops = api
        .http
        .get(format!("{ops}{path}"))
        .bearer_auth(api.viewer(7))
        .send()
        .await
        .expect("an answer");
    assert_eq!(on_ops.status(), 404);

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_giveaway_leaves_its_numbers_on_the_metrics_page() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 101..=110).await;
    world.draw_soon(&[bag]).await;
    api.drawn(&bag).await;
    api.post(&api.viewer(111), &bag.path("/join"), None)
        .await
        .expect_problem(409, "activity_closed");

    let expected = [
        ("luckybag_joins_accepted_total", 10.0),
        (r#"luckybag_joins_settled_total{outcome="joined"}"#, 10.0),
        (r#"luckybag_joins_refused_total{reason="closed"}"#, 1.0),
        ("luckybag_draw_lateness_seconds_count", 1.0),
        ("luckybag_draw_duration_seconds_count", 1.0),
        (r#"luckybag_dependency_up{name="mysql"}"#, 1.0),
        (r#"luckybag_dependency_up{name="redis"}"#, 1.0),
        (r#"luckybag_dependency_up{name="rabbitmq"}"#, 1.0),
    ];
    let page = eventually("the giveaway's numbers", async || {
        let page = metrics_page(&api.url).await;
        let wrong = expected
            .iter()
            .find(|(series, value)| metric(&page, series) != Some(*value));
        let has_age = metric(&page, "luckybag_outbox_age_seconds").is_some();
        match wrong {
            None if has_age => Ok(page),
            wrong => Err(format!("{wrong:?}\n{page}")),
        }
    })
    .await;

    let late_secs = metric(&page, "luckybag_draw_lateness_seconds_sum").expect("lateness");
    assert!((0.0..30.0).contains(&late_secs), "{late_secs}");
    for line in page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let (series, _) = line.rsplit_once(' ').expect("a series and its value");
        let name = series.split('{').next().expect("a name");
        assert!(page.contains(&format!("# TYPE {}", base(name))), "{line}");
        // No id of a user, an activity or a request becomes a label.
        assert!(!series.contains(&bag.id.to_string()), "{line}");
    }
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_one_json_object_a_line_and_hold_no_secret() {
    let world = World::new().await;
    let process = world
        .serve_with(&[("LOG__FILTER", "info,luckybag=trace")])
        .await;
    let api = world.api(&process).await;
    let tokens = [api.viewer(101), api.operator(), api.host_of(8001)];
    let bag = api
        .open_bag(&BagSpec {
            extra: json!({ "title": FORGED }),
            ..BagSpec::waiting()
        })
        .await;

    send_hostile_requests(&api).await;
    let forged = format!("{}x", tokens[0]);
    api.get(&forged, &bag.path("")).await.expect(401);
    api.join_all(&bag, 101..=105).await;
    world.draw_soon(&[bag]).await;
    api.drawn(&bag).await;
    for token in &tokens {
        api.get(token, &bag.path("/result")).await.expect(200);
    }
    let seed = seed_of(&world, bag.id).await;
    process.signal("TERM");
    assert!(process.exit_status().await.success());

    let lines = process.log_lines();
    assert!(lines.len() > 20, "{lines:?}");
    let secret = world
        .variables()
        .into_iter()
        .find_map(|(name, value)| (name == "LUCKYBAG__AUTH__SIGNING_SECRET").then_some(value));
    let mut hidden = vec![secret.expect("a secret"), forged, "guest:guest".to_owned()];
    hidden.extend(tokens);
    hidden.extend(spellings(&seed));
    for line in &lines {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(event["level"].is_string(), "{line}");
        assert_ne!(event["message"], "forged", "{line}");
        for text in &hidden {
            assert!(!line.contains(text), "{text} is in {line}");
        }
    }
    world.end().await;
}

/// What would be a log line of its own if it could; a title may be this.
const FORGED: &str = "\"}{\"level\":\"ERROR\",\"message\":\"forged\"}";

/// The same with what breaks a line and turns its direction, which no title may hold.
const HOSTILE: &str = "\"}{\"level\":\"ERROR\",\"message\":\"forged\"} \u{202e}\u{2028}";

async fn send_hostile_requests(api: &Api) {
    let ids: [&[u8]; 3] = [
        b"\"}{\"level\":\"ERROR\",\"message\":\"forged\"}",
        b"\x85{\"message\":\"forged\"}\xff",
        &[b'x'; 4000],
    ];
    for id in ids {
        let answer = api
            .http
            .get(format!("{}/v1/activities/1?{HOSTILE}", api.url))
            .header(
                "x-request-id",
                HeaderValue::from_bytes(id).expect("a header"),
            )
            .header("user-agent", HeaderValue::from_bytes(id).expect("a header"))
            .bearer_auth(api.viewer(101))
            .send()
            .await
            .expect("an answer");
        let returned = answer.headers()["x-request-id"].as_bytes();
        assert_ne!(returned, id);
    }
}

async fn status(url: &str) -> u16 {
    reqwest::get(url)
        .await
        .expect("an answer")
        .status()
        .as_u16()
}

/// A histogram's series share one `# TYPE` line.
fn base(name: &str) -> &str {
    ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}

async fn seed_of(world: &World, id: luckybag::kernel::ActivityId) -> Vec<u8> {
    use sea_orm::ConnectionTrait;

    let query = format!("SELECT seed FROM activity WHERE id = {id}");
    let row = world
        .db
        .query_one_raw(luckybag::infra::mysql::sql(&query, []))
        .await
        .expect("the row")
        .expect("the row");
    row.try_get("", "seed").expect("the seed")
}

/// How bytes could show in a line.
fn spellings(seed: &[u8]) -> Vec<String> {
    assert_eq!(seed.len(), 32);
    let hex = hex::encode(seed);
    let debug = format!("{seed:?}");
    vec![
        hex.to_uppercase(),
        hex,
        debug.trim_matches(['[', ']']).to_owned(),
        debug.replace(' ', "").trim_matches(['[', ']']).to_owned(),
    ]
}
