//! What everything stands on: ids, time, the supervisor of background tasks. No I/O.

mod clock;
pub mod exact_number;
mod ids;
mod jitter;
mod step;
mod supervisor;

pub use clock::{Clock, SystemClock, Timestamp, format_timestamp, to_millis, truncate_to_millis};
pub use ids::{
    ActivityId, InvalidId, MAX_ID, PrizeId, RoomId, UserId, WinRecordId, mix, random_id,
    time_ordered_id,
};
pub use jitter::jittered;
pub use step::step;
pub use supervisor::Supervisor;
