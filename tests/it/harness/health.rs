//! What operators and their tools read: health, readiness, metrics.

use std::collections::BTreeSet;

use serde_json::Value;

use super::eventually;

/// The status and the body of `/readyz` of the server at `url`.
pub(crate) async fn readyz(url: &str) -> (u16, Value) {
    let answer = reqwest::get(format!("{url}/readyz"))
        .await
        .expect("/readyz answers");
    let status = answer.status().as_u16();
    (status, answer.json().await.expect("a JSON body"))
}

/// Waits until `/readyz` names exactly these dependencies as down.
///
/// Its HTTP status must be `status` all the time.
pub(crate) async fn named_down(url: &str, status: u16, names: &[&str]) -> Value {
    eventually(&format!("{names:?} to be down"), async || {
        let (answered, body) = readyz(url).await;
        assert_eq!(answered, status, "{body}");
        let dependencies = body["dependencies"].as_object().expect("dependencies");
        let down = dependencies.iter().filter(|(_, state)| *state == "down");
        let down: BTreeSet<&str> = down.map(|(name, _)| name.as_str()).collect();
        if down == names.iter().copied().collect() {
            Ok(body)
        } else {
            Err(body)
        }
    })
    .await
}

/// Everything that Prometheus reads from the server at `url`.
pub(crate) async fn metrics_page(url: &str) -> String {
    let answer = reqwest::get(format!("{url}/metrics"))
        .await
        .expect("/metrics answers");
    assert_eq!(answer.status(), 200);
    answer.text().await.expect("text")
}

/// The value of one series, written as on the page: `luckybag_dependency_up{name="redis"}`.
pub(crate) fn metric(page: &str, series: &str) -> Option<f64> {
    page.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
        .map(|value| value.parse().expect("a number"))
}
