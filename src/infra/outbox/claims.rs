//! The rows of one kind: claimed for a while, deleted when they are done, put back when they failed.

use std::{error::Error, time::Duration};

use sea_orm::{DatabaseConnection, DbErr, TransactionTrait};

use super::{
    ProjectError,
    entry::Kind,
    store::{self, ClaimedRow},
};
use crate::{infra::mysql::within_limit, telemetry::metrics};

/// A claimed row, and what became of it.
pub(super) struct Outcome {
    pub(super) row: ClaimedRow,
    pub(super) result: Result<(), ProjectError>,
}

/// What a batch came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Worked {
    pub(super) done: usize,
    pub(super) failed: usize,
}

/// Claims rows of a kind in batches; replicas share the kind by claiming.
pub(super) struct Claims {
    pub(super) db: DatabaseConnection,
    pub(super) kind: Kind,
    /// Most rows of one claim.
    pub(super) batch: u32,
    /// How long a row rests after its first failure; twice as long after each further one.
    pub(super) first_pause: Duration,
    pub(super) longest_pause: Duration,
}

impl Claims {
    /// How long a claim lasts: longer than a batch takes while the servers answer.
    const CLAIM: Duration = Duration::from_mins(1);

    /// The oldest due rows, which nobody else works on for a minute.
    pub(super) async fn claim(&self) -> Result<Vec<ClaimedRow>, DbErr> {
        within_limit(async {
            let tx = self.db.begin().await?;
            let due = store::list_due_for_update(&tx, self.kind, self.batch, Self::CLAIM);
            let rows = due.await?;
            if !rows.is_empty() {
                store::claim(&tx, &rows).await?;
            }
            tx.commit().await?;
            Ok(rows)
        })
        .await
    }

    /// Deletes what is done, and puts back what failed, with a warning each.
    pub(super) async fn settle(&self, outcomes: &[Outcome]) -> Result<Worked, DbErr> {
        let is_done = |outcome: &&Outcome| outcome.result.is_ok();
        let done: Vec<&ClaimedRow> = outcomes.iter().filter(is_done).map(|o| &o.row).collect();
        if !done.is_empty() {
            within_limit(store::delete(&self.db, &done)).await?;
            metrics::outbox_done(self.kind.as_str(), done.len() as u64);
        }
        for outcome in outcomes {
            if let Err(error) = &outcome.result {
                self.warn(&outcome.row, error.as_ref());
                self.put_back(&outcome.row).await?;
            }
        }
        Ok(Worked {
            done: done.len(),
            failed: outcomes.len() - done.len(),
        })
    }

    /// How long the oldest row has been waiting.
    pub(super) async fn age(&self) -> Result<Duration, DbErr> {
        let age_ms = within_limit(store::age_ms(&self.db, self.kind)).await?;
        Ok(Duration::from_millis(age_ms))
    }

    fn warn(&self, row: &ClaimedRow, error: &(dyn Error + 'static)) {
        tracing::warn!(
            error,
            outbox.kind = self.kind.as_str(),
            outbox.id = row.id,
            outbox.attempts = row.attempts + 1,
            "outbox row failed, it is tried again"
        );
    }

    async fn put_back(&self, row: &ClaimedRow) -> Result<(), DbErr> {
        let pause = self
            .first_pause
            .saturating_mul(1 << row.attempts.min(8))
            .min(self.longest_pause);
        within_limit(store::put_back(&self.db, row, pause)).await
    }
}
