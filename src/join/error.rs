//! Why a join is not accepted.

use super::{batcher::Refusal, queue::QueueFull};
use crate::{
    activity::ActivityError, candidate::CandidateError, http::FieldErrors, kernel::ActivityId,
};

/// Why a join was not accepted, or a participation could not be told.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("activity {0} does not exist")]
    NotFound(ActivityId),

    #[error("activity {0} is not open")]
    NotOpen(ActivityId),

    #[error("activity {0} takes no more joins")]
    Closed(ActivityId),

    #[error(
        "activity {0} takes no more joins; whether this one was still in time is told by `/me`"
    )]
    ConfirmedLate(ActivityId),

    #[error("the participants of activity {0} were removed at the end of their life")]
    Expired(ActivityId),

    #[error("the join has faults")]
    Invalid(FieldErrors),

    #[error("too many joins are waiting")]
    QueueFull,

    #[error("the time cannot be told well enough to accept a join")]
    ClockUncertain,

    #[error("the join was not taken, the broker does not answer")]
    NotTaken,

    #[error("whether the join was taken is not known; sending it again is safe")]
    OutcomeUnknown,

    #[error(transparent)]
    Activity(ActivityError),

    #[error(transparent)]
    Candidate(#[from] CandidateError),
}

impl JoinError {
    pub(super) fn of_refusal(refusal: Refusal, id: ActivityId) -> Self {
        match refusal {
            Refusal::Closed => Self::Closed(id),
            Refusal::ConfirmedLate => Self::ConfirmedLate(id),
            Refusal::ClockUncertain => Self::ClockUncertain,
            Refusal::NotTaken => Self::NotTaken,
            Refusal::OutcomeUnknown => Self::OutcomeUnknown,
        }
    }

    /// The reason as the metrics name it.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "notFound",
            Self::NotOpen(_) => "notOpen",
            Self::Closed(_) => "closed",
            Self::ConfirmedLate(_) => "confirmedLate",
            Self::Expired(_) => "expired",
            Self::Invalid(_) => "invalid",
            Self::QueueFull => "queueFull",
            Self::ClockUncertain => "clockUncertain",
            Self::NotTaken => "notTaken",
            Self::OutcomeUnknown => "outcomeUnknown",
            Self::Activity(_) | Self::Candidate(_) => "failed",
        }
    }
}

impl From<QueueFull> for JoinError {
    fn from(_: QueueFull) -> Self {
        Self::QueueFull
    }
}

impl From<ActivityError> for JoinError {
    fn from(error: ActivityError) -> Self {
        if let ActivityError::NotFound(id) = error {
            Self::NotFound(id)
        } else {
            Self::Activity(error)
        }
    }
}
