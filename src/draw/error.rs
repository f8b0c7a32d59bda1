//! What can go wrong with a draw.

use std::time::Duration;

use sea_orm::DbErr;

use crate::{candidate::CandidateError, http::Problem, infra::mysql, kernel::ActivityId};

/// Why a draw could not be attempted or finished; another attempt follows.
#[derive(Debug, thiserror::Error)]
pub enum DrawError {
    #[error("activity {0} does not exist")]
    NotFound(ActivityId),

    #[error("activity {0} is due to be drawn but has no drawAt")]
    Unscheduled(ActivityId),

    #[error("activity {0} has fewer prizes than winners")]
    PrizesMissing(ActivityId),

    #[error("cannot select the winners")]
    Selection(#[source] CandidateError),

    #[error("cannot {action} of activity {id} in MySQL")]
    Database {
        action: &'static str,
        id: ActivityId,
        #[source]
        source: DbErr,
    },

    #[error("cannot {action} in MySQL")]
    Scan {
        action: &'static str,
        #[source]
        source: DbErr,
    },
}

impl DrawError {
    /// Whether `MySQL` is away, so that no draw can get on.
    pub(super) fn is_unavailable(&self) -> bool {
        match self {
            Self::Database { source, .. } | Self::Scan { source, .. } => {
                mysql::is_unavailable(source)
            }
            Self::NotFound(_)
            | Self::Unscheduled(_)
            | Self::PrizesMissing(_)
            | Self::Selection(_) => false,
        }
    }
}

/// Names what the failed statement was for.
pub(super) fn db_error(action: &'static str, id: ActivityId) -> impl Fn(DbErr) -> DrawError {
    move |source| DrawError::Database { action, id, source }
}

impl From<DrawError> for Problem {
    fn from(error: DrawError) -> Self {
        match error {
            DrawError::NotFound(_) => Self::not_found("activity_not_found", error.to_string()),
            DrawError::Database { .. } | DrawError::Scan { .. } if error.is_unavailable() => {
                let detail = "the draw cannot be looked at at the moment";
                Self::unavailable("unavailable", detail, Duration::from_secs(1)).with_cause(error)
            }
            DrawError::Unscheduled(_)
            | DrawError::PrizesMissing(_)
            | DrawError::Selection(_)
            | DrawError::Database { .. }
            | DrawError::Scan { .. } => Self::internal(error),
        }
    }
}
