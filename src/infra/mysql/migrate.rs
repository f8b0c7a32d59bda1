//! Brings the schema up to date; two replicas may try at the same time.

use std::{sync::LazyLock, time::Duration};

use sea_orm::DatabaseConnection;
use sqlx::{Connection, Executor, MySqlConnection, migrate::Migrator};
use tokio_util::sync::CancellationToken;

/// Migrations of newer versions are left alone: while an upgrade is under way, or after it was taken
/// back, processes of an older version have to start too.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| lenient(sqlx::migrate!()));
static ADMIN_MIGRATIONS: LazyLock<Migrator> =
    LazyLock::new(|| lenient(sqlx::migrate!("migrations/admin")));

fn lenient(mut migrations: Migrator) -> Migrator {
    migrations.set_ignore_missing(true);
    migrations
}

/// How long a replica waits for another one that is migrating.
const LOCK_WAIT_SECS: u32 = 60;

/// Why the schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("cannot reach MySQL to migrate")]
    Connection(#[source] sqlx::Error),

    #[error("another process has been migrating for {LOCK_WAIT_SECS} s")]
    Locked,

    #[error("stopped before anything was migrated")]
    Stopped,

    #[error("a migration failed")]
    Failed(#[from] sqlx::migrate::MigrateError),
}

/// Runs what is missing of `migrations/`; a second run changes nothing. A schema that is newer than
/// this program is used as it is: migrations only add.
///
/// sqlx takes no effective lock on `MariaDB` (it asks for an endless `GET_LOCK`, which is refused),
/// so the lock is taken here, on the connection that migrates.
pub async fn migrate(db: &DatabaseConnection) -> Result<(), MigrateError> {
    run(&MIGRATIONS, lock(db).await?).await
}

/// The same for the admin database and `migrations/admin/`. `stop` ends the waiting for another replica
/// alone: what is cut off in the middle of a migration only people can mend.
pub async fn migrate_admin(
    admin: &DatabaseConnection,
    stop: &CancellationToken,
) -> Result<(), MigrateError> {
    let locked = stop.run_until_cancelled(lock(admin)).await;
    run(&ADMIN_MIGRATIONS, locked.ok_or(MigrateError::Stopped)??).await
}

/// Nothing has been changed yet, so a server that does not answer can be given up.
async fn lock(db: &DatabaseConnection) -> Result<MySqlConnection, MigrateError> {
    const SLACK: Duration = Duration::from_secs(10);

    let limit = Duration::from_secs(LOCK_WAIT_SECS.into()) + SLACK;
    let locked = tokio::time::timeout(limit, wait_for_lock(db)).await;
    locked.unwrap_or(Err(MigrateError::Connection(sqlx::Error::PoolTimedOut)))
}

/// A connection of its own, whose end gives the lock back.
async fn wait_for_lock(db: &DatabaseConnection) -> Result<MySqlConnection, MigrateError> {
    let pool = db.get_mysql_connection_pool();
    let mut connection = pool
        .acquire()
        .await
        .map_err(MigrateError::Connection)?
        .detach();
    let lock: Option<i64> =
        sqlx::query_scalar("SELECT GET_LOCK(CONCAT('luckybag_migrate_', DATABASE()), ?)")
            .bind(LOCK_WAIT_SECS)
            .fetch_one(&mut connection)
            .await
            .map_err(MigrateError::Connection)?;
    if lock != Some(1) {
        return Err(MigrateError::Locked);
    }
    // Unlike callers, a migration waits for whoever uses the table.
    let patience = "SET SESSION lock_wait_timeout = DEFAULT";
    connection
        .execute(patience)
        .await
        .map_err(MigrateError::Connection)?;
    Ok(connection)
}

async fn run(migrations: &Migrator, mut connection: MySqlConnection) -> Result<(), MigrateError> {
    let outcome = migrations.run_direct(None, &mut connection, false).await;
    warn_of_newer(migrations, &mut connection).await;
    // Closing the connection gives the lock back, whatever the outcome.
    connection.close().await.map_err(MigrateError::Connection)?;
    Ok(outcome?)
}

/// Says so when a newer version has been here.
async fn warn_of_newer(migrations: &Migrator, connection: &mut MySqlConnection) {
    let known: Option<i64> = migrations.iter().map(|migration| migration.version).max();
    let newest: Result<Option<i64>, sqlx::Error> =
        sqlx::query_scalar("SELECT MAX(version) FROM _sqlx_migrations")
            .fetch_one(connection)
            .await;
    // Only said: whether it can be read decides nothing.
    if let Ok(newest) = newest
        && newest > known
    {
        tracing::warn!(
            schema.newest = newest,
            schema.known = known,
            "the schema is newer than this version of the program"
        );
    }
}
