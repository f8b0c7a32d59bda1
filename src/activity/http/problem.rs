//! What callers are told when something goes wrong.

use std::time::Duration;

use super::super::ActivityError;
use crate::http::{KnownProblem, Problem};

const RETRY_AFTER: Duration = Duration::from_secs(1);

/// There is none, or none that the caller may see.
pub const ACTIVITY_NOT_FOUND: KnownProblem = KnownProblem::not_found(
    "activity_not_found",
    "There is no such activity, or none that the caller may see",
);
pub(super) const PRIZE_NOT_FOUND: KnownProblem =
    KnownProblem::not_found("prize_not_found", "There is no such prize in the library");
pub(super) const ILLEGAL_TRANSITION: KnownProblem = KnownProblem::conflict(
    "illegal_transition",
    "The state of the activity, or the time of its draw, forbids this",
);
pub(super) const CONFLICT: KnownProblem = KnownProblem::conflict(
    "conflict",
    "Somebody else has changed it in the meantime; read it again",
);
pub(super) const ROOM_BUSY: KnownProblem =
    KnownProblem::conflict("room_busy", "The room has an open activity already");
pub(super) const STOCK_SHORT: KnownProblem =
    KnownProblem::conflict("stock_short", "The library has too few pieces of a prize");
pub(super) const DRAW_TOO_SOON: KnownProblem = KnownProblem::conflict(
    "draw_too_soon",
    "`drawAt` has passed, or is less than 5 s ahead",
);

impl From<ActivityError> for Problem {
    fn from(error: ActivityError) -> Self {
        if error.is_unavailable() {
            let detail = "activities cannot be read or changed now";
            return Self::unavailable("unavailable", detail, RETRY_AFTER).with_cause(error);
        }
        let detail = error.to_string();
        match error {
            ActivityError::NotFound(_) => Self::not_found("activity_not_found", detail),
            ActivityError::PrizeNotFound(_) => Self::not_found("prize_not_found", detail),
            ActivityError::Invalid(errors) => Self::invalid(errors),
            ActivityError::IllegalTransition(_)
            | ActivityError::NotADraft(_)
            | ActivityError::DrawDue(_) => Self::conflict("illegal_transition", detail),
            ActivityError::Conflict(_) => Self::conflict("conflict", detail),
            ActivityError::RoomBusy(_) => Self::conflict("room_busy", detail),
            ActivityError::StockShort(_) => Self::conflict("stock_short", detail),
            ActivityError::DrawTooSoon(_) => Self::conflict("draw_too_soon", detail),
            ActivityError::Unreadable(_)
            | ActivityError::ClockUncertain(_)
            | ActivityError::Randomness(_)
            | ActivityError::Json { .. }
            | ActivityError::Database { .. } => Self::internal(error),
        }
    }
}
