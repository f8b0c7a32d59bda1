//! The transaction that admits a batch.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait, DbErr, TransactionTrait};

use super::{
    batch::{self, Numbered, Part, Phase, Sorted},
    merge::{self, FilterRows, Merged},
    outcome::Outcome,
};
use crate::{
    activity::{self, Activity},
    candidate::{
        CandidateService, PoolCount, UserRows, deny,
        store::{self, Lock, ShardKey},
    },
    infra::mysql::{TransactionRetry, within_limit},
    kernel::{UserId, step},
    telemetry::metrics,
    winners,
};

impl CandidateService {
    /// Admits the items in one transaction; tries again on deadlocks and the like.
    pub(super) async fn commit(
        &self,
        partition: u16,
        items: &[Numbered<'_>],
    ) -> Result<Outcome, DbErr> {
        let mut retry = TransactionRetry::new();
        loop {
            let error = match within_limit(self.commit_once(partition, items)).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            if !retry.again(&error).await {
                return Err(error);
            }
            metrics::db_retries();
        }
    }

    async fn commit_once(&self, partition: u16, items: &[Numbered<'_>]) -> Result<Outcome, DbErr> {
        let tx = self.db().begin().await?;
        let Sorted {
            parts,
            dead,
            without_activity,
        } = batch::sort(items, lock_activities(&tx, items).await?);

        let mut outcome = Outcome::new(dead, without_activity);
        let mut counts: BTreeMap<ShardKey, PoolCount> = BTreeMap::new();
        for part in parts {
            let merged = self.admit_part(&tx, &part).await?;
            counts.extend(&merged.counts);
            outcome.add(part, &merged);
        }
        store::raise_pool_counts(&tx, partition, &counts).await?;
        step("admit.in_transaction");
        tx.commit().await?;
        step("admit.committed");
        Ok(outcome)
    }

    async fn admit_part(
        &self,
        tx: &impl ConnectionTrait,
        part: &Part<'_>,
    ) -> Result<Merged, DbErr> {
        let id = part.activity.id;
        let stored = store::read_rows(tx, id, &part.users(), Lock::ForUpdate).await?;
        let filters = self.read_filters(tx, part, &stored).await?;

        let mut merged = merge::merge(part, &stored, filters);

        merged.completions.sort();
        let claims: Vec<_> = merged.claims.iter().cloned().collect();
        let new: Vec<_> = merged
            .new_participants
            .iter()
            .filter_map(|user| Some((*user, merged.rows.get(user)?.participation.as_ref()?)))
            .collect();
        store::insert_participations(tx, id, &new).await?;
        store::bump_revisions(tx, id, &merged.revised).await?;
        store::insert_device_claims(tx, id, &claims).await?;
        store::upsert_presence(tx, id, &merged.presence).await?;
        store::insert_completions(tx, id, &merged.completions).await?;
        Ok(merged)
    }

    /// What the filters need to know about users who have no verdict yet.
    async fn read_filters(
        &self,
        tx: &impl ConnectionTrait,
        part: &Part<'_>,
        stored: &BTreeMap<UserId, UserRows>,
    ) -> Result<FilterRows, DbErr> {
        let is_settled = |user: &UserId| {
            stored
                .get(user)
                .is_some_and(|rows| rows.participation.is_some())
        };
        let mut joins = part.joins();
        joins.retain(|user, _| !is_settled(user));
        if part.phase != Phase::Open || joins.is_empty() {
            return Ok(FilterRows::default());
        }

        let activity = &part.activity;
        let users: Vec<UserId> = joins.keys().copied().collect();
        let accepted: Vec<_> = joins
            .iter()
            .map(|(user, join)| (*user, merge::accepted_at(part, join)))
            .collect();
        let mut devices: Vec<String> = joins
            .values()
            .filter_map(|join| join.device_id.clone())
            .filter(|_| activity.one_entry_per_device)
            .collect();
        devices.sort();
        devices.dedup();
        let counts = store::read_pool_counts(tx, activity.id).await?;
        let joined_count: u64 = counts.values().map(PoolCount::joined).sum();
        Ok(FilterRows {
            denied: deny::list_denied(tx, activity.id, &users).await?,
            cooling_down: winners::won_since(tx, &accepted, activity.cooldown).await?,
            device_holders: store::list_device_holders_for_update(tx, activity.id, &devices)
                .await?,
            is_trimming: joined_count > activity.trim_after,
            trusts_completed_tasks: self.shared.deps.join.trust_completed_tasks,
        })
    }
}

/// Locks the activities of a batch against the freeze.
///
/// The rooms are looked up without a lock, then all rows are locked by primary key: locking by the
/// room's index would take the two indexes in the other order than an UPDATE does. Whatever opens
/// in between opened after these events were in the stream, so they are not about it.
async fn lock_activities(
    tx: &impl ConnectionTrait,
    items: &[Numbered<'_>],
) -> Result<Vec<Activity>, DbErr> {
    let running = activity::list_ids_running_in(tx, &batch::rooms(items)).await?;
    let mut ids = batch::named_activities(items);
    ids.extend(running);
    let ids: Vec<_> = ids.into_iter().collect();
    activity::lock_shared(tx, &ids).await
}
