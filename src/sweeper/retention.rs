//! Removes what is past its life, in small transactions, so that it holds nobody up and goes on
//! where it stopped.

use sea_orm::{DatabaseConnection, DatabaseTransaction, DbErr, TransactionTrait};

use crate::{
    activity::{
        audit,
        removal::{self, Removal},
    },
    candidate,
    infra::{mysql::within_limit, outbox::Outbox},
    kernel::step,
    settings::RetentionSettings,
    telemetry::metrics,
    winners,
};

/// Rows that one transaction removes at most.
const ROWS: u64 = 1_000;

/// Transactions of one sweep at most.
const STEPS: usize = 20;

/// What a sweep does, in this order. What it begins is removed by later sweeps, of whatever process.
#[derive(Clone, Copy)]
enum Work {
    GoOn,
    Begin,
    Audit,
}

impl Work {
    const fn next(self) -> Option<Self> {
        match self {
            Self::GoOn => Some(Self::Begin),
            Self::Begin => Some(Self::Audit),
            Self::Audit => None,
        }
    }
}

/// Removes what is past its life. Cheap to clone.
#[derive(Clone)]
pub struct Retention {
    pub db: DatabaseConnection,
    pub outbox: Outbox,
    pub settings: RetentionSettings,
}

/// What one transaction came to.
enum Progress {
    Removed(&'static str, u64),
    /// A removal has begun or is over.
    Moved,
    NothingDue,
}

impl Retention {
    /// Removes up to 20,000 rows; answers how many.
    pub async fn remove_expired(&self) -> Result<usize, DbErr> {
        let mut removed = 0;
        let mut work = Work::GoOn;
        for _ in 0..STEPS {
            match within_limit(self.step(work)).await? {
                Progress::Removed(table, rows) => {
                    metrics::rows_expired(table, rows);
                    removed += usize::try_from(rows).unwrap_or(usize::MAX);
                }
                Progress::Moved => (),
                Progress::NothingDue => match work.next() {
                    Some(next) => work = next,
                    None => break,
                },
            }
        }
        Ok(removed)
    }

    async fn step(&self, work: Work) -> Result<Progress, DbErr> {
        let tx = self.db.begin().await?;
        let progress = match work {
            Work::GoOn => self.go_on(&tx).await?,
            Work::Begin => self.begin(&tx).await?,
            Work::Audit => self.remove_audit(&tx).await?,
        };
        tx.commit().await?;
        if !matches!(progress, Progress::NothingDue) {
            step("retention.committed");
        }
        if let Progress::Moved = progress {
            self.outbox.wake();
        }
        Ok(progress)
    }

    /// Goes on with a removal that has begun.
    async fn go_on(&self, tx: &DatabaseTransaction) -> Result<Progress, DbErr> {
        let Some((id, what)) = removal::find_begun_for_update(tx).await? else {
            return Ok(Progress::NothingDue);
        };
        let removed = match what {
            Removal::Participants => match candidate::forget_participants(tx, id, ROWS).await? {
                None => winners::progress::forget(tx, id).await?,
                removed => removed,
            },
            Removal::WinRecords => winners::forget(tx, id, ROWS).await?,
        };
        if let Some((table, rows)) = removed {
            return Ok(Progress::Removed(table, rows));
        }
        removal::finish(tx, id, what).await?;
        tracing::info!(activity.id = %id, removal = ?what, "removed what was past its life");
        Ok(Progress::Moved)
    }

    async fn begin(&self, tx: &DatabaseTransaction) -> Result<Progress, DbErr> {
        let lives = [
            (Removal::Participants, self.settings.participations_days),
            (Removal::WinRecords, self.settings.win_records_days),
        ];
        for (what, days) in lives.into_iter().filter(|(_, days)| *days > 0) {
            if let Some(owed) = removal::begin(tx, what, days).await? {
                self.outbox.append(tx, &[owed]).await?;
                return Ok(Progress::Moved);
            }
        }
        Ok(Progress::NothingDue)
    }

    async fn remove_audit(&self, tx: &DatabaseTransaction) -> Result<Progress, DbErr> {
        let days = self.settings.audit_days;
        if days == 0 {
            return Ok(Progress::NothingDue);
        }
        match audit::forget(tx, days, ROWS).await? {
            0 => Ok(Progress::NothingDue),
            rows => Ok(Progress::Removed("audit", rows)),
        }
    }
}
