//! Waits for the dependencies and agrees with the other processes of the installation.

use std::{error::Error, time::Duration};

use sea_orm::DbErr;

use super::{connections::Connections, error::AppError};
use crate::{
    infra::mysql::{self, MigrateError, STREAM_PARTITIONS},
    settings::Settings,
};

const PAUSE: Duration = Duration::from_millis(500);

/// How often a process looks whether the number of partitions is still its own.
pub(super) const PARTITIONS_LOOK: Duration = Duration::from_secs(5);

/// Returns once the schema is up to date and the installation has our number of partitions.
pub(super) async fn agree(settings: &Settings, connections: &Connections) -> Result<(), AppError> {
    if settings.mysql.migrate {
        migrate(connections).await?;
    }
    confirm_partitions(settings, connections).await
}

/// Returns once every dependency has been reached.
pub(super) async fn reach_dependencies(connections: &Connections) {
    warn_of_galera(connections).await;
    until("Redis", async || connections.redis.reach().await).await;
    connections.broker.wait_connected().await;
    until("the database's clock", async || {
        connections.clock.now().await.map(|_| ())
    })
    .await;
}

/// Tries until `attempt` succeeds; says so the first time it does not.
async fn until<T, E: Error + 'static>(what: &str, attempt: impl AsyncFn() -> Result<T, E>) -> T {
    let mut is_first = true;
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) if is_first => {
                tracing::warn!(error = &error as &dyn Error, dependency = what, "waiting");
                is_first = false;
            }
            Err(_) => (),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn migrate(connections: &Connections) -> Result<(), AppError> {
    // Only a server that is away, or another process at work, is waited for.
    until("MySQL", async || {
        match mysql::migrate(&connections.db).await {
            Ok(()) => Ok(Ok(())),
            Err(error @ MigrateError::Failed(_)) => Ok(Err(error)),
            Err(
                error
                @ (MigrateError::Connection(_) | MigrateError::Locked | MigrateError::Stopped),
            ) => Err(error),
        }
    })
    .await
    .map_err(AppError::from)
}

/// Settles the number of partitions, or finds it as it is configured.
pub(super) async fn confirm_partitions(
    settings: &Settings,
    connections: &Connections,
) -> Result<(), AppError> {
    let configured = settings.stream.partitions;
    let wanted = configured.to_string();
    let settled: String = until::<_, DbErr>("MySQL", async || {
        mysql::settle_fact(&connections.db, STREAM_PARTITIONS, &wanted).await
    })
    .await;
    if settled == wanted {
        Ok(())
    } else {
        Err(AppError::Partitions {
            configured,
            settled,
        })
    }
}

/// Resolves when the number of partitions was changed while this process started or ran: what it would
/// send from then on could go where nobody looks for it, so it must end.
pub(super) async fn partitions_changed(settings: &Settings, connections: &Connections) -> AppError {
    let configured = settings.stream.partitions;
    loop {
        tokio::time::sleep(PARTITIONS_LOOK).await;
        // A database that does not answer now is asked again.
        if let Ok(Some(settled)) = mysql::find_fact(&connections.db, STREAM_PARTITIONS).await
            && settled != configured.to_string()
        {
            return AppError::Partitions {
                configured,
                settled,
            };
        }
    }
}

async fn warn_of_galera(connections: &Connections) {
    if matches!(mysql::is_galera(&connections.db).await, Ok(true)) {
        tracing::warn!(
            "this MySQL is a Galera node: write to one node only, for in multi-primary mode \
             committed transactions can be lost"
        );
    }
}
