//! What an id is called in paths.

use crate::kernel::{ActivityId, PrizeId, RoomId, UserId, WinRecordId};

/// An id that stands in a path under a name of its own: `/v1/activities/{activityId}`.
pub trait IdParam {
    /// The name between the braces.
    const NAME: &'static str;
}

impl IdParam for ActivityId {
    const NAME: &'static str = "activityId";
}

impl IdParam for UserId {
    const NAME: &'static str = "userId";
}

impl IdParam for RoomId {
    const NAME: &'static str = "roomId";
}

impl IdParam for PrizeId {
    const NAME: &'static str = "prizeId";
}

impl IdParam for WinRecordId {
    const NAME: &'static str = "winRecordId";
}
