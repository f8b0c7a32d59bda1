//! Copies one activity, or one win record, as `MySQL` has it now.

use std::{collections::HashSet, time::Duration};

use futures_util::future::BoxFuture;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, TransactionTrait};
use tokio::sync::OnceCell;

use super::store::{self, Kept};
use crate::{
    activity::{self, ActivityDetail},
    infra::{
        mysql::{self, migrate_admin},
        outbox::{CopyOut, ProjectError},
    },
    kernel::{ActivityId, WinRecordId},
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
    is_prepared: OnceCell<()>,
}

impl AdminCopier {
    /// Connects on first use, and makes the tables before the first copy if it may.
    pub fn new(
        db: DatabaseConnection,
        admin: DatabaseConnection,
        settings: AdminDatabaseSettings,
    ) -> Self {
        Self {
            db,
            admin,
            settings,
            is_prepared: OnceCell::new(),
        }
    }

    async fn prepare(&self) -> Result<(), ProjectError> {
        if self.settings.migrate {
            let migrate = || migrate_admin(&self.admin);
            self.is_prepared.get_or_try_init(migrate).await?;
        }
        let ping = tokio::time::timeout(PATIENCE, mysql::ping(&self.admin)).await;
        Ok(ping.map_err(|_| "the admin database does not answer in time")??)
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
        Box::pin(self.copy_activity(id))
    }

    fn copy_win(
        &self,
        id: ActivityId,
        win: WinRecordId,
    ) -> BoxFuture<'_, Result<(), ProjectError>> {
        Box::pin(self.copy_win(id, win))
    }
}
