//! Tells the good events of a body from the bad ones. No I/O.

use serde_json::value::RawValue;

use super::forms::{Door, EventsBody, Reported};
use crate::http::FieldErrors;

/// Most events of one body.
const MOST_EVENTS: usize = 1_000;

/// What stands for a fault of the event as a whole.
const WHOLE: &str = "";

/// The events of a body, each group in its order.
#[derive(Debug)]
pub(super) struct Checked<E> {
    pub(super) good: Vec<E>,
    pub(super) bad: Vec<BadEvent>,
}

/// An event that cannot be right.
#[derive(Debug)]
pub(super) struct BadEvent {
    /// Its place in the body.
    pub(super) index: usize,
    /// As it came.
    pub(super) event: Box<RawValue>,
    faults: FieldErrors,
}

/// A body with no events, or with too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are 1 to {MOST_EVENTS} events in one body, not {0}")]
pub(super) struct WrongCount(usize);

/// Reads all events of a body.
pub(super) fn check<E: Reported>(body: EventsBody, door: Door) -> Result<Checked<E>, WrongCount> {
    if !(1..=MOST_EVENTS).contains(&body.events.len()) {
        return Err(WrongCount(body.events.len()));
    }
    let mut checked = Checked {
        good: Vec::with_capacity(body.events.len()),
        bad: Vec::new(),
    };
    for (index, event) in body.events.into_iter().enumerate() {
        let mut faults = FieldErrors::new();
        match read(&event, door, &mut faults) {
            Some(good) if faults.is_empty() => checked.good.push(good),
            Some(_) | None => checked.bad.push(BadEvent {
                index,
                event,
                faults,
            }),
        }
    }
    Ok(checked)
}

fn read<E: Reported>(event: &RawValue, door: Door, faults: &mut FieldErrors) -> Option<E> {
    let Ok(form) = serde_json::from_str::<E::Form>(event.get()) else {
        faults.add(WHOLE, "this is an object with each of its fields once");
        return None;
    };
    E::read(&form, door, faults)
}

impl BadEvent {
    /// Names its faults by their paths in the body.
    pub(super) fn add_to(&self, errors: &mut FieldErrors) {
        for fault in self.faults.faults() {
            let path = match fault.field.as_str() {
                WHOLE => format!("events[{}]", self.index),
                field => format!("events[{}].{field}", self.index),
            };
            errors.add(path, fault.message.as_str());
        }
    }

    /// All that is wrong with it, in one line.
    pub(super) fn reason(&self) -> String {
        let faults = self.faults.faults().iter();
        let faults = faults.map(|fault| match fault.field.as_str() {
            WHOLE => fault.message.clone(),
            field => format!("{field}: {}", fault.message),
        });
        faults.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        candidate::{PresenceEvent, PresenceKind, TaskEvent},
        kernel::{ActivityId, MAX_ID, RoomId, Timestamp, UserId},
    };

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn door() -> Door {
        Door {
            until: time("2026-01-31T20:01:00Z"),
            max_ahead_secs: 60,
        }
    }

    fn checked<E: Reported>(events: &Value) -> Result<Checked<E>, WrongCount> {
        let body = json!({ "events": events }).to_string();
        check(serde_json::from_str(&body).unwrap(), door())
    }

    fn paths<E: Reported>(events: &Value) -> Vec<String> {
        let mut errors = FieldErrors::new();
        for bad in checked::<E>(events).unwrap().bad {
            bad.add_to(&mut errors);
        }
        let faults = errors.faults().iter();
        faults.map(|fault| fault.field.clone()).collect()
    }

    fn presence(changes: &Value) -> Value {
        let mut event = json!({
            "roomId": "8001", "userId": 7, "kind": "leave", "occurredAt": "2026-01-31T20:00:00Z",
        });
        for (name, value) in changes.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    fn completion(changes: &Value) -> Value {
        let mut event = json!({
            "activityId": "5", "userId": "7", "taskId": "follow",
            "completedAt": "2026-01-31T20:00:00Z",
        });
        for (name, value) in changes.as_object().unwrap() {
            event[name] = value.clone();
        }
        event
    }

    #[test]
    fn good_events_are_read_in_their_order() {
        let events = json!([
            presence(&json!({})),
            presence(&json!({
                "userId": MAX_ID, "kind": "enter", "occurredAt": "2026-01-31T21:01:00.000999+01:00",
            })),
        ]);

        let checked = checked::<PresenceEvent>(&events).unwrap();

        let event = |user_id, kind, occurred_at| PresenceEvent {
            room_id: RoomId(8001),
            user_id: UserId(user_id),
            kind,
            occurred_at: time(occurred_at),
        };
        assert_eq!(
            checked.good,
            [
                event(7, PresenceKind::Leave, "2026-01-31T20:00:00Z"),
                event(MAX_ID, PresenceKind::Enter, "2026-01-31T20:01:00Z"),
            ]
        );
        assert!(checked.bad.is_empty());

        let tasks = self::checked::<TaskEvent>(&json!([completion(&json!({}))])).unwrap();
        assert_eq!(
            tasks.good,
            [TaskEvent {
                activity_id: ActivityId(5),
                user_id: UserId(7),
                task_id: "follow".to_owned(),
                completed_at: time("2026-01-31T20:00:00Z"),
            }]
        );
    }

    #[test]
    fn every_fault_is_named_by_its_path_and_good_neighbours_stay_good() {
        let events = json!([
            presence(&json!({})),
            presence(&json!({ "roomId": 0, "userId": "9223372036854775808", "kind": "vanish" })),
            presence(&json!({ "occurredAt": "2026-01-31T20:01:00.001Z" })),
            presence(&json!({ "occurredAt": "1999-12-31T23:59:59.999Z" })),
            presence(&json!({ "kind": null, "bogus": 1 })),
            {},
            5,
            ["8001", "7", "leave", "2026-01-31T20:00:00Z"],
            presence(&json!({})),
        ]);

        assert_eq!(
            paths::<PresenceEvent>(&events),
            [
                "events[1].roomId",
                "events[1].userId",
                "events[1].kind",
                "events[2].occurredAt",
                "events[3].occurredAt",
                "events[4].bogus",
                "events[4].kind",
                "events[5].roomId",
                "events[5].userId",
                "events[5].kind",
                "events[5].occurredAt",
                "events[6]",
                "events[7]",
            ]
        );
        assert_eq!(checked::<PresenceEvent>(&events).unwrap().good.len(), 2);
    }

    #[test]
    fn a_task_is_named_as_at_its_creation() {
        let longest = "x".repeat(64);
        for good in ["follow", "a.b-c_D9", longest.as_str()] {
            let events = json!([completion(&json!({ "taskId": good }))]);
            assert_eq!(paths::<TaskEvent>(&events), [""; 0], "{good}");
        }
        for bad in ["", " ", "a b", "任务", &"x".repeat(65)] {
            let events = json!([completion(&json!({ "taskId": bad, "activityId": "007" }))]);
            assert_eq!(
                paths::<TaskEvent>(&events),
                ["events[0].activityId", "events[0].taskId"],
                "{bad}"
            );
        }
    }

    #[test]
    fn a_field_that_is_given_twice_is_a_fault() {
        let twice = r#"{"events": [{"userId": "1", "userId": "2"}]}"#;
        let body: EventsBody = serde_json::from_str(twice).unwrap();

        let bad = check::<TaskEvent>(body, door()).unwrap().bad;

        assert_eq!(
            bad[0].reason(),
            "this is an object with each of its fields once"
        );
        assert_eq!(bad[0].event.get(), r#"{"userId": "1", "userId": "2"}"#);
    }

    #[test]
    fn a_body_has_1_to_1000_events() {
        let events = |count: usize| json!(vec![presence(&json!({})); count]);
        let count = |wrong: Result<Checked<PresenceEvent>, WrongCount>| wrong.map(|_| ());

        assert_eq!(count(checked(&events(0))), Err(WrongCount(0)));
        assert_eq!(count(checked(&events(1))), Ok(()));
        assert_eq!(count(checked(&events(1_000))), Ok(()));
        assert_eq!(count(checked(&events(1_001))), Err(WrongCount(1_001)));
    }

    #[test]
    fn the_reason_of_a_dead_letter_says_all_that_is_wrong() {
        let events = json!([presence(&json!({ "kind": "vanish", "roomId": null }))]);

        let reason = checked::<PresenceEvent>(&events).unwrap().bad[0].reason();

        assert_eq!(
            reason,
            "roomId: this field is required; kind: this is \"enter\" or \"leave\""
        );
    }
}
