//! Why there is no proof to show.

use std::time::Duration;

use sea_orm::DbErr;

use crate::{
    activity::ActivityError,
    http::Problem,
    infra::mysql,
    kernel::{ActivityId, UserId},
    winners::WinnerError,
};

/// Why a proof, or an entry in it, cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    #[error(transparent)]
    Activity(#[from] ActivityError),

    #[error(transparent)]
    Winners(#[from] WinnerError),

    #[error("the proof of activity {0} is published after its draw")]
    Pending(ActivityId),

    #[error("activity {0} was cancelled and has no proof")]
    Cancelled(ActivityId),

    #[error("the entries of activity {0} were removed at the end of their life")]
    Expired(ActivityId),

    #[error("you have no entry in activity {0}")]
    NoEntry(ActivityId),

    #[error("winner {user_id} of activity {id} has no eligible entry")]
    WinnerWithoutEntry { id: ActivityId, user_id: UserId },

    #[error("the detail of activity {0} is not that of an opened one")]
    Unopened(ActivityId),

    #[error("cannot write the proof of activity {id} as JSON")]
    Json {
        id: ActivityId,
        #[source]
        source: serde_json::Error,
    },

    #[error("others are waiting for the proof of activity {0} already")]
    Crowded(ActivityId),

    #[error("cannot read the entries of activity {id} in MySQL")]
    Database {
        id: ActivityId,
        #[source]
        source: DbErr,
    },
}

impl From<ProofError> for Problem {
    fn from(error: ProofError) -> Self {
        let unavailable = || {
            let detail = "the proof cannot be read at the moment";
            Self::unavailable("unavailable", detail, Duration::from_secs(1))
        };
        let text = error.to_string();
        match error {
            ProofError::Activity(error) => error.into(),
            ProofError::Winners(error) => error.into(),
            ProofError::Pending(_) => {
                Self::conflict("proof_pending", text).with_retry_after(Duration::from_secs(1))
            }
            ProofError::Cancelled(_) => Self::conflict("activity_cancelled", text),
            ProofError::Expired(_) => Self::gone("proof_expired", text),
            ProofError::NoEntry(_) => Self::not_found("no_entry", text),
            ProofError::Crowded(_) => unavailable(),
            ProofError::Database { ref source, .. } if mysql::is_unavailable(source) => {
                unavailable().with_cause(error)
            }
            ProofError::WinnerWithoutEntry { .. }
            | ProofError::Unopened(_)
            | ProofError::Json { .. }
            | ProofError::Database { .. } => Self::internal(error),
        }
    }
}
