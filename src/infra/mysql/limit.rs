//! A bound on work in `MySQL`, for a server that has gone without a word.

use std::time::Duration;

use sea_orm::DbErr;

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
        Err(_) => Err(E::from(DbErr::ConnectionAcquire(
            sea_orm::ConnAcquireErr::Timeout,
        ))),
    }
}
