//! Brings the schema up to date; two replicas may try at the same time.

use sea_orm::DatabaseConnection;
use sqlx::{Connection, migrate::Migrator};

static MIGRATIONS: Migrator = sqlx::migrate!();
static ADMIN_MIGRATIONS: Migrator = sqlx::migrate!("migrations/admin");

/// How long a replica waits for another one that is migrating.
const LOCK_WAIT_SECS: u32 = 60;

/// Why the schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("cannot reach MySQL to migrate")]
    Connection(#[source] sqlx::Error),

    #[error("another process has been migrating for {LOCK_WAIT_SECS} s")]
    Locked,

    #[error("a migration failed")]
    Failed(#[from] sqlx::migrate::MigrateError),
}

/// Runs what is missing of `migrations/`; a second run changes nothing.
///
/// sqlx takes no effective lock on `MariaDB` (it asks for an endless `GET_LOCK`, which is refused),
/// so the lock is taken here, on the connection that migrates.
pub async fn migrate(db: &DatabaseConnection) -> Result<(), MigrateError> {
    run(&MIGRATIONS, db).await
}

/// The same for the admin database and `migrations/admin/`.
pub async fn migrate_admin(admin: &DatabaseConnection) -> Result<(), MigrateError> {
    run(&ADMIN_MIGRATIONS, admin).await
}

async fn run(migrations: &Migrator, db: &DatabaseConnection) -> Result<(), MigrateError> {
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
    let outcome = migrations.run_direct(None, &mut connection, false).await;
    // Closing the connection gives the lock back, whatever the outcome.
    connection.close().await.map_err(MigrateError::Connection)?;
    Ok(outcome?)
}
