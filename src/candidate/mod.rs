//! Who may win: participations, presence, tasks and devices, the pure rule over them, and the pool
//! in Redis that repeats what `MySQL` decided.

mod admission;
mod age;
mod claim;
mod consumer;
mod deny;
pub mod entries;
mod error;
mod exact;
mod export;
mod forget;
mod holding;
mod ingress;
mod message;
mod outage;
mod participant;
mod pool;
mod projection;
mod reads;
mod rebuild;
mod roster;
mod rule;
mod score;
mod selection;
mod service;
mod stats;
mod store;
mod user_data;

pub use consumer::StreamConsumer;
pub use deny::{DenyService, routes as deny_routes};
pub use error::CandidateError;
pub use exact::lock_eligible;
pub use export::routes as export_routes;
pub use forget::forget_participants;
pub use ingress::{
    Feed, Ingress, IngressConsumer, IngressDeps, IngressError, routes as event_routes,
};
pub use message::{
    BarrierPass, JoinRequest, PresenceEvent, PresenceKind, StreamMessage, TaskEvent, is_device_id,
    partition_of,
};
pub use participant::ParticipantState;
pub use roster::{list_joined, participation_range};
pub use rule::{
    Change, Effect, Eligibility, Filters, Join, LateReason, Participation, Presence, RejectReason,
    Rules, UserRows, Verdict,
};
pub use score::{Score, Standing};
pub use selection::BestOf;
pub use service::{CandidateDeps, CandidateService, Selection, SelectionPath};
pub use stats::{RejectedCounts, Split, Stats, routes as stats_routes};
pub use store::{PoolCount, RemovedRows, forget_barriers};
pub use user_data::{Erasure, ParticipantData, erase_user, needs_participants};

use admission::{SettledActivity, SettledUser};
