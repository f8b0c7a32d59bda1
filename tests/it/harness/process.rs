//! A running `luckybag serve`, with real signals.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Mutex,
    time::Duration,
};

use super::eventually;

/// One process of ours. Killed when dropped, so a failing test leaves nothing behind.
pub(crate) struct Process {
    child: Mutex<Child>,
    log: PathBuf,
}

impl Process {
    pub(super) fn spawn(variables: Vec<(String, String)>, changes: &[(&str, &str)]) -> Self {
        let log = std::env::temp_dir().join(format!("luckybag-{:016x}.log", rand::random::<u64>()));
        let file = File::create(&log).expect("a log file");
        let child = Command::new(env!("CARGO_BIN_EXE_luckybag"))
            .arg("serve")
            .env_clear()
            .envs(variables)
            .envs(
                changes
                    .iter()
                    .map(|(key, value)| (variable_name(key), *value)),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the service starts");
        Self {
            child: Mutex::new(child),
            log,
        }
    }

    /// Where it listens: it was told port 0 and logs the one it got.
    pub(crate) async fn url(&self) -> String {
        eventually("the address in the log", async || {
            self.assert_running();
            self.log_lines()
                .iter()
                .find(|line| line.contains("listening"))
                .and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok())
                .and_then(|line| find_text(&line, "server.address"))
                .map(|address| format!("http://{address}"))
                .ok_or("not listening")
        })
        .await
    }

    /// Waits for `/readyz`.
    pub(crate) async fn ready(&self) {
        let url = format!("{}/readyz", self.url().await);
        eventually("the service to be ready", async || {
            self.assert_running();
            let answer = reqwest::get(&url)
                .await
                .map_err(|error| error.to_string())?;
            if answer.status().is_success() {
                Ok(())
            } else {
                Err(answer.status().to_string())
            }
        })
        .await;
    }

    fn assert_running(&self) {
        let exited = self
            .child
            .lock()
            .unwrap()
            .try_wait()
            .expect("the child's state");
        assert!(
            exited.is_none(),
            "the service ended: {exited:?}\n{}",
            self.log_tail()
        );
    }

    /// What it has logged so far, a line each.
    pub(crate) fn log_lines(&self) -> Vec<String> {
        let file = File::open(&self.log).expect("the log file");
        BufReader::new(file).lines().map_while(Result::ok).collect()
    }

    fn log_tail(&self) -> String {
        let lines = self.log_lines();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Sends a signal by name: `STOP`, `CONT`, `TERM`, `INT`, `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.lock().unwrap().id().to_string();
        let sent = Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .expect("kill runs");
        assert!(sent.success(), "signal {name} was not sent");
    }

    /// Stops it as an orchestrator does and expects a clean exit.
    pub(crate) async fn stop(self) {
        self.signal("TERM");
        let status = self.exit_status().await;
        assert!(status.success(), "{status}\n{}", self.log_tail());
    }

    /// Ends it without warning.
    pub(crate) async fn kill(self) {
        self.signal("KILL");
        self.exit_status().await;
    }

    /// Waits for it to end.
    pub(crate) async fn exit_status(&self) -> ExitStatus {
        eventually("the service to end", async || {
            self.child
                .lock()
                .unwrap()
                .try_wait()
                .expect("the child's state")
                .ok_or("running")
        })
        .await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self
            .child
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // A process that has ended already cannot be killed, which is as well.
        drop(child.kill());
        drop(child.wait());
        if std::thread::panicking() {
            eprintln!("--- log of the service\n{}", self.log_tail());
        }
        drop(std::fs::remove_file(&self.log));
    }
}

fn variable_name(key: &str) -> String {
    // Only settings have a section; other variables are named in full.
    if key.starts_with("LUCKYBAG") {
        key.to_owned()
    } else {
        format!("LUCKYBAG__{key}")
    }
}

fn find_text(value: &serde_json::Value, field: &str) -> Option<String> {
    match value {
        serde_json::Value::Object(object) => object
            .get(field)
            .and_then(|found| found.as_str().map(ToOwned::to_owned))
            .or_else(|| object.values().find_map(|inner| find_text(inner, field))),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_)
        | serde_json::Value::Array(_) => None,
    }
}

/// Time for what must *not* happen to happen: the one place where a test waits for a duration.
pub(crate) async fn nothing_happens_for(duration: Duration) {
    tokio::time::sleep(duration).await;
}
