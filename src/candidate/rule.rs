//! Who may win: the pure rule over a user's rows. No I/O; tests hold it against a reference model.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use super::Standing;
use crate::{
    activity::{Activity, PresenceRule, Seed},
    kernel::{Timestamp, UserId},
};

/// What an activity asks of its participants, fixed at its opening.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    pub seed: Seed,
    pub draw_at: Timestamp,
    pub presence_rule: PresenceRule,
    pub tasks: BTreeSet<String>,
    pub one_entry_per_device: bool,
    /// Below this score a user is not pooled once trimming has begun.
    pub trim_floor: f64,
}

impl Rules {
    /// `None` before the opening, when there is no seed and no drawAt yet.
    pub fn of(activity: &Activity) -> Option<Self> {
        Some(Self {
            seed: activity.seed?,
            draw_at: activity.draw_at?,
            presence_rule: activity.presence_rule,
            tasks: activity
                .tasks
                .iter()
                .map(|task| task.task_id.clone())
                .collect(),
            one_entry_per_device: activity.one_entry_per_device,
            trim_floor: activity.trim_floor,
        })
    }
}

/// Everything that is stored about one user in one activity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserRows {
    pub participation: Option<Participation>,
    pub presence: Presence,
    /// The activity's tasks that have a completion.
    pub completed_tasks: BTreeSet<String>,
}

/// The durable record that a user joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Participation {
    pub verdict: Verdict,
    /// Joined, but kept out of the Redis pool because the pool is large and the score low.
    pub is_trimmed: bool,
    pub device_id: Option<String>,
    pub accepted_at: Timestamp,
    pub request_id: String,
    /// 1 at admission, one more in each transaction that changes anything of the user.
    pub revision: u32,
}

impl Participation {
    /// Whether the user is a member of the Redis pool.
    pub fn is_pooled(&self) -> bool {
        self.verdict == Verdict::Joined && !self.is_trimmed
    }
}

/// What became of a user's first join; final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Joined,
    Rejected(RejectReason),
    Late(LateReason),
}

/// Why a join was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RejectReason {
    /// The user is on a deny list.
    Blocked,
    /// The user has won within the cool-down before the join.
    Cooldown,
    /// The device's one entry belongs to another user.
    DuplicateDevice,
    /// The join itself makes no sense.
    Invalid,
}

/// Why a join came too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LateReason {
    /// Accepted at or after drawAt, or handled after the freeze.
    Closed,
    /// The activity was cancelled.
    Cancelled,
}

impl Verdict {
    /// The two stored words: status and reason.
    pub const fn as_words(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Joined => ("joined", None),
            Self::Rejected(RejectReason::Blocked) => ("rejected", Some("blocked")),
            Self::Rejected(RejectReason::Cooldown) => ("rejected", Some("cooldown")),
            Self::Rejected(RejectReason::DuplicateDevice) => ("rejected", Some("duplicateDevice")),
            Self::Rejected(RejectReason::Invalid) => ("rejected", Some("invalid")),
            Self::Late(LateReason::Closed) => ("late", Some("closed")),
            Self::Late(LateReason::Cancelled) => ("late", Some("cancelled")),
        }
    }

    pub fn parse(status: &str, reason: Option<&str>) -> Option<Self> {
        [
            Self::Joined,
            Self::Rejected(RejectReason::Blocked),
            Self::Rejected(RejectReason::Cooldown),
            Self::Rejected(RejectReason::DuplicateDevice),
            Self::Rejected(RejectReason::Invalid),
            Self::Late(LateReason::Closed),
            Self::Late(LateReason::Cancelled),
        ]
        .into_iter()
        .find(|verdict| verdict.as_words() == (status, reason))
    }
}

/// When the user last left and last entered the room: two maxima, so neither order nor repetition
/// of events matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    pub last_leave_at: Option<Timestamp>,
    pub last_enter_at: Option<Timestamp>,
}

/// One thing that the stream says about a user.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Join(Join),
    Entered { at: Timestamp },
    Left { at: Timestamp },
    TaskCompleted { task_id: String, at: Timestamp },
}

/// A join as it was accepted, together with what the filters know.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub accepted_at: Timestamp,
    pub device_id: Option<String>,
    /// Tasks that the app reports as finished, where it is believed.
    pub completed_tasks: Vec<String>,
    pub request_id: String,
    pub filters: Filters,
}

/// What the database says about a join's user and device.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filters {
    pub is_denied: bool,
    /// A win that is not revoked lies within the cool-down before acceptedAt.
    pub is_cooling_down: bool,
    /// Who holds the device's entry.
    pub device_holder: Option<UserId>,
    /// The join cannot be right, such as a missing device id where one is required.
    pub is_invalid: bool,
    /// More than `trim_after` participants have been counted.
    pub is_trimming: bool,
}

/// What a change did to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The join has its verdict.
    Settled(Verdict),
    /// The rows say something new.
    Updated,
    /// The rows said it already.
    Unchanged,
    /// The event happened at or after drawAt.
    TooLate,
    /// The task is not one of this activity's.
    UnknownTask,
}

impl Rules {
    /// Merges one change of an open activity into a user's rows.
    ///
    /// The first verdict is final; events merge in any order. Revisions are the caller's: one more
    /// a transaction, not a change.
    pub fn apply(&self, user_id: UserId, rows: &mut UserRows, change: &Change) -> Effect {
        match change {
            Change::Join(join) => self.admit(user_id, rows, join),
            Change::Entered { at } => self.merge(&mut rows.presence.last_enter_at, *at),
            Change::Left { at } => self.merge(&mut rows.presence.last_leave_at, *at),
            Change::TaskCompleted { task_id, at } => self.complete(rows, task_id, *at),
        }
    }

    fn merge(&self, maximum: &mut Option<Timestamp>, at: Timestamp) -> Effect {
        if at >= self.draw_at {
            return Effect::TooLate;
        }
        if maximum.is_some_and(|known| known >= at) {
            return Effect::Unchanged;
        }
        *maximum = Some(at);
        Effect::Updated
    }

    fn complete(&self, rows: &mut UserRows, task_id: &str, at: Timestamp) -> Effect {
        if !self.tasks.contains(task_id) {
            return Effect::UnknownTask;
        }
        if at >= self.draw_at {
            return Effect::TooLate;
        }
        if rows.completed_tasks.insert(task_id.to_owned()) {
            Effect::Updated
        } else {
            Effect::Unchanged
        }
    }

    fn admit(&self, user_id: UserId, rows: &mut UserRows, join: &Join) -> Effect {
        if rows.participation.is_some() {
            return Effect::Unchanged;
        }
        let verdict = self.judge(user_id, join);
        if verdict == Verdict::Joined {
            for task_id in &join.completed_tasks {
                // An unknown task changes nothing, and acceptedAt is known to lie before drawAt.
                self.complete(rows, task_id, join.accepted_at);
            }
        }
        let is_trimmed = verdict == Verdict::Joined
            && join.filters.is_trimming
            && Standing::of(&self.seed, user_id).score.value() < self.trim_floor;
        rows.participation = Some(Participation {
            verdict,
            is_trimmed,
            device_id: join.device_id.clone(),
            accepted_at: join.accepted_at,
            request_id: join.request_id.clone(),
            revision: 1,
        });
        Effect::Settled(verdict)
    }

    fn judge(&self, user_id: UserId, join: &Join) -> Verdict {
        let filters = &join.filters;
        if join.accepted_at >= self.draw_at {
            return Verdict::Late(LateReason::Closed);
        }
        if filters.is_invalid || (self.one_entry_per_device && join.device_id.is_none()) {
            return Verdict::Rejected(RejectReason::Invalid);
        }
        if filters.is_denied {
            return Verdict::Rejected(RejectReason::Blocked);
        }
        if filters.is_cooling_down {
            return Verdict::Rejected(RejectReason::Cooldown);
        }
        let is_taken = filters
            .device_holder
            .is_some_and(|holder| holder != user_id);
        if self.one_entry_per_device && is_taken {
            return Verdict::Rejected(RejectReason::DuplicateDevice);
        }
        Verdict::Joined
    }

    /// Whether a participant can win as things stand; `None` for whoever has not joined.
    pub fn eligibility(&self, rows: &UserRows) -> Option<Eligibility> {
        let participation = rows.participation.as_ref()?;
        if participation.verdict != Verdict::Joined {
            return None;
        }
        let is_finished = self.tasks.is_subset(&rows.completed_tasks);
        let is_absent = self.is_absent(&rows.presence, participation.accepted_at);
        Some(match (is_absent, is_finished, self.presence_rule) {
            (false, true, _) => Eligibility::Eligible,
            (false, false, _) => Eligibility::TasksUnfinished,
            (true, _, PresenceRule::Forfeit) => Eligibility::Forfeited { is_finished },
            (true, true, PresenceRule::Ignore | PresenceRule::Pause) => Eligibility::Absent,
            (true, false, PresenceRule::Ignore | PresenceRule::Pause) => {
                Eligibility::AbsentAndTasksUnfinished
            }
        })
    }

    /// A join counts as an enter at its acceptedAt.
    fn is_absent(&self, presence: &Presence, accepted_at: Timestamp) -> bool {
        let Some(last_leave_at) = presence.last_leave_at else {
            return false;
        };
        match self.presence_rule {
            PresenceRule::Ignore => false,
            PresenceRule::Pause => {
                last_leave_at
                    >= presence
                        .last_enter_at
                        .max(Some(accepted_at))
                        .unwrap_or(accepted_at)
            }
            PresenceRule::Forfeit => last_leave_at >= accepted_at,
        }
    }

    /// What the pool holds for a participant: the score, or a pair of flags below zero.
    pub fn pool_score(&self, user_id: UserId, eligibility: Eligibility) -> String {
        match eligibility {
            Eligibility::Eligible => Standing::of(&self.seed, user_id).score.to_text(),
            Eligibility::Absent | Eligibility::Forfeited { is_finished: true } => "-1".to_owned(),
            Eligibility::TasksUnfinished => "-2".to_owned(),
            Eligibility::AbsentAndTasksUnfinished
            | Eligibility::Forfeited { is_finished: false } => "-3".to_owned(),
        }
    }
}

/// Whether a participant can win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligibility {
    Eligible,
    /// Away; returning before drawAt restores the entry.
    Absent,
    TasksUnfinished,
    AbsentAndTasksUnfinished,
    /// Left where leaving is final.
    Forfeited {
        is_finished: bool,
    },
}

impl Eligibility {
    /// The shown word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eligible => "eligible",
            Self::Absent => "absent",
            Self::TasksUnfinished => "tasksUnfinished",
            Self::AbsentAndTasksUnfinished => "absentAndTasksUnfinished",
            Self::Forfeited { .. } => "forfeited",
        }
    }
}

impl fmt::Display for Eligibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use proptest::prelude::*;

    use super::*;

    const USER: UserId = UserId(7);

    fn at(ms: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(ms)
    }

    fn rules(presence_rule: PresenceRule, tasks: &[&str]) -> Rules {
        Rules {
            seed: Seed::new([3; 32]),
            draw_at: at(1_000),
            presence_rule,
            tasks: tasks.iter().map(ToString::to_string).collect(),
            one_entry_per_device: false,
            trim_floor: 0.99,
        }
    }

    const NO_FILTERS: Filters = Filters {
        is_denied: false,
        is_cooling_down: false,
        device_holder: None,
        is_invalid: false,
        is_trimming: false,
    };

    fn join(accepted_at: i64) -> Join {
        Join {
            accepted_at: at(accepted_at),
            device_id: None,
            completed_tasks: vec![],
            request_id: "r".to_owned(),
            filters: NO_FILTERS,
        }
    }

    fn after(rules: &Rules, changes: &[Change]) -> UserRows {
        let mut rows = UserRows::default();
        for change in changes {
            rules.apply(USER, &mut rows, change);
        }
        rows
    }

    #[test]
    fn the_first_verdict_is_final() {
        let rules = rules(PresenceRule::Ignore, &[]);
        let mut denied = join(10);
        denied.filters.is_denied = true;
        let mut rows = UserRows::default();

        let first = rules.apply(USER, &mut rows, &Change::Join(denied));
        let second = rules.apply(USER, &mut rows, &Change::Join(join(20)));

        assert_eq!(
            first,
            Effect::Settled(Verdict::Rejected(RejectReason::Blocked))
        );
        assert_eq!(second, Effect::Unchanged);
    }

    #[test]
    fn a_join_accepted_at_draw_at_is_late_and_one_a_millisecond_before_is_not() {
        let rules = rules(PresenceRule::Ignore, &[]);
        let verdict = |accepted_at| {
            after(&rules, &[Change::Join(join(accepted_at))])
                .participation
                .unwrap()
                .verdict
        };

        assert_eq!(verdict(999), Verdict::Joined);
        assert_eq!(verdict(1_000), Verdict::Late(LateReason::Closed));
    }

    #[test]
    fn under_pause_leaving_suspends_and_returning_restores() {
        let rules = rules(PresenceRule::Pause, &[]);
        let mut rows = after(
            &rules,
            &[Change::Join(join(10)), Change::Left { at: at(20) }],
        );
        assert_eq!(rules.eligibility(&rows), Some(Eligibility::Absent));

        rules.apply(USER, &mut rows, &Change::Entered { at: at(21) });
        assert_eq!(rules.eligibility(&rows), Some(Eligibility::Eligible));

        // Leaving and entering in one millisecond counts as away.
        rules.apply(USER, &mut rows, &Change::Left { at: at(21) });
        assert_eq!(rules.eligibility(&rows), Some(Eligibility::Absent));
    }

    #[test]
    fn under_forfeit_leaving_after_the_join_is_final_and_leaving_before_it_is_not() {
        let rules = rules(PresenceRule::Forfeit, &["follow"]);
        let done = Change::TaskCompleted {
            task_id: "follow".to_owned(),
            at: at(5),
        };
        let mut rows = after(
            &rules,
            &[Change::Left { at: at(9) }, Change::Join(join(10)), done],
        );
        assert_eq!(rules.eligibility(&rows), Some(Eligibility::Eligible));

        rules.apply(USER, &mut rows, &Change::Left { at: at(11) });
        rules.apply(USER, &mut rows, &Change::Entered { at: at(12) });
        let eligibility = rules.eligibility(&rows).unwrap();
        assert_eq!(eligibility, Eligibility::Forfeited { is_finished: true });
        assert_eq!(rules.pool_score(USER, eligibility), "-1");
    }

    #[test]
    fn a_device_has_one_entry_and_its_holder_may_repeat() {
        let mut rules = rules(PresenceRule::Ignore, &[]);
        rules.one_entry_per_device = true;
        let verdict = |holder: Option<UserId>, device: Option<&str>| {
            let mut join = join(10);
            join.device_id = device.map(ToOwned::to_owned);
            join.filters.device_holder = holder;
            after(&rules, &[Change::Join(join)])
                .participation
                .unwrap()
                .verdict
        };

        assert_eq!(verdict(None, Some("d")), Verdict::Joined);
        assert_eq!(verdict(Some(USER), Some("d")), Verdict::Joined);
        assert_eq!(
            verdict(Some(UserId(8)), Some("d")),
            Verdict::Rejected(RejectReason::DuplicateDevice)
        );
        assert_eq!(
            verdict(None, None),
            Verdict::Rejected(RejectReason::Invalid)
        );
    }

    #[test]
    fn verdicts_read_back_from_their_words() {
        for (status, reason) in [
            ("joined", None),
            ("rejected", Some("blocked")),
            ("rejected", Some("cooldown")),
            ("rejected", Some("duplicateDevice")),
            ("rejected", Some("invalid")),
            ("late", Some("closed")),
            ("late", Some("cancelled")),
        ] {
            assert_eq!(
                Verdict::parse(status, reason).unwrap().as_words(),
                (status, reason)
            );
        }
        assert_eq!(Verdict::parse("joined", Some("blocked")), None);
    }

    fn any_event() -> impl Strategy<Value = Change> {
        (0..3_u8, 0..1_100_i64).prop_map(|(kind, ms)| match kind {
            0 => Change::Entered { at: at(ms) },
            1 => Change::Left { at: at(ms) },
            _ => Change::TaskCompleted {
                task_id: "follow".to_owned(),
                at: at(ms),
            },
        })
    }

    fn any_rule() -> impl Strategy<Value = PresenceRule> {
        prop_oneof![
            Just(PresenceRule::Ignore),
            Just(PresenceRule::Pause),
            Just(PresenceRule::Forfeit)
        ]
    }

    proptest! {
        /// Neither order nor repetition of events changes who may win, also before the join.
        #[test]
        fn events_merge_in_any_order(
            presence_rule in any_rule(),
            (events, shuffled) in prop::collection::vec(any_event(), 0..8)
                .prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
            accepted_at in 0..1_000_i64,
            join_position in 0..8_usize,
        ) {
            let rules = rules(presence_rule, &["follow"]);
            let mut join_first = vec![Change::Join(join(accepted_at))];
            join_first.extend(events.clone());
            let mut other = shuffled.clone();
            other.extend(shuffled);
            other.insert(join_position.min(other.len()), Change::Join(join(accepted_at)));

            let one = after(&rules, &join_first);
            let two = after(&rules, &other);

            prop_assert_eq!(rules.eligibility(&one), rules.eligibility(&two));
            prop_assert_eq!(one, two);
        }
    }
}
