//! The life cycle of an activity.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where an activity is in its life.
///
/// ```text
/// Draft ── submit ──▶ InReview ── approve ──▶ Ready ── open ──▶ Open ── freeze ──▶ Drawing ── commit ──▶ Drawn
///                        └─────── reject ───▶ Rejected
/// cancel: from Draft, InReview, Ready and Open to Cancelled, while drawAt is not reached
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Draft,
    InReview,
    Rejected,
    Ready,
    Open,
    Drawing,
    Drawn,
    Cancelled,
}

/// What a person or the service does to an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    Submit,
    Approve,
    Reject,
    Open,
    Cancel,
    Freeze,
    Commit,
}

/// A transition that the state of the activity forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {transition} an activity that is {status}")]
pub struct IllegalTransition {
    pub transition: Transition,
    pub status: Status,
}

impl Status {
    pub const ALL: [Self; 8] = [
        Self::Draft,
        Self::InReview,
        Self::Rejected,
        Self::Ready,
        Self::Open,
        Self::Drawing,
        Self::Drawn,
        Self::Cancelled,
    ];

    /// The stored and shown word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::InReview => "in_review",
            Self::Rejected => "rejected",
            Self::Ready => "ready",
            Self::Open => "open",
            Self::Drawing => "drawing",
            Self::Drawn => "drawn",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Nothing changes any more, but for redraws of a drawn activity.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Rejected | Self::Drawn | Self::Cancelled)
    }

    /// Whether joins can be accepted now or later.
    pub const fn may_take_joins(self) -> bool {
        matches!(
            self,
            Self::Draft | Self::InReview | Self::Ready | Self::Open
        )
    }

    /// The state after `transition`; times (drawAt reached or not) are the caller's to check.
    pub const fn after(self, transition: Transition) -> Result<Self, IllegalTransition> {
        match (transition, self) {
            (Transition::Submit, Self::Draft) => Ok(Self::InReview),
            (Transition::Approve, Self::InReview) => Ok(Self::Ready),
            (Transition::Reject, Self::InReview) => Ok(Self::Rejected),
            (Transition::Open, Self::Ready) => Ok(Self::Open),
            (Transition::Cancel, Self::Draft | Self::InReview | Self::Ready | Self::Open) => {
                Ok(Self::Cancelled)
            }
            (Transition::Freeze, Self::Open | Self::Drawing) => Ok(Self::Drawing),
            (Transition::Commit, Self::Drawing) => Ok(Self::Drawn),
            (
                Transition::Submit
                | Transition::Approve
                | Transition::Reject
                | Transition::Open
                | Transition::Cancel
                | Transition::Freeze
                | Transition::Commit,
                Self::Draft
                | Self::InReview
                | Self::Rejected
                | Self::Ready
                | Self::Open
                | Self::Drawing
                | Self::Drawn
                | Self::Cancelled,
            ) => Err(IllegalTransition {
                transition,
                status: self,
            }),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InReview => "in review",
            Self::Draft
            | Self::Rejected
            | Self::Ready
            | Self::Open
            | Self::Drawing
            | Self::Drawn
            | Self::Cancelled => self.as_str(),
        })
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Submit => "submit",
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Open => "open",
            Self::Cancel => "cancel",
            Self::Freeze => "freeze",
            Self::Commit => "commit",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_back_from_its_word() {
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
        assert_eq!(Status::parse("Open"), None);
    }

    #[test]
    fn only_a_running_activity_can_be_frozen_and_nothing_leaves_a_final_state() {
        for status in Status::ALL {
            let can_freeze = matches!(status, Status::Open | Status::Drawing);
            assert_eq!(status.after(Transition::Freeze).is_ok(), can_freeze);
            if status.is_final() {
                for transition in [
                    Transition::Submit,
                    Transition::Approve,
                    Transition::Reject,
                    Transition::Open,
                    Transition::Cancel,
                    Transition::Freeze,
                    Transition::Commit,
                ] {
                    assert_eq!(
                        status.after(transition),
                        Err(IllegalTransition { transition, status })
                    );
                }
            }
        }
    }
}
