//! What can go wrong with results and winners.

use std::time::Duration;

use sea_orm::DbErr;

use crate::{activity::ActivityError, http::Problem, infra::mysql, kernel::ActivityId};

/// Why winners could not be read.
#[derive(Debug, thiserror::Error)]
pub enum WinnerError {
    #[error(transparent)]
    Activity(#[from] ActivityError),

    #[error("the results of activity {0} were removed at the end of their life")]
    Expired(ActivityId),

    #[error("cannot {action} of activity {id} in MySQL")]
    Database {
        action: &'static str,
        id: ActivityId,
        #[source]
        source: DbErr,
    },

    #[error("cannot {action} of activity {id} in Redis")]
    Redis {
        action: &'static str,
        id: ActivityId,
        #[source]
        source: fred::error::Error,
    },

    #[error("the list of activity {id} was answered `{answer}`")]
    UnexpectedAnswer { id: ActivityId, answer: String },
}

impl From<WinnerError> for Problem {
    fn from(error: WinnerError) -> Self {
        match error {
            WinnerError::Activity(error) => error.into(),
            WinnerError::Expired(_) => Self::gone("result_expired", error.to_string()),
            WinnerError::Database { ref source, .. } if mysql::is_unavailable(source) => {
                let detail = "the result cannot be read at the moment";
                Self::unavailable("unavailable", detail, Duration::from_secs(1)).with_cause(error)
            }
            WinnerError::Database { .. }
            | WinnerError::Redis { .. }
            | WinnerError::UnexpectedAnswer { .. } => Self::internal(error),
        }
    }
}
