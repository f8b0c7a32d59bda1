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
        // What the browser itself would like to ask stays on this machine.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")
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
    let asked = asked_by(&url, &log);
    let document = format!("{url}/openapi.json");
    assert!(asked.contains(&document), "{asked:?}");
    for asked in asked {
        assert!(asked.starts_with(&format!("{url}/")), "{asked}");
    }
    process.stop().await;
    world.end().await;
}

/// Every URL of the network's log that a page of `origin` asked for, and not the browser itself.
fn asked_by(origin: &str, log: &str) -> Vec<String> {
    let log: Value = serde_json::from_str(log).expect("JSON");
    let events = log["events"].as_array().expect("events");
    events
        .iter()
        .map(|event| &event["params"])
        .filter(|params| params["initiator"] == origin)
        .filter_map(|params| params["url"].as_str().map(str::to_owned))
        .collect()
}
