//! Who may win: participations, presence, tasks and devices, the pure rule over them, and the pool
//! in Redis that repeats what `MySQL` decided.

mod roster;
mod rule;
mod score;
mod selection;

pub use roster::{list_joined, participation_range};
pub use rule::{
    Change, Effect, Eligibility, Filters, Join, LateReason, Participation, Presence, RejectReason,
    Rules, UserRows, Verdict,
};
pub use score::{Score, Standing};
pub use selection::BestOf;
