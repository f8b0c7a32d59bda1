//! The page in a real browser.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use serde_json::Value;

use crate::harness::{DOCUMENT, Finished, World, finish};

/// A folder for as long as a browser needs it.
struct Profile(PathBuf);

impl Profile {
    fn new() -> Self {
        let name = format!("luckybag-browser-{:016x}", rand::random::<u64>());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder");
        Self(folder)
    }

    fn net_log(&self) -> PathBuf {
        self.0.join("net.json")
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// What the page looks like once its scripts have run.
fn render(profile: &Profile, url: &str) -> Finished {
    let mut command = Command::new("chromium");
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
        ])
        .args(["--no-first-run", "--disable-background-networking"])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
        ])
        .args(["--disable-default-apps", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.0.display()))
        .arg(format!("--log-net-log={}", profile.net_log().display()))
        .arg("--virtual-time-budget=60000")
        .args(["--dump-dom", url]);
    finish(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_every_operation_and_asks_nobody_else() {
    let world = World::new().await;
    let process = world.serve().await;
    let url = process.url().await;
    let page = format!("{url}/docs");

    let profile = Profile::new();
    let shown = tokio::task::spawn_blocking(move || {
        let finished = render(&profile, &page);
        let log = fs::read_to_string(profile.net_log()).expect("a log of the network");
        (finished, log)
    });
    let shown = tokio::time::timeout(Duration::from_mins(3), shown).await;
    let (finished, log) = shown.expect("the browser ends").expect("the browser runs");

    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    for (method, path, operation) in DOCUMENT.operations() {
        let summary = operation["summary"].as_str().expect("a summary");
        let escaped = summary.replace('\'', "&#39;");
        let is_shown = finished.stdout.contains(summary) || finished.stdout.contains(&escaped);
        assert!(
            is_shown,
            "{method} {path} is not shown: {}",
            finished.stdout
        );
    }
    let own = authority(&url);
    let asked = asked_for(&log);
    assert!(
        asked.iter().any(|url| url.ends_with("/openapi.json")),
        "{asked:?}"
    );
    for url in asked {
        assert_eq!(authority(&url), own, "{url}");
    }
    process.stop().await;
    world.end().await;
}

/// The host and port of a URL.
fn authority(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}

/// Every URL of the network's log that is not of the browser itself.
fn asked_for(log: &str) -> Vec<String> {
    let log: Value = serde_json::from_str(log).expect("JSON");
    let events = log["events"].as_array().expect("events");
    let urls = events
        .iter()
        .filter_map(|event| event["params"]["url"].as_str());
    urls.filter(|url| url.starts_with("http") || url.starts_with("ws"))
        .map(str::to_owned)
        .collect()
}
