//! The end of participations: what is removed of an activity whose participants are past their
//! life.

use sea_orm::{ConnectionTrait, DbErr};

use super::{deny, entries, store};
use crate::kernel::ActivityId;

/// Removes up to about `limit` rows of what is stored about an activity's participants, and tells
/// how many of which table; `None` when nothing is left. Its counts stay.
///
/// The participations go last: what refers to them is gone by then.
pub async fn forget_participants(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    limit: u64,
) -> Result<Option<(&'static str, u64)>, DbErr> {
    let removed = entries::forget_entries(tx, id, limit).await?;
    if removed > 0 {
        return Ok(Some(("entries", removed)));
    }
    let removed = deny::forget(tx, id, limit).await?;
    if removed > 0 {
        return Ok(Some(("deny_list", removed)));
    }
    store::forget_rows(tx, id, limit).await
}
