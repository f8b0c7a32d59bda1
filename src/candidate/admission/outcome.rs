//! What a committed batch left behind.

use std::collections::BTreeMap;

use super::{batch::Part, merge::Merged};
use crate::{
    activity::{Activity, Status},
    candidate::{ParticipantState, Participation, Rules, UserRows},
    kernel::{ActivityId, RoomId, UserId},
    telemetry::metrics,
};

/// A participant that a batch concerned, as committed.
#[derive(Clone, Debug)]
pub(in crate::candidate) struct SettledUser {
    pub(in crate::candidate) state: ParticipantState,
    /// What the pool holds for the user; `None` for whoever is not in it.
    pub(in crate::candidate) pool_score: Option<String>,
    /// This batch gave the verdict, not an earlier one.
    pub(in crate::candidate) is_new: bool,
    pub(in crate::candidate) has_join: bool,
}

impl SettledUser {
    /// As stored, with nothing new; `None` for whoever has no participation.
    pub(in crate::candidate) fn of(
        rules: Option<&Rules>,
        user_id: UserId,
        rows: &UserRows,
    ) -> Option<Self> {
        let state = ParticipantState::of(rules, rows)?;
        let is_pooled = rows
            .participation
            .as_ref()
            .is_some_and(Participation::is_pooled);
        let pool_score = match (rules, state.eligibility) {
            (Some(rules), Some(eligibility)) if is_pooled => {
                Some(rules.pool_score(user_id, eligibility))
            }
            (Some(_) | None, _) => None,
        };
        Some(Self {
            state,
            pool_score,
            is_new: false,
            has_join: false,
        })
    }
}

/// The participants of one activity that a batch concerned.
#[derive(Clone, Debug)]
pub(in crate::candidate) struct SettledActivity {
    pub(in crate::candidate) activity: Activity,
    pub(in crate::candidate) users: BTreeMap<UserId, SettledUser>,
}

/// What a committed batch left behind.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) activities: BTreeMap<ActivityId, SettledActivity>,
    /// Items that can never be handled, by their number, and why.
    pub(super) dead: Vec<(usize, String)>,
    tally: Tally,
}

/// What the metrics count, once it is committed.
#[derive(Debug, Default)]
struct Tally {
    settled: BTreeMap<&'static str, u64>,
    dropped: BTreeMap<&'static str, u64>,
}

impl Outcome {
    pub(super) fn new(dead: Vec<(usize, String)>, without_activity: u64) -> Self {
        let mut outcome = Self {
            dead,
            ..Self::default()
        };
        outcome.tally.drop_events("noActivity", without_activity);
        outcome
    }

    /// Adds what was written for one activity.
    pub(super) fn add(&mut self, part: Part<'_>, merged: &Merged) {
        for (reason, count) in &merged.dropped {
            self.tally.drop_events(reason, *count);
        }
        let users = settled_users(&part, merged);
        let joins = part.changes.iter().filter(|(_, change)| change.is_join());
        let mut repeated = joins.count() as u64;
        for user in users.values().filter(|user| user.is_new) {
            self.tally.settle(user.state.verdict.outcome(), 1);
            repeated = repeated.saturating_sub(1);
        }
        self.tally.settle("repeated", repeated);
        self.merge_activity(SettledActivity {
            activity: part.activity,
            users,
        });
    }

    /// Adds what a later part of the same batch left behind.
    pub(super) fn extend(&mut self, later: Self) {
        self.dead.extend(later.dead);
        for (reason, count) in later.tally.dropped {
            self.tally.drop_events(reason, count);
        }
        for (outcome, count) in later.tally.settled {
            self.tally.settle(outcome, count);
        }
        for settled in later.activities.into_values() {
            self.merge_activity(settled);
        }
    }

    fn merge_activity(&mut self, later: SettledActivity) {
        let Some(settled) = self.activities.get_mut(&later.activity.id) else {
            self.activities.insert(later.activity.id, later);
            return;
        };
        settled.activity = later.activity;
        for (user_id, mut user) in later.users {
            if let Some(known) = settled.users.get(&user_id) {
                user.is_new |= known.is_new;
                user.has_join |= known.has_join;
            }
            settled.users.insert(user_id, user);
        }
    }

    /// The activity that runs in a room, among those of the batch.
    pub(super) fn running_in(&self, room_id: RoomId) -> Option<&SettledActivity> {
        self.activities.values().find(|settled| {
            settled.activity.room_id == room_id && settled.activity.status == Status::Open
        })
    }

    pub(super) fn record_metrics(&self) {
        for (outcome, count) in &self.tally.settled {
            metrics::joins_settled(outcome, *count);
        }
        for (reason, count) in &self.tally.dropped {
            metrics::events_dropped(reason, *count);
        }
        let late = |counts: &BTreeMap<&'static str, u64>| counts.get("late").copied().unwrap_or(0);
        let late_count = late(&self.tally.settled) + late(&self.tally.dropped);
        if late_count > 0 {
            metrics::stream_late(late_count);
        }
    }
}

impl Tally {
    fn settle(&mut self, outcome: &'static str, count: u64) {
        if count > 0 {
            *self.settled.entry(outcome).or_default() += count;
        }
    }

    fn drop_events(&mut self, reason: &'static str, count: u64) {
        if count > 0 {
            *self.dropped.entry(reason).or_default() += count;
        }
    }
}

/// The participants that the items of an open activity concern; of one that is over, those that
/// joins concern.
fn settled_users(part: &Part<'_>, merged: &Merged) -> BTreeMap<UserId, SettledUser> {
    let joins = part.joins();
    let is_open = part.activity.status == Status::Open;
    let concerned = merged
        .rows
        .iter()
        .filter(|(user_id, _)| is_open || joins.contains_key(user_id));
    concerned
        .filter_map(|(user_id, rows)| {
            let mut settled = SettledUser::of(part.rules.as_ref(), *user_id, rows)?;
            settled.is_new = merged.new_participants.contains(user_id);
            settled.has_join = joins.contains_key(user_id);
            Some((*user_id, settled))
        })
        .collect()
}
