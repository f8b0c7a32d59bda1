//! Giveaways and their life cycle: from the draft to the draw, prizes and their stock, and what
//! everybody may see of them.

mod model;
mod status;

pub use model::{Activity, ActivityPrize, PresenceRule, PrizeKind, Seed, ShardBy, Task};
pub use status::{IllegalTransition, Status, Transition};
