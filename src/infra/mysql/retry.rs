//! Which database errors are worth another try, and how long to wait before it.

use std::time::Duration;

use rand::RngExt;
use sea_orm::{DbErr, RuntimeErr};
use sqlx::mysql::MySqlDatabaseError;

const DUPLICATE_KEY: u16 = 1062;
const LOCK_WAIT_TIMEOUT: u16 = 1205;
const DEADLOCK: u16 = 1213;

/// Refusals of a value: null, a duplicate key that stays, not of its column's type, out of range,
/// too long, no such parent row, against a check (`MySQL`, `MariaDB`).
const BAD_DATA: [u16; 11] = [
    1048,
    DUPLICATE_KEY,
    1264,
    1265,
    1292,
    1366,
    1406,
    1452,
    1690,
    3819,
    4025,
];

/// Runs a transaction again after a deadlock, a lock time-out or a duplicate key.
///
/// The caller drops its transaction, asks [`TransactionRetry::again`], and starts over from its
/// first read: what it decided on may have changed.
#[derive(Debug)]
pub struct TransactionRetry {
    attempts_left: u32,
    pause: Duration,
}

impl TransactionRetry {
    const ATTEMPTS: u32 = 8;
    const FIRST_PAUSE: Duration = Duration::from_millis(5);
    const LONGEST_PAUSE: Duration = Duration::from_millis(200);

    pub fn new() -> Self {
        Self {
            attempts_left: Self::ATTEMPTS,
            pause: Self::FIRST_PAUSE,
        }
    }

    /// Waits a little and answers `true` when the transaction should run again.
    pub async fn again(&mut self, error: &DbErr) -> bool {
        let conflicts = matches!(
            server_error_number(error),
            Some(DUPLICATE_KEY | LOCK_WAIT_TIMEOUT | DEADLOCK)
        );
        if !conflicts || self.attempts_left == 0 {
            return false;
        }
        self.attempts_left -= 1;
        let jittered = self.pause.mul_f64(rand::rng().random_range(0.5..1.5));
        tokio::time::sleep(jittered).await;
        self.pause = (self.pause * 2).min(Self::LONGEST_PAUSE);
        true
    }
}

impl Default for TransactionRetry {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a row with the key of an insert is there, or is being written by somebody who takes long.
pub fn is_key_contended(error: &DbErr) -> bool {
    matches!(
        server_error_number(error),
        Some(DUPLICATE_KEY | LOCK_WAIT_TIMEOUT)
    )
}

/// Whether a table is not there, or the whole database: 1046 is what a connection hears after its
/// database was dropped, also when there is a new one.
pub fn is_table_missing(error: &DbErr) -> bool {
    matches!(server_error_number(error), Some(1046 | 1049 | 1146))
}

/// Whether the server cannot be reached or asks for patience, so that the same work may succeed
/// later; `false` means that the statement itself was refused.
pub fn is_unavailable(error: &DbErr) -> bool {
    // 1021 disk full, 1040 too many connections, 1041 out of memory, 1053 shutdown, 1290 and 1836
    // read only (a failover), 1317 interrupted, 1927 connection killed.
    if let Some(number) = server_error_number(error) {
        return matches!(
            number,
            LOCK_WAIT_TIMEOUT | DEADLOCK | 1021 | 1040 | 1041 | 1053 | 1290 | 1317 | 1836 | 1927
        );
    }
    matches!(error, DbErr::ConnectionAcquire(_) | DbErr::Conn(_))
        || sqlx_error(error).is_some_and(|source| {
            matches!(
                source,
                sqlx::Error::Io(_)
                    | sqlx::Error::Tls(_)
                    | sqlx::Error::Protocol(_)
                    | sqlx::Error::PoolTimedOut
                    | sqlx::Error::PoolClosed
                    | sqlx::Error::WorkerCrashed
            )
        })
}

/// Whether the statement was refused for the values in it, or a stored row cannot be read: the same
/// work fails again, however healthy the server is.
///
/// Everything else may pass: a full table, a missing grant, a server that moves or is set up wrongly.
pub fn is_bad_data(error: &DbErr) -> bool {
    if matches!(
        error,
        DbErr::Type(_) | DbErr::Json(_) | DbErr::TryIntoErr { .. }
    ) {
        return true;
    }
    let is_refused = server_error_number(error).is_some_and(|number| BAD_DATA.contains(&number));
    let is_unreadable = sqlx_error(error).is_some_and(|source| {
        matches!(
            source,
            sqlx::Error::Encode(_) | sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. }
        )
    });
    is_refused || is_unreadable
}

fn sqlx_error(error: &DbErr) -> Option<&sqlx::Error> {
    if let DbErr::Exec(RuntimeErr::SqlxError(source))
    | DbErr::Query(RuntimeErr::SqlxError(source))
    | DbErr::Conn(RuntimeErr::SqlxError(source)) = error
    {
        Some(source)
    } else {
        None
    }
}

fn server_error_number(error: &DbErr) -> Option<u16> {
    let database = sqlx_error(error)?.as_database_error()?;
    database
        .try_downcast_ref::<MySqlDatabaseError>()
        .map(MySqlDatabaseError::number)
}
