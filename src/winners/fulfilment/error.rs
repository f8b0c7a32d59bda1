//! Why a report about a prize is not taken.

use std::time::Duration;

use sea_orm::DbErr;

use super::state::IllegalFulfilment;
use crate::{http::Problem, infra::mysql, kernel::WinRecordId};

/// Why a fulfilment could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum FulfilmentError {
    #[error("win record {0} does not exist")]
    NotFound(WinRecordId),

    #[error("win record {0} was revoked: its prize went to somebody else")]
    Revoked(WinRecordId),

    #[error("win record {id}: {refusal}")]
    Illegal {
        id: WinRecordId,
        refusal: IllegalFulfilment,
    },

    #[error("cannot {action} in MySQL")]
    Database {
        action: &'static str,
        #[source]
        source: DbErr,
    },
}

impl From<DbErr> for FulfilmentError {
    fn from(source: DbErr) -> Self {
        Self::Database {
            action: "record how far a prize is",
            source,
        }
    }
}

impl From<FulfilmentError> for Problem {
    fn from(error: FulfilmentError) -> Self {
        let detail = error.to_string();
        match error {
            FulfilmentError::NotFound(_) => Self::not_found("win_record_not_found", detail),
            FulfilmentError::Revoked(_) => Self::conflict("win_revoked", detail),
            FulfilmentError::Illegal { .. } => Self::conflict("fulfilment_conflict", detail),
            FulfilmentError::Database { ref source, .. } if mysql::is_unavailable(source) => {
                let detail = "fulfilments cannot be read or changed at the moment";
                Self::unavailable("unavailable", detail, Duration::from_secs(1)).with_cause(error)
            }
            FulfilmentError::Database { .. } => Self::internal(error),
        }
    }
}
