//! Works off what is owed to the admin database, by itself: while that server is away nothing else
//! waits.

use std::{error::Error, sync::Arc, time::Duration};

use futures_util::{StreamExt, future::BoxFuture, stream};
use sea_orm::{DatabaseConnection, DbErr};
use tokio_util::sync::CancellationToken;

use super::{
    Outbox, ProjectError,
    claims::{Claims, Outcome, Worked},
    entry::{Kind, StoredEntry},
    store::ClaimedRow,
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
    claims: Claims,
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
    const IDLE_PAUSE: Duration = Duration::from_secs(1);
    const FIRST_PAUSE: Duration = Duration::from_millis(500);
    const LONGEST_PAUSE: Duration = Duration::from_secs(15);

    pub fn new(db: DatabaseConnection, outbox: Outbox, target: Arc<dyn CopyOut>) -> Self {
        let claims = Claims {
            db,
            kind: Kind::AdminCopy,
            batch: Self::BATCH,
            first_pause: Self::FIRST_PAUSE,
            longest_pause: Self::LONGEST_PAUSE,
        };
        Self {
            claims,
            outbox,
            target,
        }
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
            self.outbox.filled(Kind::AdminCopy).await;
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
        let rows = self.claims.claim().await?;
        let outcomes: Vec<Outcome> = stream::iter(rows)
            .map(|row| self.copy(row))
            .buffer_unordered(Self::AT_ONCE)
            .collect()
            .await;
        Ok(self.claims.settle(&outcomes).await?)
    }

    /// How long the oldest copy has been waiting.
    pub async fn age(&self) -> Result<Duration, DbErr> {
        self.claims.age().await
    }

    async fn copy(&self, row: ClaimedRow) -> Outcome {
        let result = match row.entry() {
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
        Outcome { row, result }
    }
}

/// The admin database in the log and the metrics.
const NAME: &str = "admin_database";

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
