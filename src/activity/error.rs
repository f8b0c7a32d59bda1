//! What can go wrong with an activity.

use sea_orm::DbErr;

use super::IllegalTransition;
use crate::{
    http::FieldErrors,
    infra::mysql::ClockUncertain,
    kernel::{ActivityId, PrizeId, RoomId},
};

/// Why an activity could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ActivityError {
    #[error("activity {0} does not exist")]
    NotFound(ActivityId),

    #[error("prize {0} does not exist in the library")]
    PrizeNotFound(PrizeId),

    #[error("{0} cannot be read now, as another attempt at the same time has shown")]
    Unreadable(String),

    #[error("the request has faults")]
    Invalid(FieldErrors),

    #[error(transparent)]
    IllegalTransition(#[from] IllegalTransition),

    #[error("only a draft can be edited, activity {0} is none any more")]
    NotADraft(ActivityId),

    #[error("activity {0} was changed by someone else")]
    Conflict(ActivityId),

    #[error("room {0} has a running activity already")]
    RoomBusy(RoomId),

    #[error("there is not enough stock of: {}", .0.join(", "))]
    StockShort(Vec<String>),

    #[error("drawAt of activity {0} is less than 5 s ahead or has passed")]
    DrawTooSoon(ActivityId),

    #[error("drawAt of activity {0} has passed, it is drawn and can no longer be cancelled")]
    DrawDue(ActivityId),

    #[error(transparent)]
    ClockUncertain(#[from] ClockUncertain),

    #[error("the system has no randomness to give")]
    Randomness(#[source] rand::rngs::SysError),

    #[error("cannot write {what} as JSON")]
    Json {
        what: &'static str,
        #[source]
        source: serde_json::Error,
    },

    #[error("cannot {action} in MySQL")]
    Database {
        action: &'static str,
        #[source]
        source: DbErr,
    },
}

impl ActivityError {
    /// Whether the database cannot be reached or asks for patience.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Database { source, .. } => crate::infra::mysql::is_unavailable(source),
            Self::ClockUncertain(_) | Self::Unreadable(_) => true,
            Self::NotFound(_)
            | Self::PrizeNotFound(_)
            | Self::Invalid(_)
            | Self::IllegalTransition(_)
            | Self::NotADraft(_)
            | Self::Conflict(_)
            | Self::RoomBusy(_)
            | Self::StockShort(_)
            | Self::DrawTooSoon(_)
            | Self::DrawDue(_)
            | Self::Randomness(_)
            | Self::Json { .. } => false,
        }
    }
}

/// Names what the failed statement was for.
pub(super) fn db_error(action: &'static str) -> impl Fn(DbErr) -> ActivityError {
    move |source| ActivityError::Database { action, source }
}
