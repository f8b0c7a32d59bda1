//! Reading and changing deny lists.

use std::{collections::BTreeSet, sync::Arc};

use sea_orm::{DatabaseConnection, DatabaseTransaction, TransactionTrait};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use super::{DenyEntry, DenyError, error::db_error, store};
use crate::{
    activity::{self, Actor, audit},
    infra::{
        idempotency,
        mysql::{TransactionRetry, change_in_turn, read_in_turn},
    },
    kernel::{ActivityId, UserId},
};

/// Where an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenyScope {
    /// In every activity.
    Platform,
    /// In one activity.
    Activity(ActivityId),
}

impl DenyScope {
    /// As stored: no activity has the id 0.
    pub(super) const fn number(self) -> u64 {
        match self {
            Self::Platform => 0,
            Self::Activity(id) => id.0,
        }
    }

    const fn activity_id(self) -> Option<ActivityId> {
        match self {
            Self::Platform => None,
            Self::Activity(id) => Some(id),
        }
    }
}

/// What an import did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Imported {
    pub added: usize,
    /// On the list before, and left as they were.
    pub already_listed: usize,
}

/// Who changes a list, and in which request.
#[derive(Clone, Debug)]
pub struct Caller {
    pub user_id: UserId,
    pub actor: Actor,
}

/// Reads and changes deny lists; each change is audited in its own transaction. Cheap to clone.
#[derive(Clone)]
pub struct DenyService {
    db: DatabaseConnection,
    turns: Arc<Semaphore>,
}

impl DenyService {
    /// `turns` are those in which callers read and change `MySQL`.
    pub fn new(db: DatabaseConnection, turns: Arc<Semaphore>) -> Self {
        Self { db, turns }
    }

    /// Entries with user ids above `after`, in their order.
    pub async fn list(
        &self,
        scope: DenyScope,
        after: Option<UserId>,
        limit: u64,
    ) -> Result<Vec<DenyEntry>, DenyError> {
        let read = store::list(&self.db, scope, after, limit);
        read_in_turn(&self.turns, read)
            .await
            .map_err(db_error("list a deny list"))
    }

    /// Puts a user on a list; of one who is there already only a reason that is given changes.
    pub async fn put(
        &self,
        scope: DenyScope,
        user_id: UserId,
        reason: Option<&str>,
        caller: &Caller,
    ) -> Result<DenyEntry, DenyError> {
        let change = retrying(|| self.put_once(scope, user_id, reason, caller));
        change_in_turn(&self.turns, change).await?
    }

    async fn put_once(
        &self,
        scope: DenyScope,
        user_id: UserId,
        reason: Option<&str>,
        caller: &Caller,
    ) -> Result<DenyEntry, DenyError> {
        let failed = || db_error("put a user on a deny list");
        let tx = self.begin().await?;
        refuse_if_closed(&tx, scope).await?;
        let known = store::find_for_update(&tx, scope, user_id).await;
        let action = match (known.map_err(failed())?, reason) {
            (None, _) => {
                let users = BTreeSet::from([user_id]);
                store::insert(&tx, scope, &users, reason, caller.user_id)
                    .await
                    .map_err(failed())?;
                "deny.add"
            }
            (Some(known), Some(reason)) if known.reason.as_deref() != Some(reason) => {
                store::update_reason(&tx, scope, user_id, reason)
                    .await
                    .map_err(failed())?;
                "deny.change"
            }
            (Some(known), _) => return Ok(known),
        };
        let entry = store::find_for_update(&tx, scope, user_id)
            .await
            .map_err(failed())?
            .ok_or_else(|| failed()(sea_orm::DbErr::RecordNotFound("the entry".to_owned())))?;
        let detail = json!({ "userId": user_id, "reason": entry.reason });
        record(&tx, scope, caller, action, detail).await?;
        commit(tx, scope, action).await?;
        Ok(entry)
    }

    /// Takes a user off a list; one who is not there stays so.
    pub async fn delete(
        &self,
        scope: DenyScope,
        user_id: UserId,
        caller: &Caller,
    ) -> Result<(), DenyError> {
        let change = retrying(|| self.delete_once(scope, user_id, caller));
        change_in_turn(&self.turns, change).await?
    }

    async fn delete_once(
        &self,
        scope: DenyScope,
        user_id: UserId,
        caller: &Caller,
    ) -> Result<(), DenyError> {
        let tx = self.begin().await?;
        let was_there = store::delete(&tx, scope, user_id)
            .await
            .map_err(db_error("take a user off a deny list"))?;
        if !was_there {
            return Ok(());
        }
        let detail = json!({ "userId": user_id });
        record(&tx, scope, caller, "deny.remove", detail).await?;
        commit(tx, scope, "deny.remove").await
    }

    /// Adds users to a list, all of them or none; those who are on it stay as they are. The turn is
    /// the caller's.
    pub async fn import(
        &self,
        scope: DenyScope,
        users: &BTreeSet<UserId>,
        reason: Option<&str>,
        caller: &Caller,
    ) -> Result<Imported, DenyError> {
        retrying(|| self.import_once(scope, users, reason, caller)).await
    }

    async fn import_once(
        &self,
        scope: DenyScope,
        users: &BTreeSet<UserId>,
        reason: Option<&str>,
        caller: &Caller,
    ) -> Result<Imported, DenyError> {
        let tx = self.begin().await?;
        refuse_if_closed(&tx, scope).await?;
        let present = store::list_present(&tx, scope, users)
            .await
            .map_err(db_error("read a deny list"))?;
        let new: BTreeSet<UserId> = users.difference(&present).copied().collect();
        let imported = Imported {
            added: new.len(),
            already_listed: present.len(),
        };
        let settle = || idempotency::settle(&tx, &imported);
        let failed = || db_error("import a deny list");
        if new.is_empty() {
            settle().await.map_err(failed())?;
            tx.commit().await.map_err(failed())?;
            return Ok(imported);
        }
        store::insert(&tx, scope, &new, reason, caller.user_id)
            .await
            .map_err(failed())?;
        let detail = json!({
            "added": imported.added,
            "alreadyListed": imported.already_listed,
            "reason": reason,
        });
        record(&tx, scope, caller, "deny.import", detail).await?;
        settle().await.map_err(failed())?;
        commit(tx, scope, "deny.import").await?;
        Ok(imported)
    }

    async fn begin(&self) -> Result<DatabaseTransaction, DenyError> {
        let tx = self.db.begin().await;
        tx.map_err(db_error("begin a transaction"))
    }
}

/// Refuses entries that no join can meet any more. The activity stays as it is until the transaction
/// ends, so none is left behind by the removal.
async fn refuse_if_closed(tx: &DatabaseTransaction, scope: DenyScope) -> Result<(), DenyError> {
    let DenyScope::Activity(id) = scope else {
        return Ok(());
    };
    let found = activity::lock_shared(tx, &[id])
        .await
        .map_err(db_error("look at an activity"))?;
    if found.iter().any(|one| one.status.may_take_joins()) {
        Ok(())
    } else {
        Err(DenyError::Closed(id))
    }
}

/// Says who did it, in the transaction.
async fn record(
    tx: &DatabaseTransaction,
    scope: DenyScope,
    caller: &Caller,
    action: &'static str,
    detail: Value,
) -> Result<(), DenyError> {
    let done = caller.actor.did(action, scope.activity_id(), Some(detail));
    audit::record(tx, &done)
        .await
        .map_err(db_error("record an audit entry"))
}

async fn commit(
    tx: DatabaseTransaction,
    scope: DenyScope,
    action: &'static str,
) -> Result<(), DenyError> {
    tx.commit()
        .await
        .map_err(db_error("commit a change of a deny list"))?;
    tracing::info!(deny.scope = scope.number(), action, "deny list changed");
    Ok(())
}

/// Runs a transaction again when it lost against another one.
async fn retrying<T, Attempt>(mut attempt: impl FnMut() -> Attempt) -> Result<T, DenyError>
where
    Attempt: Future<Output = Result<T, DenyError>>,
{
    let mut retry = TransactionRetry::new();
    loop {
        match attempt().await {
            Err(DenyError::Database { source, .. }) if retry.again(&source).await => (),
            outcome => return outcome,
        }
    }
}
