//! Bounds on work in `MySQL`: for a server that has gone without a word, and for crowds of readers.

use std::time::Duration;

use sea_orm::{ConnAcquireErr, DbErr};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::telemetry::state::WaitingForTurn;

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

/// How long a caller waits for its turn, a reader for its answer, and a change for its end: longer
/// than one wait for a lock, which ends after 5 s.
const TURN: Duration = Duration::from_secs(2);
const READ_LIMIT: Duration = Duration::from_secs(5);
const CHANGE_LIMIT: Duration = Duration::from_secs(12);

/// Reads on behalf of a caller, in turn: `turns` keep a crowd of callers from taking all
/// connections, which admission and draws need too.
///
/// # Errors
///
/// [`DbErr::ConnectionAcquire`] when the turn does not come within 2 s or the answer within 5 s.
pub async fn read_in_turn<T>(
    turns: &Semaphore,
    read: impl Future<Output = Result<T, DbErr>>,
) -> Result<T, DbErr> {
    let _turn = read_turn(turns).await?;
    answer(read).await
}

/// A turn for a caller that has to read many times, each time with [`answer`].
///
/// # Errors
///
/// [`DbErr::ConnectionAcquire`] when it does not come within 2 s.
pub async fn read_turn(turns: &Semaphore) -> Result<SemaphorePermit<'_>, DbErr> {
    wait_for_turn(turns).await.ok_or_else(timed_out)
}

async fn wait_for_turn(turns: &Semaphore) -> Option<SemaphorePermit<'_>> {
    if let Ok(turn) = turns.try_acquire() {
        return Some(turn);
    }
    let _waiting = WaitingForTurn::begin();
    // Acquiring fails only when the semaphore is closed, which it never is.
    let turn = tokio::time::timeout(TURN, turns.acquire()).await;
    let turn = turn.ok().and_then(Result::ok);
    if turn.is_none() {
        WaitingForTurn::refused();
    }
    turn
}

/// Reads on behalf of a caller whose turn it is.
///
/// # Errors
///
/// [`DbErr::ConnectionAcquire`] when the answer does not come within 5 s.
pub async fn answer<T>(read: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
    let read = tokio::time::timeout(READ_LIMIT, read).await;
    read.unwrap_or_else(|_| Err(timed_out()))
}

const fn timed_out() -> DbErr {
    DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)
}

/// Why a change on behalf of a caller has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOutcome {
    #[error("too many calls wait for MySQL; nothing was changed")]
    NoTurn,

    #[error("MySQL does not answer; whether anything was changed is not known")]
    NoAnswer,
}

/// Changes something on behalf of a caller, in turn with the readers of [`read_in_turn`]. The change
/// must not wait for a turn itself.
pub async fn change_in_turn<T>(
    turns: &Semaphore,
    change: impl Future<Output = T>,
) -> Result<T, NoOutcome> {
    let _permit = wait_for_turn(turns).await.ok_or(NoOutcome::NoTurn)?;
    tokio::time::timeout(CHANGE_LIMIT, change)
        .await
        .map_err(|_| NoOutcome::NoAnswer)
}
