//! Giveaways and their life cycle: from the draft to the draw, prizes and their stock, and what
//! everybody may see of them.

pub mod audit;
pub mod drawing;
mod model;
mod row;
mod status;
mod stock;
mod store;

pub use audit::{Actor, AuditEntry, AuditRecord};
pub use model::{Activity, ActivityPrize, PresenceRule, PrizeKind, Seed, ShardBy, Task};
pub use status::{IllegalTransition, Status, Transition};
pub use stock::settle_stock;
pub use store::{
    ActivityFilter, find, find_for_update, list_running_in, lock_shared, lock_shared_in_rooms,
};
