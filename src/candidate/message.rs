//! What travels in the stream: joins, presence and task events in batches, and barriers.
//!
//! Written by this version as `"v": 1`; read leniently, item by item, so that one bad item never
//! fails its neighbours and a newer version may add fields.

use chrono::DateTime;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    infra::broker::{Outgoing, Target},
    kernel::{ActivityId, RoomId, Timestamp, UserId, mix, to_millis, truncate_to_millis},
};

/// The form that is written, and the only one that is read.
const VERSION: u64 = 1;

/// Longest device id and request id that is stored, in characters.
const MAX_TEXT_CHARS: usize = 64;

/// Whether a device id is 1 to 64 printable ASCII characters without spaces around them.
///
/// The database takes "a" and "a " for the same.
pub fn is_device_id(text: &str) -> bool {
    (1..=MAX_TEXT_CHARS).contains(&text.len())
        && text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && text.trim() == text
}

/// One message of the stream, as it is sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum StreamMessage {
    Joins { joins: Vec<JoinRequest> },
    Presence { events: Vec<PresenceEvent> },
    Tasks { events: Vec<TaskEvent> },
    Barrier { passes: Vec<BarrierPass> },
}

/// A join that was accepted at the door.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinRequest {
    pub activity_id: ActivityId,
    pub user_id: UserId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub completed_tasks: Vec<String>,
    /// Database time.
    #[serde(with = "to_millis")]
    pub accepted_at: Timestamp,
    pub request_id: String,
}

/// A user entered or left a room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PresenceEvent {
    pub room_id: RoomId,
    pub user_id: UserId,
    pub kind: PresenceKind,
    #[serde(with = "to_millis")]
    pub occurred_at: Timestamp,
}

/// Which way a user went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PresenceKind {
    Enter,
    Leave,
}

/// A user finished a task of an activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskEvent {
    pub activity_id: ActivityId,
    pub user_id: UserId,
    pub task_id: String,
    #[serde(with = "to_millis")]
    pub completed_at: Timestamp,
}

/// Asks whether everything that was in a partition before it has been handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BarrierPass {
    pub activity_id: ActivityId,
    pub draw_token: u64,
}

/// The partition of the stream that carries everything about `user`.
pub const fn partition_of(user: UserId, partitions: u16) -> u16 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is smaller than `partitions`"
    )]
    let partition = (mix(user.0) % partitions as u64) as u16;
    partition
}

impl StreamMessage {
    /// The `kind` in the body and the `type` of the message.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Joins { .. } => "joins",
            Self::Presence { .. } => "presence",
            Self::Tasks { .. } => "tasks",
            Self::Barrier { .. } => "barrier",
        }
    }

    /// The message for one partition; all its users must belong to it.
    pub fn into_outgoing(self, partition: u16, message_id: String) -> Outgoing {
        let kind = self.kind();
        Outgoing::new(Target::Stream(partition), message_id, kind, self.to_body())
    }

    fn to_body(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Versioned<'a> {
            v: u64,
            #[serde(flatten)]
            message: &'a StreamMessage,
        }
        // Only a map with keys that are no text could fail, and there is none.
        serde_json::to_vec(&Versioned {
            v: VERSION,
            message: self,
        })
        .unwrap_or_default()
    }
}

/// One message of the stream, as it was received.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Received {
    Items(Vec<Item>),
    Barrier(Vec<BarrierPass>),
}

/// One part of a received message that concerns one user.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Join(ReceivedJoin),
    Presence(PresenceEvent),
    Task(TaskEvent),
    /// It does not say whom it is about, or not what happened.
    Unusable {
        kind: &'static str,
        body: Value,
        reason: String,
    },
}

/// A join whose ids are usable; the rest of it may not be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReceivedJoin {
    pub(super) activity_id: ActivityId,
    pub(super) user_id: UserId,
    pub(super) device_id: Option<String>,
    pub(super) completed_tasks: Vec<String>,
    /// `None` when it was malformed, which makes the join invalid.
    pub(super) accepted_at: Option<Timestamp>,
    pub(super) request_id: String,
    /// Its content cannot be right.
    pub(super) is_invalid: bool,
}

/// Why a message as a whole cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadableMessage {
    #[error("not a message of the stream: {0}")]
    Json(#[from] serde_json::Error),

    #[error("version {0} of the stream's messages is not known")]
    Version(u64),
}

impl Received {
    pub(super) fn decode(body: &[u8]) -> Result<Self, UnreadableMessage> {
        #[derive(Deserialize)]
        struct Envelope {
            v: u64,
            #[serde(flatten)]
            message: Kinds,
        }
        #[derive(Deserialize)]
        #[serde(tag = "kind", rename_all = "camelCase")]
        enum Kinds {
            Joins { joins: Vec<Value> },
            Presence { events: Vec<Value> },
            Tasks { events: Vec<Value> },
            Barrier { passes: Vec<BarrierPass> },
        }

        let envelope: Envelope = serde_json::from_slice(body)?;
        if envelope.v != VERSION {
            return Err(UnreadableMessage::Version(envelope.v));
        }
        Ok(match envelope.message {
            Kinds::Joins { joins } => Self::items(joins, Item::join),
            Kinds::Presence { events } => Self::items(events, |event| {
                Item::event("presence", event, Item::Presence)
            }),
            Kinds::Tasks { events } => {
                Self::items(events, |event| Item::event("tasks", event, Item::Task))
            }
            Kinds::Barrier { passes } => Self::Barrier(passes),
        })
    }

    fn items(values: Vec<Value>, decode: impl FnMut(Value) -> Item) -> Self {
        Self::Items(values.into_iter().map(decode).collect())
    }
}

impl Item {
    fn join(body: Value) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Ids {
            activity_id: ActivityId,
            user_id: UserId,
        }
        match Ids::deserialize(&body) {
            Ok(ids) => Self::Join(ReceivedJoin::read(ids.activity_id, ids.user_id, &body)),
            Err(error) => Self::Unusable {
                kind: "joins",
                reason: error.to_string(),
                body,
            },
        }
    }

    fn event<T>(kind: &'static str, body: Value, item: impl FnOnce(T) -> Self) -> Self
    where
        T: for<'de> Deserialize<'de>,
    {
        match T::deserialize(&body) {
            Ok(event) => item(event),
            Err(error) => Self::Unusable {
                kind,
                reason: error.to_string(),
                body,
            },
        }
    }

    /// A message of the stream that carries this item alone, for the dead-letter queue.
    pub(super) fn to_body(&self) -> Vec<u8> {
        match self {
            Self::Join(join) => body_of("joins", &json!([join.to_json()])),
            Self::Presence(event) => body_of("presence", &json!([event])),
            Self::Task(event) => body_of("tasks", &json!([event])),
            Self::Unusable { kind, body, .. } => body_of(kind, &json!([body])),
        }
    }

    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Join(_) => "joins",
            Self::Presence(_) => "presence",
            Self::Task(_) => "tasks",
            Self::Unusable { kind, .. } => kind,
        }
    }
}

fn body_of(kind: &str, items: &Value) -> Vec<u8> {
    let list = if kind == "joins" { "joins" } else { "events" };
    json!({ "v": VERSION, "kind": kind, list: items })
        .to_string()
        .into_bytes()
}

impl ReceivedJoin {
    /// Reads what is usable; whatever is not makes the join invalid.
    fn read(activity_id: ActivityId, user_id: UserId, body: &Value) -> Self {
        let accepted_at = body.get("acceptedAt").and_then(as_timestamp);
        let device_id = optional(body, "deviceId", as_device_id);
        let completed_tasks = optional(body, "completedTasks", as_texts);
        let request_id: String = body
            .get("requestId")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .chars()
            .take(MAX_TEXT_CHARS)
            .collect();
        Self {
            activity_id,
            user_id,
            is_invalid: accepted_at.is_none() || device_id.is_err() || completed_tasks.is_err(),
            device_id: device_id.unwrap_or_default(),
            completed_tasks: completed_tasks.unwrap_or_default().unwrap_or_default(),
            accepted_at,
            request_id,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "activityId": self.activity_id,
            "userId": self.user_id,
            "deviceId": self.device_id,
            "completedTasks": self.completed_tasks,
            "acceptedAt": self.accepted_at.map(crate::kernel::format_timestamp),
            "requestId": self.request_id,
        })
    }
}

/// The field is there, but is not what it should be.
#[derive(Debug)]
struct BadField;

fn optional<T>(
    body: &Value,
    name: &str,
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<Option<T>, BadField> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).ok_or(BadField),
    }
}

fn as_timestamp(value: &Value) -> Option<Timestamp> {
    let at = DateTime::parse_from_rfc3339(value.as_str()?).ok()?.to_utc();
    // Times are bound as MySQL's TIMESTAMP, which an earlier one cannot be, to columns that end with
    // the year 9999.
    let is_storable = at > Timestamp::UNIX_EPOCH && chrono::Datelike::year(&at) <= 9_999;
    is_storable.then(|| truncate_to_millis(at))
}

fn as_device_id(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    is_device_id(text).then(|| text.to_owned())
}

fn as_texts(value: &Value) -> Option<Vec<String>> {
    value
        .as_array()?
        .iter()
        .map(|text| text.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn join(user: u64) -> JoinRequest {
        JoinRequest {
            activity_id: ActivityId(7),
            user_id: UserId(user),
            device_id: Some("phone".to_owned()),
            completed_tasks: vec!["follow".to_owned()],
            accepted_at: Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(1_500),
            request_id: "r-1".to_owned(),
        }
    }

    fn items(body: &[u8]) -> Vec<Item> {
        match Received::decode(body).unwrap() {
            Received::Items(items) => items,
            Received::Barrier(passes) => panic!("barrier {passes:?}"),
        }
    }

    #[test]
    fn the_form_on_the_wire_is_version_1() {
        let sent = StreamMessage::Joins {
            joins: vec![join(23)],
        }
        .into_outgoing(2, "m-1".to_owned());

        assert_eq!(sent.target, Target::Stream(2));
        assert_eq!(
            serde_json::from_slice::<Value>(&sent.body).unwrap(),
            json!({"v": 1, "kind": "joins", "joins": [{
                "activityId": "7", "userId": "23", "deviceId": "phone",
                "completedTasks": ["follow"], "acceptedAt": "1970-01-01T00:00:01.500Z",
                "requestId": "r-1",
            }]})
        );
    }

    #[test]
    fn what_is_sent_is_received() {
        let event = PresenceEvent {
            room_id: RoomId(8),
            user_id: UserId(23),
            kind: PresenceKind::Leave,
            occurred_at: Timestamp::UNIX_EPOCH,
        };
        let completion = TaskEvent {
            activity_id: ActivityId(7),
            user_id: UserId(23),
            task_id: "follow".to_owned(),
            completed_at: Timestamp::UNIX_EPOCH,
        };
        let pass = BarrierPass {
            activity_id: ActivityId(7),
            draw_token: 3,
        };
        let decode = |message: StreamMessage| Received::decode(&message.to_body()).unwrap();

        assert_eq!(
            decode(StreamMessage::Presence {
                events: vec![event.clone()]
            }),
            Received::Items(vec![Item::Presence(event)])
        );
        assert_eq!(
            decode(StreamMessage::Tasks {
                events: vec![completion.clone()]
            }),
            Received::Items(vec![Item::Task(completion)])
        );
        assert_eq!(
            decode(StreamMessage::Barrier { passes: vec![pass] }),
            Received::Barrier(vec![pass])
        );
        let Received::Items(joins) = decode(StreamMessage::Joins {
            joins: vec![join(1)],
        }) else {
            panic!("not items");
        };
        assert_eq!(
            joins,
            [Item::Join(ReceivedJoin {
                activity_id: ActivityId(7),
                user_id: UserId(1),
                device_id: Some("phone".to_owned()),
                completed_tasks: vec!["follow".to_owned()],
                accepted_at: Some(join(1).accepted_at),
                request_id: "r-1".to_owned(),
                is_invalid: false,
            })]
        );
    }

    #[test]
    fn a_bad_item_does_not_fail_its_neighbours() {
        let body = json!({"v": 1, "kind": "joins", "addedLater": true, "joins": [
            {"activityId": "7", "userId": 1, "acceptedAt": "2026-01-31T20:00:00Z", "requestId": "a"},
            {"activityId": "7", "userId": "0"},
            {"activityId": "7", "userId": "3", "acceptedAt": "yesterday"},
            {"activityId": "7", "userId": "4", "acceptedAt": "2026-01-31T20:00:00Z", "deviceId": "x".repeat(65)},
            {"activityId": "7", "userId": "5", "acceptedAt": "2026-01-31T20:00:00Z", "completedTasks": "follow"},
            {"activityId": "7", "userId": "6", "acceptedAt": "2026-01-31T20:00:00Z", "requestId": "r".repeat(70)},
            {"activityId": "7", "userId": "7", "acceptedAt": "2026-01-31T20:00:00Z", "deviceId": "phone "},
            "nonsense",
        ]});

        let items = items(body.to_string().as_bytes());

        let usable: Vec<Option<(u64, bool)>> = items
            .iter()
            .map(|item| match item {
                Item::Join(join) => Some((join.user_id.0, join.is_invalid)),
                Item::Unusable { .. } | Item::Presence(_) | Item::Task(_) => None,
            })
            .collect();
        assert_eq!(
            usable,
            [
                Some((1, false)),
                None,
                Some((3, true)),
                Some((4, true)),
                Some((5, true)),
                Some((6, false)),
                Some((7, true)),
                None
            ]
        );
    }

    #[test]
    fn an_item_alone_is_a_message_that_can_be_replayed() {
        let body = json!({"v": 1, "kind": "presence", "events": [
            {"roomId": "8", "userId": "1", "kind": "enter", "occurredAt": "2026-01-31T20:00:00Z"},
            {"roomId": "8", "userId": "2", "kind": "vanish", "occurredAt": "2026-01-31T20:00:00Z"},
        ]});

        for item in items(body.to_string().as_bytes()) {
            assert_eq!(items(&item.to_body()), [item]);
        }
    }

    #[test]
    fn what_is_no_message_is_refused_as_a_whole() {
        for (body, reason) in [
            ("", "not a message of the stream"),
            ("{}", "missing field"),
            (r#"{"v":1,"kind":"jump"}"#, "jump"),
            (r#"{"v":2,"kind":"joins","joins":[]}"#, "version 2"),
        ] {
            let error = Received::decode(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{body}: {error}");
        }
    }

    #[test]
    fn a_user_keeps_its_partition() {
        for user in 1..1_000 {
            assert!(partition_of(UserId(user), 4) < 4);
        }
        assert_eq!(partition_of(UserId(1_234_567), 4), 1);
    }
}
