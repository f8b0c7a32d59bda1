//! Copies one activity, or one win record, as `MySQL` has it now.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::BoxFuture;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, TransactionTrait};
use tokio::{sync::Mutex, task::JoinHandle};

use super::store::{self, Kept};
use crate::{
    activity::{self, ActivityDetail},
    infra::{
        mysql::{self, MigrateError, is_table_missing, migrate_admin},
        outbox::{CopyOut, ProjectError},
    },
    kernel::{ActivityId, Supervisor, WinRecordId},
    settings::AdminDatabaseSettings,
    winners::{self, WinHistory},
};

/// How long the admin database may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// Win records that are read at once.
const PAGE: u32 = 1_000;

/// Copies to the admin database.
pub struct AdminCopier {
    db: DatabaseConnection,
    admin: DatabaseConnection,
    settings: AdminDatabaseSettings,
    is_prepared: AtomicBool,
    /// What is under way of making the tables; it goes on when nobody waits for it any more.
    migration: Mutex<Option<JoinHandle<Result<(), MigrateError>>>>,
    tasks: Supervisor,
}

impl AdminCopier {
    /// Connects on first use, and makes the tables before the first copy if it may: as one of `tasks`,
    /// so that their stop waits for it.
    pub fn new(
        db: DatabaseConnection,
        admin: DatabaseConnection,
        settings: AdminDatabaseSettings,
        tasks: Supervisor,
    ) -> Self {
        Self {
            db,
            admin,
            settings,
            is_prepared: AtomicBool::new(false),
            migration: Mutex::new(None),
            tasks,
        }
    }

    async fn prepare(&self) -> Result<(), ProjectError> {
        let ping = tokio::time::timeout(PATIENCE, mysql::ping(&self.admin)).await;
        ping.map_err(|_| "the admin database does not answer in time")??;
        if self.settings.migrate && !self.is_prepared.load(Ordering::Relaxed) {
            self.migrate().await?;
            self.is_prepared.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A migration that is cut off in its middle leaves a schema that only people can mend. So dropping
    /// this drops the waiting alone.
    async fn migrate(&self) -> Result<(), ProjectError> {
        let mut migration = self.migration.lock().await;
        let running = migration.get_or_insert_with(|| {
            let (admin, stop) = (self.admin.clone(), self.tasks.stop_token());
            self.tasks
                .spawn_once(async move { migrate_admin(&admin, &stop).await })
        });
        let outcome = running.await;
        *migration = None;
        Ok(outcome??)
    }

    /// Makes the tables again before the next copy when somebody has removed them.
    fn note<T>(&self, copied: Result<T, ProjectError>) -> Result<T, ProjectError> {
        let fault = copied.as_ref().err();
        if fault
            .and_then(|fault| fault.downcast_ref::<DbErr>())
            .is_some_and(is_table_missing)
        {
            self.is_prepared.store(false, Ordering::Relaxed);
        }
        copied
    }

    async fn copy_activity(&self, id: ActivityId) -> Result<(), ProjectError> {
        let tx = self.admin.begin().await?;
        let mut copied = None;
        // Again when it was changed meanwhile, so that its win records are those of its version.
        while let Some(detail) = self.find(id).await? {
            if copied == Some(detail.version) {
                break;
            }
            // From here on other copies of this activity wait, and what they read is newer.
            if store::upsert_activity(&tx, &detail).await? == Kept::Newer {
                return Ok(tx.rollback().await?);
            }
            self.copy_wins(&tx, &detail).await?;
            copied = Some(detail.version);
        }
        Ok(tx.commit().await?)
    }

    /// What is past its life is gone from here at once, while its rows are removed in small steps.
    async fn copy_wins(
        &self,
        tx: &impl ConnectionTrait,
        detail: &ActivityDetail,
    ) -> Result<(), DbErr> {
        let mut missing: HashSet<u64> = store::list_win_ids(tx, detail.id).await?;
        let mut after = (0, 0);
        while detail.wins_removed_at.is_none() {
            let wins = winners::list_histories(&self.db, detail.id, after, PAGE).await?;
            let Some(last) = wins.last() else { break };
            after = (last.seat, last.round);
            for win in &wins {
                missing.remove(&win.id.0);
            }
            store::upsert_wins(tx, detail.id, &wins).await?;
        }
        store::delete_wins(tx, missing.into_iter().collect()).await
    }

    async fn copy_win(&self, id: ActivityId, win: WinRecordId) -> Result<(), ProjectError> {
        let tx = self.admin.begin().await?;
        if !store::lock_activity(&tx, id).await? {
            tx.rollback().await?;
            return self.copy_activity(id).await;
        }
        let is_kept = |detail: ActivityDetail| detail.wins_removed_at.is_none();
        if self.find(id).await?.is_some_and(is_kept) {
            let found = winners::find_history(&self.db, id, win).await?;
            let found: Vec<WinHistory> = found.into_iter().collect();
            store::upsert_wins(&tx, id, &found).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn find(&self, id: ActivityId) -> Result<Option<ActivityDetail>, DbErr> {
        Ok(activity::find(&self.db, id)
            .await?
            .map(ActivityDetail::from))
    }
}

impl CopyOut for AdminCopier {
    fn prepare(&self) -> BoxFuture<'_, Result<(), ProjectError>> {
        Box::pin(self.prepare())
    }

    fn copy_activity(&self, id: ActivityId) -> BoxFuture<'_, Result<(), ProjectError>> {
        Box::pin(async move { self.note(self.copy_activity(id).await) })
    }

    fn copy_win(
        &self,
        id: ActivityId,
        win: WinRecordId,
    ) -> BoxFuture<'_, Result<(), ProjectError>> {
        Box::pin(async move { self.note(self.copy_win(id, win).await) })
    }
}
