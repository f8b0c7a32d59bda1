//! The one connection pool of the process.

use std::{str::FromStr, time::Duration};

use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, SqlxMySqlConnector};
use sqlx::{
    ConnectOptions, Executor,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
};

use super::sql;

/// How to reach `MySQL`.
#[derive(Clone, Debug)]
pub struct MySqlOptions<'a> {
    /// `mysql://user:password@host:port/database`.
    pub url: &'a str,
    pub max_connections: u32,
    /// How long a caller waits for a free connection before it gets an error.
    pub acquire_timeout: Duration,
}

// A process that falls silent inside a transaction is disconnected and rolled back after
// wait_timeout, so it cannot hold a row for hours; the pool drops idle connections before that.
// A statement that waits for a table, such as behind a change of the schema, ends before its reader gives
// it up: a reader's turn may be somebody else's only when its connection is free.
const SESSION: &str = "SET SESSION wait_timeout = 20, innodb_lock_wait_timeout = 5, lock_wait_timeout = 3, \
     sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,PIPES_AS_CONCAT,NO_ENGINE_SUBSTITUTION'";
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// A pool that connects on first use, so that the process may start before the server does.
pub fn connect_lazy(options: &MySqlOptions<'_>) -> Result<DatabaseConnection, DbErr> {
    let connect = MySqlConnectOptions::from_str(options.url)
        .map_err(|error| DbErr::Conn(sea_orm::RuntimeErr::SqlxError(error.into())))?
        .disable_statement_logging();
    let pool = MySqlPoolOptions::new()
        .max_connections(options.max_connections)
        .acquire_timeout(options.acquire_timeout)
        .idle_timeout(IDLE_TIMEOUT)
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute(SESSION).await?;
                connection.execute(ISOLATION).await?;
                Ok(())
            })
        })
        .connect_lazy_with(connect);
    Ok(SqlxMySqlConnector::from_sqlx_mysql_pool(pool))
}

/// Asks the server for a sign of life.
pub async fn ping(db: &DatabaseConnection) -> Result<(), DbErr> {
    db.execute_raw(sql("SELECT 1", [])).await.map(|_| ())
}

/// Whether the server is part of a Galera cluster, which can lose committed transactions when more
/// than one of its nodes is written to.
pub async fn is_galera(db: &DatabaseConnection) -> Result<bool, DbErr> {
    let row = db
        .query_one_raw(sql("SHOW GLOBAL VARIABLES LIKE 'wsrep_on'", []))
        .await?;
    let value: Option<String> = row.map(|row| row.try_get_by_index(1)).transpose()?;
    Ok(value.is_some_and(|value| value.eq_ignore_ascii_case("ON")))
}

/// How many connections are used, and how many are idle.
pub fn connection_counts(db: &DatabaseConnection) -> (u64, u64) {
    let pool = db.get_mysql_connection_pool();
    let idle = pool.num_idle() as u64;
    (u64::from(pool.size()).saturating_sub(idle), idle)
}
