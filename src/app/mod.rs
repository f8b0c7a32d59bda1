//! Wiring: turns settings into a running process. The only module that sees all the others.

mod admin;
mod connections;
mod demo;
mod document;
mod error;
mod gauges;
mod open_files;
mod partitions;
mod server;
mod services;
mod startup;
mod traces;
mod user_data;
mod watch;
mod workers;

pub use admin::{copy_all, dead_letters, rebuild, replay_dead};
pub use demo::demo;
pub use document::{openapi, openapi_json};
pub use error::AppError;
pub use partitions::{PartitionsChange, change_partitions};
pub use traces::open_traces;
pub use user_data::{Erased, UserData, erase_user, export_user};

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::{
    connections::Connections,
    server::{HttpServers, RunningServer},
    services::Services,
    watch::Watches,
};
use crate::{
    http::{Auth, HealthKit, Readiness},
    infra::mysql,
    kernel::{Supervisor, SystemClock},
    settings::Settings,
    telemetry::{Traces, metrics::MetricsPage},
};

/// Runs the service until SIGTERM or SIGINT, or until a part of it fails.
///
/// HTTP answers from the start, `/readyz` only once every dependency has been reached. Stop order:
/// readiness off, HTTP drains, workers finish what they have in hand, the outbox is worked off once
/// more, connections close, the last spans are exported; health and metrics on an address of their own
/// are served to the end.
pub async fn serve(settings: Settings, traces: Option<Traces>) -> Result<(), AppError> {
    let signals = Signals::listen()?;
    open_files::allow_for(&settings);
    let metrics = MetricsPage::install()?;
    let auth = Arc::new(Auth::new(&settings.auth, Arc::new(SystemClock))?);
    let connections = Connections::open(&settings)?;
    let readiness = Readiness::new();
    let stages = Stages::default();

    let watches = Watches::new(&connections);
    watches.register(&readiness);
    auth.register(&readiness);
    let services = Services::new(&settings, &connections, &stages);
    let health = HealthKit {
        readiness: readiness.clone(),
        metrics: metrics.clone(),
    };
    let (api, ops) = HttpServers::bind(&settings, &services, health, Arc::clone(&auth))?.spawn();
    watches.spawn(&stages.ground);
    connections.spawn(&stages.ground);
    auth.spawn(&stages.ground);
    let upkeep = metrics.run_upkeep(stages.ground.stop_token());
    stages.ground.spawn("metrics upkeep", upkeep);

    let outcome = tokio::select! {
        outcome = run(&settings, &connections, &services, &stages, &auth, &readiness) => outcome,
        () = api.failed() => Err(AppError::TaskEnded),
        () = failed(ops.as_ref()) => Err(AppError::TaskEnded),
        () = stages.failed() => Err(AppError::TaskEnded),
        () = signals.received() => Ok(()),
    };

    tracing::info!("stopping");
    readiness.mark_stopping();
    services.end_streams();
    // An export may take as long as its caller likes: it breaks off, and is asked for elsewhere.
    stages.streams.stop_token().cancel();
    let grace = Grace::of(settings.server.shutdown_grace_secs.duration());
    // A client that never ends its request must not take the time of the joins in hand.
    let in_time = api.stop(grace.left() / 2).await & stages.stop(grace, ops).await;
    connections.close(grace.left()).await;
    if let Some(traces) = traces {
        traces.shut_down(grace.left()).await;
    }
    if !in_time {
        return Err(AppError::StoppedInTheMiddle);
    }
    tracing::info!("stopped");
    outcome
}

/// Resolves when the server has ended by itself; never when there is none.
async fn failed(server: Option<&RunningServer>) {
    match server {
        Some(server) => server.failed().await,
        None => std::future::pending().await,
    }
}

/// The time that all of the stopping may take together.
#[derive(Clone, Copy)]
struct Grace {
    ends_at: Instant,
}

impl Grace {
    /// What is asked to stop gets this long even when the time is over.
    const LEAST: Duration = Duration::from_millis(200);

    fn of(grace: Duration) -> Self {
        Self {
            ends_at: Instant::now() + grace,
        }
    }

    fn left(self) -> Duration {
        let left = self.ends_at.saturating_duration_since(Instant::now());
        left.max(Self::LEAST)
    }
}

/// Waits for the dependencies, starts the workers, and then lasts until it must not go on.
///
/// Draws need no token, so only the callers wait for the keys of tokens.
async fn run(
    settings: &Settings,
    connections: &Connections,
    services: &Services,
    stages: &Stages,
    auth: &Auth,
    readiness: &Readiness,
) -> Result<(), AppError> {
    startup::agree(settings, connections).await?;
    let work = async {
        startup::reach_dependencies(connections).await;
        // Whatever has been waited for: nothing is sent or taken by a number that is no more.
        startup::confirm_partitions(settings, connections).await?;
        workers::spawn_relay(services, &stages.relay);
        workers::spawn(settings, connections, services, &stages.workers);
        gauges::spawn(settings, connections, services, &stages.workers);
        auth.wait_for_keys().await;
        readiness.mark_ready();
        std::future::pending().await
    };
    tokio::select! {
        outcome = work => outcome,
        changed = startup::partitions_changed(settings, connections) => Err(changed),
    }
}

/// The background tasks by when they stop: each stage may still need the ones below it.
#[derive(Default)]
struct Stages {
    /// Answers that last, such as exports: they end as soon as the stopping begins.
    streams: Supervisor,
    workers: Supervisor,
    relay: Supervisor,
    ground: Supervisor,
}

impl Stages {
    /// Resolves when a task has ended by itself.
    async fn failed(&self) {
        tokio::select! {
            () = self.workers.stop_token().cancelled_owned() => (),
            () = self.relay.stop_token().cancelled_owned() => (),
            () = self.ground.stop_token().cancelled_owned() => (),
        }
    }

    /// Stops one stage after the other, health and metrics before the last; `false` when one of
    /// them did not end in time.
    async fn stop(self, grace: Grace, ops: Option<RunningServer>) -> bool {
        let work_done =
            self.workers.shut_down(grace.left()).await & self.relay.shut_down(grace.left()).await;
        let ops_done = match ops {
            Some(ops) => ops.stop(grace.left()).await,
            None => true,
        };
        work_done & ops_done & self.ground.shut_down(grace.left()).await
    }
}

/// Brings the schema up to date, waiting for nobody.
pub async fn migrate(settings: Settings) -> Result<(), AppError> {
    let db = connections::open_mysql(&settings)?;
    mysql::migrate(&db).await?;
    if let Some(admin) = connections::open_admin(&settings)?
        && settings.admin_database.migrate
    {
        let migrated = mysql::migrate_admin(&admin, &CancellationToken::new()).await;
        migrated.map_err(AppError::MigrateAdmin)?;
    }
    tracing::info!("the schema is up to date");
    Ok(())
}

/// The signals that end the process.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self, AppError> {
        let listen = |kind| signal(kind).map_err(AppError::Signals);
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn received(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => (),
            _ = self.terminate.recv() => (),
        }
    }
}
