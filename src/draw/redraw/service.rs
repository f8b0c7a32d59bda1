//! The use case: select without a lock, then decide in one short transaction, again if need be.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use sea_orm::{ConnAcquireErr, DbErr};
use tokio::sync::SemaphorePermit;

use super::{
    super::DrawService,
    RedrawError,
    attempt::{Attempt, Need, Outcome},
    order::RedrawOrder,
    outcome::{Redraw, Redrawn, Reserve},
};
use crate::{
    activity::Actor,
    infra::mysql::{TransactionRetry, change_in_turn},
    kernel::{self, ActivityId},
    telemetry::metrics,
};

/// How often an attempt may find that it has to look, or select, again.
const ATTEMPTS: u32 = 6;

/// How long an order waits for its turn.
const TURN: Duration = Duration::from_secs(10);

/// How long a scan of all participants may take; a million take some seconds.
const SCAN_LIMIT: Duration = Duration::from_mins(1);

/// How many more are selected than there are seats: other redraws may take the best of them.
const SPARE: usize = 1_000;

impl DrawService {
    /// Takes wins back and lets the next ones have the seats, in a round of its own; the same order
    /// again changes nothing and gets the same answer.
    ///
    /// Each of its transactions takes a turn at `MySQL` of its own; the scan takes none, which may
    /// go on for longer than others should wait.
    #[tracing::instrument(name = "draw.redraw", skip_all, fields(activity.id = %id))]
    pub(super) async fn redraw(
        &self,
        id: ActivityId,
        order: &RedrawOrder,
        actor: &Actor,
    ) -> Result<Redrawn, RedrawError> {
        let _turn = self.redraw_turn().await?;
        let may_be_made = AtomicBool::new(false);
        match self.redraw_in_turn(id, order, actor, &may_be_made).await {
            Err(error) if may_be_made.into_inner() => Err(error.in_doubt()),
            outcome => outcome,
        }
    }

    async fn redraw_in_turn(
        &self,
        id: ActivityId,
        order: &RedrawOrder,
        actor: &Actor,
        may_be_made: &AtomicBool,
    ) -> Result<Redrawn, RedrawError> {
        let mut reserve = Reserve::default();
        let mut retry = TransactionRetry::new();
        for _ in 0..ATTEMPTS {
            let attempt = Attempt {
                db: &self.drawer.db,
                outbox: &self.drawer.outbox,
                id,
                order,
                actor,
                reserve: &reserve,
                may_be_made,
            };
            match change_in_turn(&self.mysql_reads, attempt.run()).await? {
                Ok(Outcome::Committed(redrawn)) => {
                    self.made(&redrawn.redraw);
                    return Ok(redrawn);
                }
                Ok(Outcome::Repeated(redrawn)) => {
                    // An earlier attempt of this call made it, and lost the answer.
                    if may_be_made.load(Ordering::Relaxed) {
                        self.made(&redrawn.redraw);
                    }
                    return Ok(redrawn);
                }
                Ok(Outcome::NeedsReserve(need)) => reserve = self.reserve(&need).await?,
                Ok(Outcome::LookAgain) => (),
                Err(RedrawError::Database(error)) if retry.again(&error).await => {
                    metrics::db_retries();
                }
                Err(error) => return Err(error),
            }
        }
        Err(RedrawError::Busy)
    }

    /// What follows a commit.
    fn made(&self, redraw: &Redraw) {
        kernel::step("redraw.committed");
        self.drawer.outbox.wake();
        report(redraw);
    }

    async fn redraw_turn(&self) -> Result<SemaphorePermit<'_>, RedrawError> {
        let turn = tokio::time::timeout(TURN, self.redraws.acquire()).await;
        match turn {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(RedrawError::Busy),
        }
    }

    /// Selects while no lock is held: nothing about a drawn activity's participants changes.
    async fn reserve(&self, need: &Need) -> Result<Reserve, RedrawError> {
        let wanted = need.seats + SPARE;
        let count = u32::try_from(wanted).unwrap_or(u32::MAX);
        let candidates = &self.drawer.candidates;
        let scan = candidates.select_exact_without(&need.activity, count, &need.ever_won);
        let selection = tokio::time::timeout(SCAN_LIMIT, scan)
            .await
            .map_err(|_| RedrawError::Database(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)))?
            .map_err(RedrawError::Selection)?;
        Ok(Reserve {
            is_complete: selection.ranked.len() < wanted,
            ranked: selection.ranked,
        })
    }
}

fn report(redraw: &Redraw) {
    let count = |of: usize| u64::try_from(of).unwrap_or(u64::MAX);
    let filled = count(redraw.replaced.len());
    let empty = count(redraw.empty_seats.len());
    metrics::redraw_committed(filled, empty);
    tracing::info!(
        redraw.round = redraw.round,
        redraw.filled_count = filled,
        redraw.empty_count = empty,
        "activity redrawn"
    );
}
