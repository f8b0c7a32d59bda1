//! Why a redraw is refused or could not be made.

use std::{fmt::Display, time::Duration};

use sea_orm::{ConnAcquireErr, DbErr};

use super::order::{MOST_NAMED, Refusal, name_of};
use crate::{
    candidate::CandidateError,
    http::{FieldErrors, Problem},
    infra::mysql::{self, NoOutcome},
    kernel::ActivityId,
};

/// Why nothing was redrawn.
#[derive(Debug, thiserror::Error)]
pub enum RedrawError {
    #[error("activity {0} does not exist")]
    NotFound(ActivityId),

    #[error("activity {0} has not been drawn")]
    NotDrawn(ActivityId),

    #[error("the participants of activity {0} were removed at the end of their life")]
    ParticipantsExpired(ActivityId),

    #[error("the results of activity {0} were removed at the end of their life")]
    WinsExpired(ActivityId),

    #[error("some ids are of no win of the activity")]
    UnknownWins(Vec<usize>),

    #[error("these wins were revoked before, not all of them together: {0}")]
    AlreadyRevoked(String),

    #[error("these wins are delivered and cannot be revoked: {0}")]
    Delivered(String),

    #[error("other redraws are in the way")]
    Busy,

    #[error("too many calls wait for MySQL")]
    NoTurn,

    #[error("whether the redraw was made is not known")]
    InDoubt(#[source] Box<Self>),

    #[error("cannot select who comes next")]
    Selection(#[source] CandidateError),

    #[error("cannot redraw in MySQL")]
    Database(#[from] DbErr),
}

impl From<NoOutcome> for RedrawError {
    fn from(error: NoOutcome) -> Self {
        match error {
            NoOutcome::NoTurn => Self::NoTurn,
            NoOutcome::NoAnswer => {
                Self::Database(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout))
            }
        }
    }
}

impl From<Refusal> for RedrawError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unknown(places) => Self::UnknownWins(places),
            Refusal::AlreadyRevoked(ids) => Self::AlreadyRevoked(listed(&ids)),
            Refusal::Delivered(ids) => Self::Delivered(listed(&ids)),
        }
    }
}

/// The first of them by name, the others by number.
fn listed(ids: &[impl Display]) -> String {
    let named: Vec<String> = ids
        .iter()
        .take(MOST_NAMED)
        .map(ToString::to_string)
        .collect();
    match ids.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn unknown_wins(places: &[usize]) -> Problem {
    let mut errors = FieldErrors::new();
    for place in places.iter().take(MOST_NAMED) {
        errors.add(name_of(*place), "this is no win record of the activity");
    }
    Problem::invalid(errors)
}

impl RedrawError {
    /// The same error behind a commit that may have been made. What was found out behind it holds.
    pub(super) fn in_doubt(self) -> Self {
        if self.is_unavailable() {
            Self::InDoubt(Box::new(self))
        } else {
            self
        }
    }

    fn is_unavailable(&self) -> bool {
        match self {
            Self::Busy | Self::NoTurn | Self::InDoubt(_) => true,
            Self::Selection(error) => error.is_unavailable(),
            Self::Database(error) => mysql::is_unavailable(error),
            Self::NotFound(_)
            | Self::NotDrawn(_)
            | Self::ParticipantsExpired(_)
            | Self::WinsExpired(_)
            | Self::UnknownWins(_)
            | Self::AlreadyRevoked(_)
            | Self::Delivered(_) => false,
        }
    }
}

impl From<RedrawError> for Problem {
    fn from(error: RedrawError) -> Self {
        if error.is_unavailable() {
            let detail = if matches!(error, RedrawError::InDoubt(_)) {
                format!("{error}; send it again to find out")
            } else {
                format!("{error}; nothing was done, send it again")
            };
            let retry = Duration::from_secs(1);
            return Self::unavailable("unavailable", detail, retry).with_cause(error);
        }
        let detail = error.to_string();
        match error {
            RedrawError::NotFound(_) => Self::not_found("activity_not_found", detail),
            RedrawError::NotDrawn(_) => Self::conflict("not_drawn", detail),
            RedrawError::ParticipantsExpired(_) => Self::gone("participants_expired", detail),
            RedrawError::WinsExpired(_) => Self::gone("result_expired", detail),
            RedrawError::UnknownWins(places) => unknown_wins(&places),
            RedrawError::AlreadyRevoked(_) => Self::conflict("already_revoked", detail),
            RedrawError::Delivered(_) => Self::conflict("win_delivered", detail),
            RedrawError::Busy
            | RedrawError::NoTurn
            | RedrawError::InDoubt(_)
            | RedrawError::Selection(_)
            | RedrawError::Database(_) => Self::internal(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_whether_anything_may_have_been_done() {
        let timeout = || RedrawError::from(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout));
        let told = |error: RedrawError| Problem::from(error).detail().to_owned();

        for error in [RedrawError::Busy, timeout()] {
            assert!(told(error).contains("nothing was done"));
        }
        for error in [RedrawError::Busy, timeout()] {
            assert!(told(error.in_doubt()).contains("is not known"));
        }
        let refused = RedrawError::WinsExpired(ActivityId(5)).in_doubt();
        assert_eq!(Problem::from(refused).code(), "result_expired");
    }

    #[test]
    fn a_long_list_of_ids_is_cut_short() {
        let ids: Vec<u64> = (1..=23).collect();

        assert_eq!(listed(&ids[..2]), "1, 2");
        assert!(listed(&ids).ends_with("19, 20 and 3 more"));
    }
}
