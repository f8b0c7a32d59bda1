//! What is stored about one user as a participant: shown to whoever may see it, and erased.

use std::collections::BTreeSet;

use fred::{
    error::Error as RedisError,
    interfaces::{KeysInterface, SetsInterface},
};
use sea_orm::{ConnectionTrait, DbErr};
use serde::Serialize;

use super::{
    CandidateService, deny,
    deny::StoredDenial,
    entries::{self, LeafKept},
    store::{
        self, RemovedRows, StoredClaim, StoredCompletion, StoredParticipation, StoredPresence,
    },
};
use crate::{
    activity::{Activity, Status},
    kernel::{ActivityId, UserId},
};

/// Everything stored about one user as a participant.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParticipantData {
    pub participations: Vec<StoredParticipation>,
    pub presence: Vec<StoredPresence>,
    pub completed_tasks: Vec<StoredCompletion>,
    pub device_claims: Vec<StoredClaim>,
    pub deny_entries: Vec<StoredDenial>,
}

impl ParticipantData {
    /// Adds what is stored about these activities.
    pub async fn read(
        &mut self,
        conn: &impl ConnectionTrait,
        ids: &[ActivityId],
        user_id: UserId,
    ) -> Result<(), DbErr> {
        if ids.is_empty() {
            return Ok(());
        }
        let participations = store::list_participations_of(conn, ids, user_id).await?;
        let claims = store::list_claims_of(conn, &participations, user_id).await?;
        self.participations.extend(participations);
        self.device_claims.extend(claims);
        self.presence
            .extend(store::list_presence_of(conn, ids, user_id).await?);
        self.completed_tasks
            .extend(store::list_completions_of(conn, ids, user_id).await?);
        let denials = deny::list_of_user(conn, ids, user_id).await?;
        self.deny_entries.extend(denials);
        Ok(())
    }

    /// Adds what is stored about no activity.
    pub async fn read_platform(
        &mut self,
        conn: &impl ConnectionTrait,
        user_id: UserId,
    ) -> Result<(), DbErr> {
        let denials = deny::list_of_user_on_platform(conn, user_id).await?;
        self.deny_entries.extend(denials);
        Ok(())
    }

    /// The activities of which anything is stored.
    pub fn activities(&self) -> BTreeSet<ActivityId> {
        let participations = self.participations.iter().map(|row| row.activity_id);
        let presence = self.presence.iter().map(|row| row.activity_id);
        let tasks = self.completed_tasks.iter().map(|row| row.activity_id);
        let denials = self.deny_entries.iter().filter_map(|row| row.activity_id);
        participations
            .chain(presence)
            .chain(tasks)
            .chain(denials)
            .collect()
    }

    /// Whether anything that an activity needs is stored: more than a deny entry.
    pub fn takes_part_in(&self, id: ActivityId) -> bool {
        let mut participations = self.participations.iter().map(|row| row.activity_id);
        let mut presence = self.presence.iter().map(|row| row.activity_id);
        let mut tasks = self.completed_tasks.iter().map(|row| row.activity_id);
        participations.any(|of| of == id) || presence.any(|of| of == id) || tasks.any(|of| of == id)
    }
}

/// What became of a user's rows in one activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erasure {
    Erased {
        rows: RemovedRows,
        deny_entries: u64,
        leaves_kept: u64,
    },
    /// The activity runs, or its proof is not published: nothing was removed.
    NotNow,
}

/// Whether what an activity's participants did still decides something.
pub fn needs_participants(activity: &Activity) -> bool {
    match activity.status {
        Status::Open | Status::Drawing => true,
        Status::Drawn => activity.proof_published_at.is_none(),
        Status::Draft | Status::InReview | Status::Rejected | Status::Ready | Status::Cancelled => {
            false
        }
    }
}

/// Erases a user from one activity in the caller's transaction: the rows, and the deny entry once
/// the activity takes no more joins. The leaf of a published entry stays, for its neighbours.
pub async fn erase_user(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    user_id: UserId,
) -> Result<Erasure, DbErr> {
    let id = activity.id;
    if needs_participants(activity) {
        return Ok(Erasure::NotNow);
    }
    // Of what is being removed anyhow, nothing is opened any more.
    let leaf = if activity.participants_removed_at.is_some() {
        LeafKept::NotNeeded
    } else {
        entries::keep_leaf(tx, id, user_id).await?
    };
    let leaves_kept = match leaf {
        LeafKept::Kept => 1,
        LeafKept::NotNeeded => 0,
        LeafKept::ProofPending => return Ok(Erasure::NotNow),
    };
    let rows = store::delete_rows_of(tx, id, user_id).await?;
    let deny_entries = if activity.status.may_take_joins() {
        0
    } else {
        deny::delete_of_user(tx, id, user_id).await?
    };
    Ok(Erasure::Erased {
        rows,
        deny_entries,
        leaves_kept,
    })
}

impl CandidateService {
    /// Takes a user out of what Redis holds of an activity's participants.
    pub async fn forget_user(
        &self,
        activity: &Activity,
        user_id: UserId,
    ) -> Result<(), RedisError> {
        let keys = self.redis().keys();
        let id = activity.id;
        let shard = activity.shard_of(user_id);
        let pipeline = self.redis().next().pipeline();
        for key in [
            keys.user_state(id, user_id),
            keys.join_request(id, user_id),
            keys.join_done(id, user_id),
        ] {
            let _: () = pipeline.del(key).await?;
        }
        let partakers = keys.partake(id, shard);
        let _: () = pipeline.srem(partakers, user_id.to_string()).await?;
        pipeline.all::<()>().await?;
        let forget = &self.shared.scripts.forget;
        let arguments = vec![user_id.to_string()];
        forget
            .run::<()>(self.redis(), self.pool_keys(activity, shard), arguments)
            .await
    }
}
