//! Wiring: turns settings into a running process. The only module that sees all the others.

mod connections;
mod demo;
mod error;
mod server;
mod services;
mod startup;
mod watch;
mod workers;

pub use demo::demo;
pub use error::AppError;

use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{connections::Connections, server::PublicServer, services::Services, watch::Watches};
use crate::{
    http::{HealthKit, Readiness},
    infra::mysql,
    kernel::Supervisor,
    settings::Settings,
    telemetry::metrics::MetricsPage,
};

/// Runs the service until SIGTERM or SIGINT, or until a part of it fails.
///
/// HTTP answers from the start, `/readyz` only once every dependency has been reached. Stop order:
/// readiness off, HTTP drains, workers finish what they have in hand, the outbox is worked off once
/// more, connections close.
pub async fn serve(settings: Settings) -> Result<(), AppError> {
    let signals = Signals::listen()?;
    let metrics = MetricsPage::install()?;
    let connections = Connections::open(&settings)?;
    let readiness = Readiness::new();
    let ground = Supervisor::default();
    let workers = Supervisor::default();

    let watches = Watches::new(&connections);
    watches.register(&readiness);
    let services = Services::new(&settings, &connections, &workers);
    let health = HealthKit {
        readiness: readiness.clone(),
        metrics,
    };
    let server = PublicServer::bind(&settings, &services, health)?;
    watches.spawn(&ground);
    connections.spawn(&ground, &services);
    let server = server.spawn();

    let outcome = tokio::select! {
        outcome = run(&settings, &connections, &services, &workers, &readiness) => outcome,
        () = server.failed() => Err(AppError::TaskEnded),
        () = signals.received() => Ok(()),
        () = ground.stop_token().cancelled_owned() => Err(AppError::TaskEnded),
        () = workers.stop_token().cancelled_owned() => Err(AppError::TaskEnded),
    };

    tracing::info!("stopping");
    readiness.mark_stopping();
    let grace = settings.server.shutdown_grace_secs.duration();
    let in_time =
        server.stop(grace).await & workers.shut_down(grace).await & ground.shut_down(grace).await;
    connections.close().await;
    if !in_time {
        return Err(AppError::StoppedInTheMiddle);
    }
    tracing::info!("stopped");
    outcome
}

/// Waits for the dependencies, starts the workers, and then lasts for ever.
async fn run(
    settings: &Settings,
    connections: &Connections,
    services: &Services,
    workers: &Supervisor,
    readiness: &Readiness,
) -> Result<(), AppError> {
    startup::reach_dependencies(settings, connections).await?;
    workers::spawn(settings, connections, services, workers);
    readiness.mark_ready();
    std::future::pending().await
}

/// Brings the schema up to date, waiting for nobody.
pub async fn migrate(settings: Settings) -> Result<(), AppError> {
    let db = connections::open_mysql(&settings)?;
    mysql::migrate(&db).await?;
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
