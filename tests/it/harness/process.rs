//! A running `luckybag serve`, with real signals.

use std::{
    ffi::OsStr,
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
    /// Which of its servers has health and metrics.
    health: &'static str,
}

impl Process {
    pub(super) fn spawn(
        program: impl AsRef<OsStr>,
        variables: Vec<(String, String)>,
        changes: &[(&str, &str)],
    ) -> Self {
        let log = std::env::temp_dir().join(format!("luckybag-{:016x}.log", rand::random::<u64>()));
        let file = File::create(&log).expect("a log file");
        let child = Command::new(program)
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
        let has_ops = changes.iter().any(|(key, _)| *key == "SERVER__OPS_BIND");
        Self {
            child: Mutex::new(child),
            log,
            health: if has_ops { "ops" } else { "api" },
        }
    }

    /// Where it listens: it was told port 0 and logs the one it got.
    pub(crate) async fn url(&self) -> String {
        self.url_of("api").await
    }

    /// Where health and metrics are.
    pub(crate) async fn health_url(&self) -> String {
        self.url_of(self.health).await
    }

    async fn url_of(&self, server: &str) -> String {
        eventually("the address in the log", async || {
            self.assert_running();
            self.log_lines()
                .iter()
                .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
                .find(|line| line["message"] == "listening" && line["server"] == server)
                .and_then(|line| {
                    line["server.address"]
                        .as_str()
                        .map(|to| format!("http://{to}"))
                })
                .ok_or("not listening")
        })
        .await
    }

    /// Waits for `/readyz`.
    pub(crate) async fn ready(&self) {
        let url = format!("{}/readyz", self.health_url().await);
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

    /// The end of what it has logged.
    pub(crate) fn log_tail(&self) -> String {
        let lines = self.log_lines();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.lock().unwrap().id()
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

    /// Waits until it has stopped at the step that `LUCKYBAG_PAUSE_AT` names.
    pub(crate) async fn paused(&self) {
        let pid = self.pid().to_string();
        eventually("the service to pause", async || {
            self.assert_running();
            let asked = Command::new("ps")
                .args(["-o", "state=", "-p", &pid])
                .output()
                .expect("ps runs");
            let state = asked.stdout;
            if state.trim_ascii_start().starts_with(b"T") {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&state).into_owned())
            }
        })
        .await;
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
        #[expect(clippy::print_stderr, reason = "shown with the failure")]
        if std::thread::panicking() {
            eprintln!("--- log of the service\n{}", self.log_tail());
        }
        drop(std::fs::remove_file(&self.log));
    }
}

fn variable_name(key: &str) -> String {
    // Only settings have a section; other variables are named in full.
    if key.starts_with("LUCKYBAG") || key.starts_with("SSL_") {
        key.to_owned()
    } else {
        format!("LUCKYBAG__{key}")
    }
}

/// Time for what must *not* happen to happen: the one place where a test waits for a duration.
pub(crate) async fn nothing_happens_for(duration: Duration) {
    tokio::time::sleep(duration).await;
}
