//! Keeping the prize library.

use sea_orm::DatabaseTransaction;
use serde_json::json;

use super::{
    ActivityError, ActivityService, Actor, AuditEntry, LibraryPrize, audit,
    error::db_error,
    form::LibraryPrizeForm,
    library::{self, Ownership, PrizeDraft},
    service::retrying,
};
use crate::{
    infra::idempotency,
    kernel::{PrizeId, random_id},
};

impl ActivityService {
    /// The library, newest first, older than `before`.
    pub async fn list_prizes(
        &self,
        before: Option<PrizeId>,
        limit: u64,
    ) -> Result<Vec<LibraryPrize>, ActivityError> {
        self.in_turn(library::list(&self.inner.db, before, limit))
            .await
            .map_err(db_error("list prizes"))
    }

    /// Adds a prize to the library.
    pub async fn create_prize(
        &self,
        form: &LibraryPrizeForm,
        actor: &Actor,
    ) -> Result<LibraryPrize, ActivityError> {
        let draft = library::validate(form, None).map_err(ActivityError::Invalid)?;
        retrying(|| self.try_create_prize(&draft, actor)).await
    }

    async fn try_create_prize(
        &self,
        draft: &PrizeDraft,
        actor: &Actor,
    ) -> Result<LibraryPrize, ActivityError> {
        let id = PrizeId(random_id(self.now().await?));
        let tx = self.begin().await?;
        let inserted = library::insert(&tx, id, draft, Ownership::Library).await;
        inserted.map_err(db_error("add a prize"))?;
        commit_prize(tx, id, actor, "prize.create").await
    }

    /// Changes a prize of the library; activities that exist keep what they promised.
    ///
    /// # Errors
    ///
    /// [`ActivityError::PrizeNotFound`], or [`ActivityError::Invalid`], also when the stock would
    /// become less than what is reserved and won.
    pub async fn update_prize(
        &self,
        id: PrizeId,
        form: &LibraryPrizeForm,
        actor: &Actor,
    ) -> Result<LibraryPrize, ActivityError> {
        retrying(|| self.try_update_prize(id, form, actor)).await
    }

    async fn try_update_prize(
        &self,
        id: PrizeId,
        form: &LibraryPrizeForm,
        actor: &Actor,
    ) -> Result<LibraryPrize, ActivityError> {
        let tx = self.begin().await?;
        let prize = lock_prize(&tx, id).await?;
        let draft = library::validate(form, Some(&prize)).map_err(ActivityError::Invalid)?;
        let updated = library::update(&tx, id, &draft).await;
        updated.map_err(db_error("change a prize"))?;
        commit_prize(tx, id, actor, "prize.update").await
    }
}

async fn lock_prize(tx: &DatabaseTransaction, id: PrizeId) -> Result<LibraryPrize, ActivityError> {
    library::find_for_update(tx, id)
        .await
        .map_err(db_error("lock a prize"))?
        .ok_or(ActivityError::PrizeNotFound(id))
}

/// Ends a change of the library; answers the prize as it is now.
async fn commit_prize(
    tx: DatabaseTransaction,
    id: PrizeId,
    actor: &Actor,
    action: &'static str,
) -> Result<LibraryPrize, ActivityError> {
    let done = AuditEntry {
        activity_id: None,
        actor: actor.name.clone(),
        action,
        detail: Some(json!({ "prizeId": id })),
        request_id: actor.request_id.clone(),
    };
    let recorded = audit::record(&tx, &done).await;
    recorded.map_err(db_error("record an audit entry"))?;
    let prize = lock_prize(&tx, id).await?;
    let settled = idempotency::settle(&tx, &prize).await;
    settled.map_err(db_error("keep the answer about a prize"))?;
    let committed = tx.commit().await;
    committed.map_err(db_error("commit a change of a prize"))?;
    Ok(prize)
}
