//! Bounds on work in `MySQL`: for a server that has gone without a word, and for crowds of readers.

use std::time::Duration;

use sea_orm::{ConnAcquireErr, DbErr};
use tokio::sync::Semaphore;

/// Longer than anything we ask for takes: lock waits end after 5 s, a silent transaction after 20 s.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs `work`, such as a transaction, and gives it up after 30 s: then [`DbErr::ConnectionAcquire`]
/// says that the server is away, and whether it was committed is not known.
///
/// No time-out of the driver covers an answer that never comes.
pub async fn within_limit<T, E: From<DbErr>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    match tokio::time::timeout(LIMIT, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(E::from(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout))),
    }
}

/// How long a reader waits for its turn, and for its answer.
const TURN: Duration = Duration::from_secs(2);
const READ_LIMIT: Duration = Duration::from_secs(5);

/// Reads on behalf of a user, in turn: `permits` keep a crowd of readers from taking all
/// connections, which admission and draws need too.
///
/// # Errors
///
/// [`DbErr::ConnectionAcquire`] when the turn does not come within 2 s or the answer within 5 s.
pub async fn read_in_turn<T>(
    permits: &Semaphore,
    read: impl Future<Output = Result<T, DbErr>>,
) -> Result<T, DbErr> {
    let timed_out = |_| DbErr::ConnectionAcquire(ConnAcquireErr::Timeout);
    // Acquiring fails only when the semaphore is closed, which it never is.
    let turn = tokio::time::timeout(TURN, permits.acquire());
    let _permit = turn.await.map_err(timed_out)?;
    tokio::time::timeout(READ_LIMIT, read)
        .await
        .map_err(timed_out)?
}
