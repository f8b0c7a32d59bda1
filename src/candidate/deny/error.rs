//! Why a deny list could not be read or changed.

use std::time::Duration;

use sea_orm::DbErr;

use crate::{
    http::Problem,
    infra::mysql::{NoOutcome, is_unavailable},
    kernel::ActivityId,
};

/// Why a deny list could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum DenyError {
    #[error(transparent)]
    NoOutcome(#[from] NoOutcome),

    #[error("activity {0} takes no more joins")]
    Closed(ActivityId),

    #[error("cannot {action} in MySQL")]
    Database {
        action: &'static str,
        #[source]
        source: DbErr,
    },
}

/// Names what the failed statement was for.
pub(super) fn db_error(action: &'static str) -> impl Fn(DbErr) -> DenyError {
    move |source| DenyError::Database { action, source }
}

impl From<DenyError> for Problem {
    fn from(error: DenyError) -> Self {
        const RETRY_AFTER: Duration = Duration::from_secs(1);

        match error {
            DenyError::NoOutcome(error) => error.into(),
            DenyError::Closed(_) => Self::conflict("activity_closed", error.to_string()),
            DenyError::Database { ref source, .. } if is_unavailable(source) => {
                let detail = "deny lists cannot be read or changed now";
                Self::unavailable("unavailable", detail, RETRY_AFTER).with_cause(error)
            }
            DenyError::Database { .. } => Self::internal(error),
        }
    }
}
