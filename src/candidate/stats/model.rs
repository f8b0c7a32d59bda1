//! The figures. No I/O.

use std::ops::AddAssign;

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    activity::{Activity, PresenceRule, Status},
    candidate::{Eligibility, PoolCount},
    http::openapi::Moment,
    kernel::{ActivityId, Timestamp, to_millis},
};

/// What there is to know about an activity's participants at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    pub activity_id: ActivityId,
    pub status: Status,
    /// Database time; what was committed before it is in the figures.
    #[serde(with = "to_millis")]
    #[schema(value_type = Moment)]
    pub as_of: Timestamp,
    /// Those who joined: eligible, absent, unfinished, both, and forfeited together.
    pub joined: u64,
    #[serde(flatten)]
    pub split: Split,
    /// Of those who joined, how many the Redis pool leaves out. It changes nobody's chance.
    pub trimmed: u64,
    pub rejected: RejectedCounts,
    pub late: u64,
    pub winner_count: u32,
    /// Whether as many are eligible as there are seats; `None` where nothing is drawn.
    #[schema(required)]
    pub fills_all_seats: Option<bool>,
}

/// Those who joined, by whether they can win; each is in one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Split {
    pub eligible: u64,
    pub absent: u64,
    pub tasks_unfinished: u64,
    pub absent_and_tasks_unfinished: u64,
    pub forfeited: u64,
}

/// Joins that were rejected, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedCounts {
    pub blocked: u64,
    pub cooldown: u64,
    pub duplicate_device: u64,
    pub invalid: u64,
}

impl Split {
    /// Counts one who joined.
    pub(super) fn count(&mut self, eligibility: Eligibility) {
        let counter = match eligibility {
            Eligibility::Eligible => &mut self.eligible,
            Eligibility::Absent => &mut self.absent,
            Eligibility::TasksUnfinished => &mut self.tasks_unfinished,
            Eligibility::AbsentAndTasksUnfinished => &mut self.absent_and_tasks_unfinished,
            Eligibility::Forfeited { .. } => &mut self.forfeited,
        };
        *counter += 1;
    }

    /// What the pool's flags -1, -2 and -3 stand for under a presence rule.
    pub(super) fn of_flags(
        presence_rule: PresenceRule,
        eligible: u64,
        [absent, unfinished, both]: [u64; 3],
    ) -> Self {
        let split = Self {
            eligible,
            tasks_unfinished: unfinished,
            ..Self::default()
        };
        match presence_rule {
            PresenceRule::Forfeit => Self {
                forfeited: absent + both,
                ..split
            },
            PresenceRule::Ignore | PresenceRule::Pause => Self {
                absent,
                absent_and_tasks_unfinished: both,
                ..split
            },
        }
    }

    /// All who joined.
    pub fn total(&self) -> u64 {
        self.eligible
            + self.absent
            + self.tasks_unfinished
            + self.absent_and_tasks_unfinished
            + self.forfeited
    }
}

impl AddAssign for Split {
    fn add_assign(&mut self, other: Self) {
        self.eligible += other.eligible;
        self.absent += other.absent;
        self.tasks_unfinished += other.tasks_unfinished;
        self.absent_and_tasks_unfinished += other.absent_and_tasks_unfinished;
        self.forfeited += other.forfeited;
    }
}

/// Those who joined, split, and how many of them are trimmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) split: Split,
    pub(super) trimmed: u64,
}

impl Stats {
    pub(super) fn of(
        activity: &Activity,
        as_of: Timestamp,
        joined: Joined,
        counted: PoolCount,
    ) -> Self {
        let is_drawn_some_time = match activity.status {
            Status::Rejected | Status::Cancelled => false,
            Status::Draft
            | Status::InReview
            | Status::Ready
            | Status::Open
            | Status::Drawing
            | Status::Drawn => true,
        };
        let fills_all_seats = joined.split.eligible >= u64::from(activity.winner_count);
        Self {
            activity_id: activity.id,
            status: activity.status,
            as_of,
            joined: joined.split.total(),
            split: joined.split,
            trimmed: joined.trimmed,
            rejected: RejectedCounts {
                blocked: counted.blocked,
                cooldown: counted.cooldown,
                duplicate_device: counted.duplicate_device,
                invalid: counted.invalid,
            },
            late: counted.late,
            winner_count: activity.winner_count,
            fills_all_seats: is_drawn_some_time.then_some(fills_all_seats),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_the_pool_and_the_words_of_the_rows_give_the_same_split() {
        let words = |eligibilities: &[Eligibility]| {
            let mut split = Split::default();
            for eligibility in eligibilities {
                split.count(*eligibility);
            }
            split
        };
        let forfeited = |is_finished| Eligibility::Forfeited { is_finished };

        let under_pause = words(&[
            Eligibility::Eligible,
            Eligibility::Absent,
            Eligibility::Absent,
            Eligibility::TasksUnfinished,
            Eligibility::TasksUnfinished,
            Eligibility::TasksUnfinished,
            Eligibility::AbsentAndTasksUnfinished,
        ]);
        let under_forfeit = words(&[
            Eligibility::Eligible,
            forfeited(true),
            forfeited(true),
            Eligibility::TasksUnfinished,
            Eligibility::TasksUnfinished,
            Eligibility::TasksUnfinished,
            forfeited(false),
        ]);

        assert_eq!(
            Split::of_flags(PresenceRule::Pause, 1, [2, 3, 1]),
            under_pause
        );
        assert_eq!(
            Split::of_flags(PresenceRule::Forfeit, 1, [2, 3, 1]),
            under_forfeit
        );
        assert_eq!((under_pause.total(), under_forfeit.total()), (7, 7));
        assert_eq!((under_pause.forfeited, under_forfeit.forfeited), (0, 3));
    }
}
