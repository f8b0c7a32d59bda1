//! Why events are not taken.

use std::time::Duration;

use crate::{
    http::{FieldErrors, Problem},
    infra::broker::PublishError,
};

/// When a caller whose events were not taken may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why events were not taken. Sending all of them again is safe in every case.
#[derive(Debug, thiserror::Error)]
pub enum IngressError {
    /// Nothing was sent.
    #[error("the events have faults")]
    Invalid(FieldErrors),

    /// Nothing was sent.
    #[error("the events were not taken, the service or the broker is not ready")]
    NotTaken,

    #[error("whether all events were taken is not known; sending them again is safe")]
    OutcomeUnknown,
}

impl IngressError {
    /// What the results of all messages come to.
    pub(super) fn of_results(results: &[Result<(), PublishError>]) -> Result<(), Self> {
        if results.iter().all(Result::is_ok) {
            return Ok(());
        }
        let was_not_sent = |result: &Result<(), PublishError>| match result {
            Ok(()) => false,
            Err(error) => !error.is_outcome_unknown(),
        };
        Err(if results.iter().all(was_not_sent) {
            Self::NotTaken
        } else {
            Self::OutcomeUnknown
        })
    }

    /// The reason as the metrics name it.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::NotTaken => "notTaken",
            Self::OutcomeUnknown => "outcomeUnknown",
        }
    }
}

impl From<IngressError> for Problem {
    fn from(error: IngressError) -> Self {
        let detail = error.to_string();
        match error {
            IngressError::Invalid(faults) => Self::invalid(faults),
            IngressError::NotTaken => Self::unavailable("events_unavailable", detail, RETRY_AFTER),
            IngressError::OutcomeUnknown => {
                Self::unavailable("events_outcome_unknown", detail, RETRY_AFTER)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_when_every_message_is_known_to_be_unsent_nothing_was_sent() {
        let word = |results: Vec<Result<(), PublishError>>| {
            IngressError::of_results(&results).map_err(|error| error.reason())
        };

        assert_eq!(word(vec![Ok(()), Ok(())]), Ok(()));
        assert_eq!(
            word(vec![
                Err(PublishError::NotConnected),
                Err(PublishError::Returned)
            ]),
            Err("notTaken")
        );
        for rest in [Ok(()), Err(PublishError::TimedOut)] {
            let results = vec![Err(PublishError::NotConnected), rest];
            assert_eq!(word(results), Err("outcomeUnknown"));
        }
    }
}
