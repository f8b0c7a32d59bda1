//! What callers are told when something goes wrong.

use std::time::Duration;

use super::super::ActivityError;
use crate::http::Problem;

const RETRY_AFTER: Duration = Duration::from_secs(1);

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
