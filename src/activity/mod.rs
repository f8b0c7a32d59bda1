//! Giveaways and their life cycle: from the draft to the draw, prizes and their stock, and what
//! everybody may see of them.

pub mod audit;
mod changes;
pub mod check;
mod detail;
mod detail_cache;
mod detail_memory;
mod draft;
mod drafting;
pub mod drawing;
mod error;
mod events;
mod form;
mod hot_copy;
mod http;
mod library;
mod live;
mod model;
mod opening;
mod prizes;
pub mod publication;
pub mod removal;
mod room_list;
mod row;
mod rules;
mod schedule;
mod seen_open;
mod service;
mod status;
mod stock;
mod store;

pub use audit::{Actor, AuditEntry, AuditRecord};
pub use check::reason as check_reason;
pub use detail::ActivityDetail;
pub use error::ActivityError;
pub use events::PROJECTION;
pub use form::{ActivityForm, LibraryPrizeForm};
pub use http::{ACTIVITY_NOT_FOUND, CountParticipants, actor, in_own_room, routes};
pub use library::LibraryPrize;
pub use live::{LiveDeps, LiveService};
pub use model::{Activity, ActivityPrize, PresenceRule, PrizeKind, Seed, ShardBy, Task};
pub use publication::LeafKey;
pub use rules::{SCORE_RULE_VERSION, commitment, rules_hash};
pub use service::{ActivityDeps, ActivityService, DetailProjection};
pub use status::{IllegalTransition, Status, Transition};
pub use stock::{settle_stock, take_back_stock};
pub use store::{
    ActivityFilter, find, find_for_update, list_ids, list_ids_hosted_by, list_ids_in_stream,
    list_ids_running_in, list_open_ids, list_recent, list_versions, lock_shared,
};

#[cfg(test)]
mod tests;
