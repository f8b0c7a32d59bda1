//! Finds what a lost message or a crash left undone, and does it. It only ever looks at the state
//! of things, so it does the same after a restart.

mod retention;
mod steps;

use std::{error::Error, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use crate::{
    infra::mysql::within_limit,
    settings::SweeperSettings,
    telemetry::{metrics, state},
};

pub use retention::Retention;
pub use steps::{SweeperDeps, steps};

/// Why a step failed; the next sweep is its retry.
pub type StepError = Box<dyn Error + Send + Sync>;

/// One small task: no input, safe to repeat, bounded; tells how much it found and did.
pub struct Step {
    pub name: &'static str,
    /// Sweeps from one run to the next.
    every: u32,
    /// Whether a run may take longer than anything in `MySQL` should.
    is_long: bool,
    run: Box<dyn Fn() -> BoxFuture<'static, Result<usize, StepError>> + Send + Sync>,
}

impl Step {
    pub fn new<F, E>(name: &'static str, run: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<usize, E>> + Send + 'static,
        E: Into<StepError>,
    {
        let run = Box::new(move || -> BoxFuture<'static, Result<usize, StepError>> {
            let work = run();
            Box::pin(async move { work.await.map_err(Into::into) })
        });
        Self {
            name,
            every: 1,
            is_long: false,
            run,
        }
    }

    /// For what need not be looked at in each sweep.
    #[must_use]
    pub fn every(self, sweeps: u32) -> Self {
        Self {
            every: sweeps,
            ..self
        }
    }

    /// For work that grows with what has to be done, and bounds its own waits.
    #[must_use]
    pub fn long(self) -> Self {
        Self {
            is_long: true,
            ..self
        }
    }

    /// Runs it once; gives it up when it takes too long, for the next sweep to go on.
    pub async fn run(&self) -> Result<usize, StepError> {
        let work = (self.run)();
        if self.is_long {
            work.await
        } else {
            within_limit(work).await
        }
    }
}

/// Runs the steps again and again; replicas share the work by the claims inside the steps.
pub struct Sweeper {
    steps: Vec<Step>,
    interval: Duration,
}

impl Sweeper {
    pub fn new(steps: Vec<Step>, settings: &SweeperSettings) -> Self {
        Self {
            steps,
            interval: settings.interval_ms.duration(),
        }
    }

    /// Sweeps until `stop`, which is looked at between two runs of a step. A step that takes long
    /// holds none of the others up.
    pub async fn run(&self, stop: CancellationToken) {
        join_all(self.steps.iter().map(|step| self.repeat(step, &stop))).await;
    }

    async fn repeat(&self, task: &Step, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            sweep(task).await;
            let jitter = rand::rng().random_range(0.8..1.2);
            let pause = (self.interval * task.every).mul_f64(jitter);
            let pause = tokio::time::sleep(pause);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    /// Runs the step with this name once, as tests do; `None` when there is no such step.
    pub async fn run_step(&self, name: &str) -> Option<Result<usize, StepError>> {
        let step = self.steps.iter().find(|step| step.name == name)?;
        Some(step.run().await)
    }
}

async fn sweep(step: &Step) {
    let swept = step.run().await;
    let outcome = if swept.is_ok() { "done" } else { "failed" };
    state::sweeper_ran(step.name, outcome);
    match swept {
        Ok(0) => (),
        Ok(count) => {
            metrics::sweeper_repaired(step.name, u64::try_from(count).unwrap_or(u64::MAX));
            tracing::debug!(sweeper.step = step.name, sweeper.count = count, "swept");
        }
        Err(error) => {
            let error = error.as_ref() as &dyn Error;
            tracing::warn!(error, sweeper.step = step.name, "sweeper step failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[tokio::test]
    async fn a_step_can_be_run_by_its_name() {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let step = Step::new("count", move || {
            let counted = Arc::clone(&counted);
            async move { Ok::<_, StepError>(counted.fetch_add(1, Ordering::Relaxed) + 1) }
        });
        let sweeper = Sweeper {
            steps: vec![step],
            interval: Duration::from_secs(1),
        };

        assert_eq!(sweeper.run_step("count").await.unwrap().unwrap(), 1);
        assert_eq!(sweeper.run_step("count").await.unwrap().unwrap(), 2);
        assert!(sweeper.run_step("unknown").await.is_none());
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }
}
