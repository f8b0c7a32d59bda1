//! Works off what is owed to the admin database, by itself: while that server is away nothing else
//! waits.

use std::{error::Error, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream};
use sea_orm::{DatabaseConnection, DbErr, TransactionTrait};
use tokio_util::sync::CancellationToken;

use super::{
    Outbox, ProjectError,
    entry::{Kind, StoredEntry},
    store::{self, ClaimedRow},
};
use crate::{
    infra::mysql::within_limit,
    kernel::{ActivityId, WinRecordId},
    telemetry::metrics,
};

/// Copies what changed to the admin database. Safe to repeat, and to run in any order: a copy never
/// goes back to an older version.
pub trait CopyOut: Send + Sync {
    /// Makes sure that copies can be taken; fails while the admin database is away.
    fn prepare(&self) -> BoxFuture<'_, Result<(), ProjectError>>;

    /// Copies an activity with its win records.
    fn copy_activity(&self, id: ActivityId) -> BoxFuture<'_, Result<(), ProjectError>>;

    /// Copies one win record of it.
    fn copy_win(&self, id: ActivityId, win: WinRecordId)
    -> BoxFuture<'_, Result<(), ProjectError>>;
}

/// Works off the due copies; replicas share them by claiming.
pub struct CopyRelay {
    db: DatabaseConnection,
    outbox: Outbox,
    target: Arc<dyn CopyOut>,
}

/// Why nothing is copied now.
#[derive(Debug, thiserror::Error)]
enum CopyFault {
    #[error("the admin database does not answer or cannot be used; copies wait")]
    Away(#[source] ProjectError),

    #[error("cannot claim copies in MySQL")]
    Claim(#[from] DbErr),
}

impl CopyRelay {
    /// Few, so that a claim of a minute is longer than what it covers.
    const BATCH: u32 = 4;
    const AT_ONCE: usize = 2;
    const CLAIM: Duration = Duration::from_mins(1);
    const IDLE_PAUSE: Duration = Duration::from_secs(1);
    const FIRST_PAUSE: Duration = Duration::from_millis(500);
    const LONGEST_PAUSE: Duration = Duration::from_secs(15);

    pub fn new(db: DatabaseConnection, outbox: Outbox, target: Arc<dyn CopyOut>) -> Self {
        Self { db, outbox, target }
    }

    /// Works until `stop`, and ends then at once: what is claimed is taken up by others, a minute later
    /// at most.
    pub async fn run(&self, stop: CancellationToken) {
        let mut failures = 0;
        while let Some(outcome) = stop.run_until_cancelled(self.tick()).await {
            let pause = match &outcome {
                Ok(Worked { failed: 0, done }) => {
                    tell_that_it_works(&mut failures);
                    if *done > 0 {
                        Duration::ZERO
                    } else {
                        Self::IDLE_PAUSE
                    }
                }
                Ok(_) => pause_after(&mut failures),
                Err(error) => {
                    if failures == 0 {
                        tracing::warn!(error = error as &dyn Error, "nothing is copied");
                    }
                    if let CopyFault::Away(_) = error {
                        metrics::dependency_down(NAME);
                    }
                    pause_after(&mut failures)
                }
            };
            self.pause(pause, failures, &stop).await;
        }
    }

    /// A wake ends an idle pause, but not one after a failure.
    async fn pause(&self, pause: Duration, failures: u32, stop: &CancellationToken) {
        let woken = async {
            if failures > 0 {
                std::future::pending::<()>().await;
            }
            self.outbox.filled_with_copies().await;
        };
        tokio::select! {
            () = stop.cancelled() => (),
            () = tokio::time::sleep(pause) => (),
            () = woken => (),
        }
    }

    /// Works off a few due copies, if the admin database is there.
    async fn tick(&self) -> Result<Worked, CopyFault> {
        let prepared = within_limit(self.target.prepare()).await;
        prepared.map_err(CopyFault::Away)?;
        let rows = within_limit(self.claim()).await?;
        let outcomes: Vec<_> = stream::iter(rows)
            .map(|row| self.copy(row))
            .buffer_unordered(Self::AT_ONCE)
            .collect()
            .await;
        let mut worked = Worked::default();
        for (row, outcome) in outcomes {
            match outcome {
                Ok(()) => {
                    within_limit(store::delete(&self.db, &[row.id])).await?;
                    worked.done += 1;
                    metrics::outbox_done(Kind::AdminCopy.as_str(), 1);
                }
                Err(error) => {
                    Self::warn(&row, error.as_ref());
                    self.put_back(&row).await?;
                    worked.failed += 1;
                }
            }
        }
        Ok(worked)
    }

    /// How long the oldest copy has been waiting.
    pub async fn age(&self) -> Result<Duration, DbErr> {
        let age_ms = store::age_ms(&self.db, &[Kind::AdminCopy]).await?;
        Ok(Duration::from_millis(age_ms))
    }

    async fn claim(&self) -> Result<Vec<ClaimedRow>, DbErr> {
        let tx = self.db.begin().await?;
        let rows = store::list_due_for_update(&tx, Kind::AdminCopy, Self::BATCH).await?;
        if !rows.is_empty() {
            let ids: Vec<u64> = rows.iter().map(|row| row.id).collect();
            store::postpone(&tx, &ids, Self::CLAIM).await?;
        }
        tx.commit().await?;
        Ok(rows)
    }

    async fn copy(&self, row: ClaimedRow) -> (ClaimedRow, Result<(), ProjectError>) {
        let outcome = match row.entry() {
            Ok(StoredEntry::AdminCopy {
                activity_id,
                win_record_id: None,
            }) => within_limit(self.target.copy_activity(activity_id)).await,
            Ok(StoredEntry::AdminCopy {
                activity_id,
                win_record_id: Some(win),
            }) => within_limit(self.target.copy_win(activity_id, win)).await,
            Ok(
                StoredEntry::Publish { .. } | StoredEntry::Draw(_) | StoredEntry::Project { .. },
            ) => Err("this is no copy".into()),
            Err(error) => Err(error.into()),
        };
        (row, outcome)
    }

    fn warn(row: &ClaimedRow, error: &(dyn Error + 'static)) {
        tracing::warn!(
            error,
            outbox.id = row.id,
            outbox.attempts = row.attempts + 1,
            "a copy for the admin database failed, it is tried again"
        );
    }

    async fn put_back(&self, row: &ClaimedRow) -> Result<(), DbErr> {
        let pause = Self::FIRST_PAUSE
            .saturating_mul(1 << row.attempts.min(8))
            .min(Self::LONGEST_PAUSE);
        within_limit(store::postpone(&self.db, &[row.id], pause)).await
    }
}

/// The admin database in the log and the metrics.
const NAME: &str = "admin_database";

/// What a tick came to.
#[derive(Clone, Copy, Debug, Default)]
struct Worked {
    done: u64,
    failed: u64,
}

fn tell_that_it_works(failures: &mut u32) {
    if std::mem::take(failures) > 0 {
        tracing::info!(dependency = NAME, "copies are made again");
    }
    metrics::dependency_up(NAME);
}

fn pause_after(failures: &mut u32) -> Duration {
    let pause = CopyRelay::FIRST_PAUSE.saturating_mul(1 << (*failures).min(8));
    *failures = failures.saturating_add(1);
    pause.min(CopyRelay::LONGEST_PAUSE)
}
