//! Tokens by public keys: where the keys come from, and what happens when they change or go away.

mod faults;
mod file;
mod https;
mod start;
mod url;

use serde_json::json;

use crate::harness::{Api, IssuerKey, Process, World, claims, eventually, metric, metrics_page};

/// What the service says to a caller with this token.
async fn answer(api: &Api, token: &str) -> u16 {
    let answer = api.get(token, "/v1/prizes").await;
    answer.status.as_u16()
}

/// Waits until the service believes this key.
async fn believed(api: &Api, key: &IssuerKey) {
    answered(api, key, 200).await;
}

/// Waits until the service believes this key no longer.
async fn refused(api: &Api, key: &IssuerKey) {
    answered(api, key, 401).await;
}

async fn answered(api: &Api, key: &IssuerKey, status: u16) {
    let what = format!("`{}` to be answered {status}", key.kid);
    eventually(&what, async || match answer(api, &key.operator()).await {
        answered if answered == status => Ok(()),
        other => Err(other),
    })
    .await;
}

/// A token of an operator in the name of a key that does not exist.
fn forged(key: &IssuerKey, kid: &str) -> String {
    let mut header = key.header();
    header.kid = Some(kid.to_owned());
    key.sign_as(&header, &claims(&json!({ "roles": ["operator"] })))
}

/// How often something was counted.
async fn count(api: &Api, series: &str) -> f64 {
    metric(&metrics_page(&api.url).await, series).unwrap_or_default()
}

/// The lines of the log that hold `text`.
fn logged(process: &Process, text: &str) -> Vec<String> {
    let mut lines = process.log_lines();
    lines.retain(|line| line.contains(text));
    lines
}

/// Settings of a process that takes keys from `url` and fetches at most once a second.
fn keys_from(url: &str) -> Vec<(&str, &str)> {
    vec![
        ("AUTH__JWKS_URL", url),
        ("AUTH__JWKS_REFRESH_SECS", "3600"),
        ("AUTH__JWKS_LEAST_PAUSE_SECS", "1"),
        ("AUTH__JWKS_TIMEOUT_MS", "10000"),
    ]
}

/// The same with other values.
fn with<'a>(
    mut settings: Vec<(&'a str, &'a str)>,
    changes: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    settings.extend(changes);
    settings
}

async fn end(world: World, process: Process) {
    process.stop().await;
    world.end().await;
}
