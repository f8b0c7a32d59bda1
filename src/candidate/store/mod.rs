//! The tables that say who may win: `participation`, `presence`, `task_completion`,
//! `device_claim`, `pool_count`, `stream_barrier`. Decides nothing.

mod barriers;
mod events;
mod filters;
mod forget;
mod participations;
mod pool_counts;
mod user_rows;

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait, DbErr};

pub use barriers::forget_barriers;
pub(super) use barriers::{insert_barriers, list_barriers};
pub(super) use events::{CompletionRow, PresenceRow, insert_completions, upsert_presence};
pub(super) use filters::{DeviceClaim, insert_device_claims, list_device_holders_for_update};
pub(super) use forget::forget_rows;
pub(super) use participations::{bump_revisions, insert_participations, list_page};
pub use pool_counts::PoolCount;
pub(super) use pool_counts::{ShardKey, progress, raise_pool_counts, read_pool_counts};

pub use user_rows::RemovedRows;
pub(super) use user_rows::{
    StoredClaim, StoredCompletion, StoredParticipation, StoredPresence, delete_rows_of,
    list_claims_of, list_completions_of, list_participations_of, list_presence_of,
};

use super::UserRows;
use crate::{
    infra::mysql::in_list,
    kernel::{ActivityId, UserId},
};

/// Rows of one INSERT: larger ones gain nothing.
pub(super) const INSERT_ROWS: usize = 500;

/// Values of one `IN (…)`.
pub(super) const IN_VALUES: usize = 1_024;

/// Whether rows that are read stay locked until the transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    ForUpdate,
    None,
}

/// What of an activity's participations a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageOf {
    All,
    Joined,
    /// Joined and rejected ones: what a proof is about.
    Entries,
    Trimmed,
}

/// Everything stored about some users in one activity; every user has an entry.
pub(super) async fn read_rows(
    conn: &impl ConnectionTrait,
    activity_id: ActivityId,
    users: &[UserId],
    lock: Lock,
) -> Result<BTreeMap<UserId, UserRows>, DbErr> {
    let mut rows: BTreeMap<UserId, UserRows> = users
        .iter()
        .map(|user| (*user, UserRows::default()))
        .collect();
    let users: Vec<UserId> = rows.keys().copied().collect();
    for chunk in users.chunks(IN_VALUES) {
        participations::fill(conn, activity_id, chunk, lock, &mut rows).await?;
        events::fill_presence(conn, activity_id, chunk, &mut rows).await?;
        events::fill_completions(conn, activity_id, chunk, &mut rows).await?;
    }
    Ok(rows)
}
