//! The winners of one activity, as of one round.

use std::collections::HashMap;

use super::{WinRecord, WinStatus};
use crate::kernel::UserId;

/// Everybody who won an activity, up to one round; small enough to be kept in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WinnerList {
    round: u32,
    /// By seat, then round; revoked wins too.
    wins: Vec<WinRecord>,
    by_user: HashMap<UserId, usize>,
}

impl WinnerList {
    /// `wins` by seat and round; `round` is at least the activity's when they were read.
    pub(super) fn new(round: u32, wins: Vec<WinRecord>) -> Self {
        let rounds = |win: &WinRecord| win.round.max(win.revoked_round.unwrap_or(0));
        let newest = wins.iter().map(rounds).max().unwrap_or(0);
        let by_user = wins
            .iter()
            .enumerate()
            .map(|(index, win)| (win.user_id, index))
            .collect();
        Self {
            round: round.max(newest),
            wins,
            by_user,
        }
    }

    /// 0 before the draw, 1 after it, one more for each redraw.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Every win, revoked ones too, by seat and round.
    pub fn all(&self) -> &[WinRecord] {
        &self.wins
    }

    /// The wins that hold, by seat.
    pub fn current(&self) -> impl Iterator<Item = &WinRecord> {
        self.wins.iter().filter(|win| win.status == WinStatus::Won)
    }

    /// The wins that were taken back, by seat and round.
    pub(super) fn revoked(&self) -> impl Iterator<Item = &WinRecord> {
        let is_revoked = |win: &&WinRecord| win.status == WinStatus::Revoked;
        self.wins.iter().filter(is_revoked)
    }

    /// The user's win, revoked or not.
    pub fn of_user(&self, user_id: UserId) -> Option<&WinRecord> {
        self.by_user
            .get(&user_id)
            .and_then(|index| self.wins.get(*index))
    }
}
