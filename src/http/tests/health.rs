use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::telemetry::metrics::MetricsPage;

fn get(uri: &str) -> test::TestRequest {
    test::TestRequest::get().uri(uri)
}

#[actix_web::test]
async fn readiness_lasts_from_the_start_to_the_stop_whatever_fails_between() {
    let readiness = Readiness::new();
    let redis = Arc::new(AtomicBool::new(false));
    let probe = Arc::clone(&redis);
    readiness.register("mysql", Arc::new(|| true));
    readiness.register("redis", Arc::new(move || probe.load(Ordering::Relaxed)));
    let health = HealthKit {
        readiness: readiness.clone(),
        metrics: MetricsPage::install().unwrap(),
    };
    let app = app(|config| health.configure(config)).await;
    let state = async || {
        let answer = send(&app, get("/readyz")).await;
        let status = answer.status.as_u16();
        let body = answer.json().await;
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        (
            status,
            word(&body["status"]),
            word(&body["dependencies"]["redis"]),
        )
    };
    let expected = |status, word: &str, redis: &str| (status, word.to_owned(), redis.to_owned());

    assert_eq!(state().await, expected(503, "starting", "down"));
    redis.store(true, Ordering::Relaxed);
    readiness.mark_ready();
    assert_eq!(state().await, expected(200, "ready", "up"));
    redis.store(false, Ordering::Relaxed);
    assert_eq!(state().await, expected(200, "degraded", "down"));
    readiness.mark_stopping();
    readiness.mark_ready();
    assert_eq!(state().await, expected(503, "stopping", "down"));
}

#[actix_web::test]
async fn liveness_and_metrics_are_served() {
    let health = HealthKit {
        readiness: Readiness::new(),
        metrics: MetricsPage::install().unwrap(),
    };
    health.readiness.register("rabbitmq", Arc::new(|| true));
    let app = app(|config| health.configure(config)).await;

    assert_eq!(send(&app, get("/healthz")).await.status, StatusCode::OK);
    send(&app, get("/made-up-path")).await;
    let page = test::read_body(send(&app, get("/metrics")).await.response).await;

    let page = std::str::from_utf8(&page).unwrap();
    assert!(
        page.contains(r#"luckybag_dependency_up{name="rabbitmq"} 1"#),
        "{page}"
    );
    assert!(page.contains(r#"route="/healthz""#) && page.contains(r#"route="unmatched""#));
    assert!(!page.contains("made-up-path"));
}
