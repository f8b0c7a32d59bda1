//! What a user is told about an activity's result.

use std::time::Duration;

use serde::Serialize;
use utoipa::ToSchema;

use super::{WinRecord, WinStatus, WinnerList, poll};
use crate::{
    activity::{ActivityDetail, ActivityPrize, PrizeKind, Status},
    kernel::{PrizeId, Timestamp, UserId, WinRecordId},
};

/// What became of a user in an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ResultKind {
    NotDrawn,
    /// drawAt has passed, the result is not committed yet.
    Drawing,
    Won,
    NotWon,
    /// The user had won, and an operator took it back.
    Revoked,
}

/// The answer to "have I won?".
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserResult {
    pub result: ResultKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub win: Option<Win>,
    /// The lowest score that won in the draw; a redraw leaves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cutoff_score: Option<f64>,
    /// 0 before the draw, 1 after it, one more for each redraw.
    pub round: u32,
    /// When to ask again.
    pub next_poll_ms: u64,
}

/// What a winner got.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Win {
    pub win_record_id: WinRecordId,
    pub prize: WonPrize,
    /// The winner's place by score, 1 for the best.
    pub rank: u32,
}

/// One piece of a prize.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WonPrize {
    pub prize_id: PrizeId,
    pub name: String,
    pub kind: PrizeKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub image: Option<String>,
    /// 1 for the best prize.
    pub rank: u32,
}

/// Who waits for the draw together, and the caller's place among them: from 0 to 1, at random.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    pub(super) waiting: u64,
    pub(super) chance: f64,
}

impl UserResult {
    /// The result before there is one; `now` is the database's time.
    pub(super) fn before_draw(detail: &ActivityDetail, now: Timestamp, crowd: Crowd) -> Self {
        let left = time_left(detail, now);
        let result = match detail.status {
            Status::Drawing => ResultKind::Drawing,
            Status::Open if left.is_some_and(|left| left.is_zero()) => ResultKind::Drawing,
            Status::Draft
            | Status::InReview
            | Status::Rejected
            | Status::Ready
            | Status::Open
            | Status::Drawn
            | Status::Cancelled => ResultKind::NotDrawn,
        };
        Self {
            result,
            win: None,
            cutoff_score: None,
            round: 0,
            next_poll_ms: next_poll_ms(result, left, crowd),
        }
    }

    /// The result of a drawn activity.
    pub(super) fn after_draw(
        detail: &ActivityDetail,
        winners: &WinnerList,
        user_id: UserId,
        crowd: Crowd,
    ) -> Self {
        let (result, win) = match winners.of_user(user_id) {
            Some(win) => match win.status {
                WinStatus::Won => (ResultKind::Won, Some(Win::of(detail, win))),
                WinStatus::Revoked => (ResultKind::Revoked, None),
            },
            None => (ResultKind::NotWon, None),
        };
        Self {
            result,
            win,
            cutoff_score: detail.cutoff_score,
            round: winners.round(),
            next_poll_ms: next_poll_ms(result, None, crowd),
        }
    }
}

impl Win {
    fn of(detail: &ActivityDetail, win: &WinRecord) -> Self {
        Self {
            win_record_id: win.id,
            prize: WonPrize::of(&detail.prizes, win),
            rank: win.seat,
        }
    }
}

impl WonPrize {
    /// The piece that was won, out of the prizes of its activity.
    pub fn of(prizes: &[ActivityPrize], win: &WinRecord) -> Self {
        let prize = prizes.iter().find(|prize| prize.rank == win.prize_rank);
        Self {
            prize_id: win.prize_id,
            name: prize.map(|prize| prize.name.clone()).unwrap_or_default(),
            kind: prize.map_or(PrizeKind::Physical, |prize| prize.kind),
            image: prize.and_then(|prize| prize.image.clone()),
            rank: win.prize_rank,
        }
    }
}

/// How long until drawAt, zero once it has passed; `None` when nothing will be drawn.
pub(super) fn time_left(detail: &ActivityDetail, now: Timestamp) -> Option<Duration> {
    let draw_at = detail.draw_at.filter(|_| !detail.status.is_final())?;
    Some((draw_at - now).to_std().unwrap_or_default())
}

fn next_poll_ms(result: ResultKind, left: Option<Duration>, crowd: Crowd) -> u64 {
    let pause = poll::pause(result, left, crowd.waiting, crowd.chance);
    u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
}
