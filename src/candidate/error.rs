//! Why something about participants could not be read or done.

use std::sync::Arc;

use sea_orm::DbErr;

use crate::{infra::mysql::is_unavailable, kernel::ActivityId};

/// Why something about participants could not be read or done.
#[derive(Debug, thiserror::Error)]
pub enum CandidateError {
    #[error("activity {0} does not exist")]
    UnknownActivity(ActivityId),

    #[error("activity {0} has not been opened")]
    NotOpened(ActivityId),

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

    #[error("cannot {action} of activity {id} in Redis")]
    Redis {
        action: &'static str,
        id: ActivityId,
        #[source]
        source: fred::error::Error,
    },

    /// A read that this caller waited for has failed.
    #[error(transparent)]
    Shared(Arc<Self>),
}

impl CandidateError {
    /// For `map_err`: what was being done to which activity.
    pub(super) fn database(action: &'static str, id: ActivityId) -> impl FnOnce(DbErr) -> Self {
        move |source| Self::Database { action, id, source }
    }

    /// Whether the same may succeed later, because a server is away or crowded.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Database { source, .. } | Self::Scan { source, .. } => is_unavailable(source),
            Self::Redis { .. } => true,
            Self::Shared(error) => error.is_unavailable(),
            Self::UnknownActivity(_) | Self::NotOpened(_) => false,
        }
    }

    /// For `map_err`, of Redis.
    pub(super) fn redis(
        action: &'static str,
        id: ActivityId,
    ) -> impl FnOnce(fred::error::Error) -> Self {
        move |source| Self::Redis { action, id, source }
    }
}
