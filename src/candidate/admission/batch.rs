//! Sorts the items of a batch by the activity they concern. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    activity::{Activity, Status},
    candidate::{
        LateReason, PresenceEvent, Rules,
        message::{Item, ReceivedJoin, TaskEvent},
    },
    kernel::{ActivityId, RoomId, UserId},
};

/// A message of the stream whose items are to be admitted.
#[derive(Clone, Debug)]
pub(in crate::candidate) struct Message {
    pub(in crate::candidate) id: String,
    pub(in crate::candidate) items: Vec<Item>,
}

/// An item and where it stands among those of its batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbered<'a> {
    pub(super) number: usize,
    pub(super) item: &'a Item,
}

/// What an activity does with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It merges it by its rules.
    Open,
    /// A join is late for this reason, an event is dropped.
    Over(LateReason),
}

/// The items of one activity, in their order.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) activity: Activity,
    pub(super) phase: Phase,
    /// `None` for an activity that never opened.
    pub(super) rules: Option<Rules>,
    pub(super) changes: Vec<(UserId, ItemChange<'a>)>,
}

/// What an item says about its user.
#[derive(Clone, Copy, Debug)]
pub(super) enum ItemChange<'a> {
    Join(&'a ReceivedJoin),
    Presence(&'a PresenceEvent),
    Task(&'a TaskEvent),
}

impl ItemChange<'_> {
    pub(super) const fn is_join(&self) -> bool {
        match self {
            Self::Join(_) => true,
            Self::Presence(_) | Self::Task(_) => false,
        }
    }
}

/// A batch, sorted.
#[derive(Debug, Default)]
pub(super) struct Sorted<'a> {
    /// By activity id.
    pub(super) parts: Vec<Part<'a>>,
    /// Items that can never be handled, by their number, and why.
    pub(super) dead: Vec<(usize, String)>,
    /// Events that concern no activity that is or was open.
    pub(super) without_activity: u64,
}

/// The rooms whose presence events are in the batch.
pub(super) fn rooms(items: &[Numbered<'_>]) -> Vec<RoomId> {
    let rooms: BTreeSet<RoomId> = items
        .iter()
        .filter_map(|numbered| match numbered.item {
            Item::Presence(event) => Some(event.room_id),
            Item::Join(_) | Item::Task(_) | Item::Unusable { .. } => None,
        })
        .collect();
    rooms.into_iter().collect()
}

/// The activities that joins and tasks of the batch name.
pub(super) fn named_activities(items: &[Numbered<'_>]) -> BTreeSet<ActivityId> {
    items
        .iter()
        .filter_map(|numbered| match numbered.item {
            Item::Join(join) => Some(join.activity_id),
            Item::Task(event) => Some(event.activity_id),
            Item::Presence(_) | Item::Unusable { .. } => None,
        })
        .collect()
}

/// Hands each item to its activity; `activities` are locked, so their states hold.
pub(super) fn sort<'a>(items: &[Numbered<'a>], activities: Vec<Activity>) -> Sorted<'a> {
    let running: BTreeMap<RoomId, ActivityId> = activities
        .iter()
        .filter(|activity| matches!(activity.status, Status::Open | Status::Drawing))
        .map(|activity| (activity.room_id, activity.id))
        .collect();
    let mut parts: BTreeMap<ActivityId, Part<'a>> = activities
        .into_iter()
        .filter_map(|activity| Some((activity.id, Part::of(activity)?)))
        .collect();

    let mut sorted = Sorted::default();
    for numbered in items {
        let (activity_id, user_id, change) = match numbered.item {
            Item::Join(join) => (Some(join.activity_id), join.user_id, ItemChange::Join(join)),
            Item::Presence(event) => (
                running.get(&event.room_id).copied(),
                event.user_id,
                ItemChange::Presence(event),
            ),
            Item::Task(event) => (
                Some(event.activity_id),
                event.user_id,
                ItemChange::Task(event),
            ),
            Item::Unusable { reason, .. } => {
                sorted.dead.push((numbered.number, reason.clone()));
                continue;
            }
        };
        match activity_id.and_then(|id| parts.get_mut(&id)) {
            Some(part) => part.changes.push((user_id, change)),
            None if change.is_join() => {
                let reason = "its activity does not exist or has not been opened".to_owned();
                sorted.dead.push((numbered.number, reason));
            }
            None => sorted.without_activity += 1,
        }
    }
    sorted.parts = parts
        .into_values()
        .filter(|part| !part.changes.is_empty())
        .collect();
    sorted
}

impl Part<'_> {
    /// `None` for an activity that has not been opened yet and still may be.
    fn of(activity: Activity) -> Option<Self> {
        let phase = match activity.status {
            Status::Open => Phase::Open,
            Status::Drawing | Status::Drawn => Phase::Over(LateReason::Closed),
            Status::Cancelled => Phase::Over(LateReason::Cancelled),
            Status::Draft | Status::InReview | Status::Rejected | Status::Ready => return None,
        };
        Some(Self {
            rules: Rules::of(&activity),
            activity,
            phase,
            changes: Vec::new(),
        })
    }

    /// The users of its items, each once.
    pub(super) fn users(&self) -> Vec<UserId> {
        let users: BTreeSet<UserId> = self.changes.iter().map(|(user, _)| *user).collect();
        users.into_iter().collect()
    }

    /// The first join of each user.
    pub(super) fn joins(&self) -> BTreeMap<UserId, &ReceivedJoin> {
        let mut joins = BTreeMap::new();
        for (user, change) in &self.changes {
            if let ItemChange::Join(join) = change {
                joins.entry(*user).or_insert(*join);
            }
        }
        joins
    }
}
