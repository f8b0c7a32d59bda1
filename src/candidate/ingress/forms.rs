//! What other systems say in an event, and what is wrong with it. No I/O.

use chrono::Datelike;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::Feed;
use crate::{
    activity::Task,
    candidate::{PresenceEvent, PresenceKind, StreamMessage, TaskEvent},
    http::{Field, FieldErrors, UnknownFields},
    kernel::{Timestamp, UserId, to_millis},
};

/// Nothing happened in a live room before it; `MySQL` binds no time before 1970.
const FIRST_YEAR: i32 = 2_000;

/// The body of a call or of a message: its events, each as it came.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsBody {
    pub(super) events: Vec<Box<RawValue>>,
}

/// When an event may have happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    /// The latest time that is believed, this one included.
    pub(super) until: Timestamp,
    /// How far that is ahead of the database's clock, for the answer.
    pub(super) max_ahead_secs: u32,
}

/// An event that other systems report.
pub(super) trait Reported: Sized {
    const FEED: Feed;

    /// Its fields as they came.
    type Form: DeserializeOwned;

    /// Nothing, and all its faults, when the event cannot be right.
    fn read(form: &Self::Form, door: Door, faults: &mut FieldErrors) -> Option<Self>;

    fn user_id(&self) -> UserId;

    fn happened_at(&self) -> Timestamp;

    fn into_message(events: Vec<Self>) -> StreamMessage;
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PresenceForm {
    room_id: Field,
    user_id: Field,
    kind: Field,
    occurred_at: Field,
    #[serde(flatten)]
    unknown: UnknownFields,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TaskForm {
    activity_id: Field,
    user_id: Field,
    task_id: Field,
    completed_at: Field,
    #[serde(flatten)]
    unknown: UnknownFields,
}

impl Reported for PresenceEvent {
    const FEED: Feed = Feed::Presence;

    type Form = PresenceForm;

    fn read(form: &PresenceForm, door: Door, faults: &mut FieldErrors) -> Option<Self> {
        form.unknown.refuse(str::to_owned, faults);
        let room_id = form.room_id.required("roomId", faults);
        let user_id = form.user_id.required("userId", faults);
        let kind = presence_kind(&form.kind, faults);
        let occurred_at = moment(&form.occurred_at, "occurredAt", door, faults);
        Some(Self {
            room_id: room_id?,
            user_id: user_id?,
            kind: kind?,
            occurred_at: occurred_at?,
        })
    }

    fn user_id(&self) -> UserId {
        self.user_id
    }

    fn happened_at(&self) -> Timestamp {
        self.occurred_at
    }

    fn into_message(events: Vec<Self>) -> StreamMessage {
        StreamMessage::Presence { events }
    }
}

impl Reported for TaskEvent {
    const FEED: Feed = Feed::Tasks;

    type Form = TaskForm;

    fn read(form: &TaskForm, door: Door, faults: &mut FieldErrors) -> Option<Self> {
        form.unknown.refuse(str::to_owned, faults);
        let activity_id = form.activity_id.required("activityId", faults);
        let user_id = form.user_id.required("userId", faults);
        let task_id = task_id(&form.task_id, faults);
        let completed_at = moment(&form.completed_at, "completedAt", door, faults);
        Some(Self {
            activity_id: activity_id?,
            user_id: user_id?,
            task_id: task_id?,
            completed_at: completed_at?,
        })
    }

    fn user_id(&self) -> UserId {
        self.user_id
    }

    fn happened_at(&self) -> Timestamp {
        self.completed_at
    }

    fn into_message(events: Vec<Self>) -> StreamMessage {
        StreamMessage::Tasks { events }
    }
}

fn presence_kind(field: &Field, faults: &mut FieldErrors) -> Option<PresenceKind> {
    let word: String = field.required("kind", faults)?;
    match word.as_str() {
        "enter" => Some(PresenceKind::Enter),
        "leave" => Some(PresenceKind::Leave),
        _ => {
            faults.add("kind", "this is \"enter\" or \"leave\"");
            None
        }
    }
}

fn task_id(field: &Field, faults: &mut FieldErrors) -> Option<String> {
    let task_id: String = field.required("taskId", faults)?;
    if Task::is_id(&task_id) {
        return Some(task_id);
    }
    faults.add("taskId", Task::ID_FORM);
    None
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Moment(#[serde(with = "to_millis")] Timestamp);

fn moment(field: &Field, name: &str, door: Door, faults: &mut FieldErrors) -> Option<Timestamp> {
    let Moment(at) = field.required(name, faults)?;
    if at > door.until {
        let ahead = door.max_ahead_secs;
        faults.add(
            name,
            format!("this is more than {ahead} s ahead of the service's clock"),
        );
        return None;
    }
    if at.year() < FIRST_YEAR {
        faults.add(name, "this is before the year 2000");
        return None;
    }
    Some(at)
}
