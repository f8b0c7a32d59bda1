//! Starts, watches and stops the long-running tasks of the process.

use std::time::Duration;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Starts the long-running tasks of the process and stops them together.
///
/// A task that ends before the stop was requested, by return or by panic, stops all the others:
/// the process then exits non-zero and the orchestrator restarts it.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Supervisor {
    /// A supervisor whose tasks also stop when `stop` is cancelled.
    pub fn stopped_by(stop: CancellationToken) -> Self {
        Self {
            stop,
            tasks: TaskTracker::new(),
        }
    }

    /// The token that every task watches.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs a task that must last until the stop.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that spawns long-running tasks"
    )]
    pub fn spawn<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let guard = self.stop.clone().drop_guard();
        let stop = self.stop.clone();
        tokio::spawn(self.tasks.track_future(async move {
            // Dropped last, also while unwinding, so a panic stops the process too.
            let _guard = guard;
            tracing::debug!(task.name = name, "task started");
            task.await;
            if stop.is_cancelled() {
                tracing::debug!(task.name = name, "task stopped");
            } else {
                tracing::error!(task.name = name, "task ended before a stop was requested");
            }
        }));
    }

    /// Runs a bounded piece of work that the stop waits for, such as one draw.
    #[expect(
        clippy::disallowed_methods,
        reason = "tracked like the long-running tasks"
    )]
    pub fn spawn_once<F>(&self, work: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::spawn(self.tasks.track_future(work))
    }

    /// Requests a stop and waits for every task; `false` when `grace` ran out first.
    pub async fn shut_down(self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(grace, self.tasks.wait()).await.is_ok()
    }
}
