//! What a win is.

use serde::{Deserialize, Serialize};

use crate::kernel::{ActivityId, PrizeId, Timestamp, UserId, WinRecordId, exact_number, to_millis};

/// The durable record that a user won a prize. Its JSON is what Redis shows of a win.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WinRecord {
    #[serde(rename = "winRecordId")]
    pub id: WinRecordId,
    pub activity_id: ActivityId,
    pub user_id: UserId,
    /// 1 to the winner count, by order of score; a redraw keeps it.
    pub seat: u32,
    /// 1 for the draw, one more for each redraw.
    pub round: u32,
    pub prize_id: PrizeId,
    /// 1 for the best prize.
    pub prize_rank: u32,
    #[serde(deserialize_with = "exact_number::deserialize")]
    pub score: f64,
    pub status: WinStatus,
    /// Of the draw or the redraw that gave it.
    #[serde(with = "to_millis")]
    pub drawn_at: Timestamp,
    /// The round in which it was revoked; `None` while it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_round: Option<u32>,
}

/// Whether a win still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WinStatus {
    Won,
    /// Taken back by an operator; its seat went to somebody else in a later round.
    Revoked,
}

impl WinStatus {
    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Won => "won",
            Self::Revoked => "revoked",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::Won, Self::Revoked]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}
