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

    #[error("the winners of activity {0} cannot be read now, as another attempt has shown")]
    Unreadable(ActivityId),

    #[error("cannot write a list of winners as JSON")]
    Json(#[from] serde_json::Error),

    #[error("cannot refill Redis")]
    Refill(#[from] fred::error::Error),

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
            // Whose attempt it was has logged the cause.
            WinnerError::Unreadable(_) => unreadable(),
            WinnerError::Database { ref source, .. } if mysql::is_unavailable(source) => {
                unreadable().with_cause(error)
            }
            WinnerError::Database { .. }
            | WinnerError::Json(_)
            | WinnerError::Refill(_)
            | WinnerError::Redis { .. }
            | WinnerError::UnexpectedAnswer { .. } => Self::internal(error),
        }
    }
}

fn unreadable() -> Problem {
    let detail = "the result cannot be read at the moment";
    Problem::unavailable("unavailable", detail, Duration::from_secs(1))
}
