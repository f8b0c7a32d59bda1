//! Owes a copy of everything that there is, for an admin database that was added later or lost rows.

use sea_orm::{DatabaseConnection, DbErr, TransactionTrait};

use crate::{
    activity,
    infra::{
        mysql::within_limit,
        outbox::{Entry, Outbox},
    },
    kernel::ActivityId,
};

/// Activities of one transaction.
const PAGE: u64 = 500;

/// Queues every activity for the running processes to copy, and tells how many. Safe to repeat.
pub async fn queue_all(db: &DatabaseConnection, outbox: &Outbox) -> Result<u64, DbErr> {
    let mut queued = 0;
    let mut after = ActivityId(0);
    loop {
        let versions = within_limit(activity::list_versions(db, after, PAGE)).await?;
        let Some((last, _)) = versions.last() else {
            return Ok(queued);
        };
        after = *last;
        let copies = versions
            .iter()
            .map(|(activity_id, version)| Entry::CopyActivity {
                activity_id: *activity_id,
                version: *version,
            });
        let copies: Vec<Entry> = copies.collect();
        within_limit(queue(db, outbox, &copies)).await?;
        queued += u64::try_from(copies.len()).unwrap_or(u64::MAX);
    }
}

async fn queue(db: &DatabaseConnection, outbox: &Outbox, copies: &[Entry]) -> Result<(), DbErr> {
    let tx = db.begin().await?;
    outbox.append(&tx, copies).await?;
    tx.commit().await
}
