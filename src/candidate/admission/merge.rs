//! Merges the items of one activity into the rows of its users. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::batch::{ItemChange, Part, Phase};
use crate::{
    candidate::{
        Change, Effect, Filters, Join, Participation, PoolCount, PresenceKind, Rules, UserRows,
        Verdict,
        message::ReceivedJoin,
        store::{CompletionRow, DeviceClaim, PresenceRow, ShardKey},
    },
    kernel::{Timestamp, UserId},
};

/// What the database says about the joins of one activity.
#[derive(Debug, Default)]
pub(super) struct FilterRows {
    pub(super) denied: BTreeSet<UserId>,
    pub(super) cooling_down: HashSet<UserId>,
    pub(super) device_holders: BTreeMap<String, UserId>,
    pub(super) is_trimming: bool,
    /// Whether the app is believed about tasks.
    pub(super) trusts_completed_tasks: bool,
}

/// What to write for one activity.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// The rows of every user of the batch, as they will be.
    pub(super) rows: BTreeMap<UserId, UserRows>,
    pub(super) new_participants: BTreeSet<UserId>,
    /// Participants whose revision goes up by one.
    pub(super) revised: Vec<UserId>,
    pub(super) presence: Vec<PresenceRow>,
    pub(super) completions: Vec<CompletionRow>,
    pub(super) claims: BTreeSet<DeviceClaim>,
    pub(super) counts: BTreeMap<ShardKey, PoolCount>,
    /// Events that changed nothing, by reason.
    pub(super) dropped: BTreeMap<&'static str, u64>,
}

/// Merges all items of `part`, in their order, into the rows that are stored.
pub(super) fn merge(
    part: &Part<'_>,
    stored: &BTreeMap<UserId, UserRows>,
    mut filters: FilterRows,
) -> Merged {
    let mut merged = Merged {
        rows: stored.clone(),
        ..Merged::default()
    };
    for (user, change) in &part.changes {
        match (part.phase, &part.rules) {
            (Phase::Open, Some(rules)) => {
                merged.apply(part, rules, &mut filters, (*user, change));
            }
            (Phase::Open, None) | (Phase::Over(_), _) => merged.come_too_late(part, *user, change),
        }
    }
    for (user, before) in stored {
        merged.compare(part, *user, before);
    }
    merged
}

impl Merged {
    fn apply(
        &mut self,
        part: &Part<'_>,
        rules: &Rules,
        filters: &mut FilterRows,
        (user, item): (UserId, &ItemChange<'_>),
    ) {
        let change = match item {
            ItemChange::Join(join) => Change::Join(filters.judge_by(part, join)),
            ItemChange::Presence(event) => match event.kind {
                PresenceKind::Enter => Change::Entered {
                    at: event.occurred_at,
                },
                PresenceKind::Leave => Change::Left {
                    at: event.occurred_at,
                },
            },
            ItemChange::Task(event) => Change::TaskCompleted {
                task_id: event.task_id.clone(),
                at: event.completed_at,
            },
        };
        let rows = self.rows.entry(user).or_default();
        let known_tasks = rows.completed_tasks.clone();
        match rules.apply(user, rows, &change) {
            Effect::Settled(verdict) => self.claim_device(rules, filters, user, verdict),
            Effect::Updated | Effect::Unchanged => (),
            Effect::TooLate => self.drop_event("afterDraw"),
            Effect::UnknownTask => self.drop_event("unknownTask"),
        }
        self.note_completions(user, &known_tasks, &change);
    }

    /// A join that holds takes its device's entry.
    fn claim_device(
        &mut self,
        rules: &Rules,
        filters: &mut FilterRows,
        user: UserId,
        verdict: Verdict,
    ) {
        let participation = self
            .rows
            .get(&user)
            .and_then(|rows| rows.participation.as_ref());
        let device_id = participation.and_then(|participation| participation.device_id.clone());
        let Some(device_id) = device_id else { return };
        let takes = rules.one_entry_per_device && verdict == Verdict::Joined;
        if takes && !filters.device_holders.contains_key(&device_id) {
            filters.device_holders.insert(device_id.clone(), user);
            self.claims.insert(DeviceClaim {
                device_id,
                user_id: user,
            });
        }
    }

    fn note_completions(&mut self, user: UserId, known: &BTreeSet<String>, change: &Change) {
        let completed_at = match change {
            Change::Join(join) => join.accepted_at,
            Change::Entered { at } | Change::Left { at } | Change::TaskCompleted { at, .. } => *at,
        };
        let Some(rows) = self.rows.get(&user) else {
            return;
        };
        let new = rows.completed_tasks.difference(known);
        self.completions.extend(new.map(|task_id| CompletionRow {
            user_id: user,
            task_id: task_id.clone(),
            completed_at,
        }));
    }

    fn come_too_late(&mut self, part: &Part<'_>, user: UserId, item: &ItemChange<'_>) {
        let (ItemChange::Join(join), Phase::Over(reason)) = (item, part.phase) else {
            self.drop_event("late");
            return;
        };
        let rows = self.rows.entry(user).or_default();
        rows.participation.get_or_insert_with(|| Participation {
            verdict: Verdict::Late(reason),
            is_trimmed: false,
            device_id: join.device_id.clone(),
            accepted_at: accepted_at(part, join),
            request_id: join.request_id.clone(),
            revision: 1,
        });
    }

    fn drop_event(&mut self, reason: &'static str) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// Finds what is new about a user and has to be written.
    fn compare(&mut self, part: &Part<'_>, user: UserId, before: &UserRows) {
        let Some(after) = self.rows.get_mut(&user) else {
            return;
        };
        if *after == *before {
            return;
        }
        if after.presence != before.presence {
            self.presence.push(PresenceRow {
                user_id: user,
                last_leave_at: after.presence.last_leave_at,
                last_enter_at: after.presence.last_enter_at,
            });
        }
        let Some(participation) = &mut after.participation else {
            return;
        };
        let shard = (part.activity.id, part.activity.shard_of(user));
        let count = self.counts.entry(shard).or_default();
        if before.participation.is_none() {
            self.new_participants.insert(user);
            count.count(participation);
        } else {
            participation.revision += 1;
            self.revised.push(user);
            count.revision_sum += u64::from(participation.is_pooled());
        }
    }
}

impl FilterRows {
    fn judge_by(&self, part: &Part<'_>, join: &ReceivedJoin) -> Join {
        let device_holder = join
            .device_id
            .as_ref()
            .and_then(|device| self.device_holders.get(device));
        Join {
            accepted_at: accepted_at(part, join),
            device_id: join.device_id.clone(),
            completed_tasks: if self.trusts_completed_tasks {
                join.completed_tasks.clone()
            } else {
                Vec::new()
            },
            request_id: join.request_id.clone(),
            filters: Filters {
                is_denied: self.denied.contains(&join.user_id),
                is_cooling_down: self.cooling_down.contains(&join.user_id),
                device_holder: device_holder.copied(),
                is_invalid: join.is_invalid,
                is_trimming: self.is_trimming,
            },
        }
    }
}

/// A join that does not say when it was accepted is invalid, but its row needs a time: the
/// activity's start.
pub(super) fn accepted_at(part: &Part<'_>, join: &ReceivedJoin) -> Timestamp {
    join.accepted_at
        .or(part.activity.start_at)
        .unwrap_or(part.activity.created_at)
}
