//! Spreads events over the partitions of the stream. No I/O.

use super::forms::Reported;
use crate::{candidate::partition_of, infra::broker::Outgoing};

/// Most events of one message of the stream.
const MESSAGE_EVENTS: usize = 256;

/// The messages that carry the events, those of each user in their order.
///
/// The same events under the same `id` give the same messages.
pub(super) fn messages<E: Reported>(events: Vec<E>, partitions: u16, id: &str) -> Vec<Outgoing> {
    let mut of_partition: Vec<Vec<E>> = (0..partitions).map(|_| Vec::new()).collect();
    for event in events {
        let partition = partition_of(event.user_id(), partitions);
        if let Some(events) = of_partition.get_mut(usize::from(partition)) {
            events.push(event);
        }
    }
    let mut messages = Vec::new();
    for (partition, events) in (0..partitions).zip(of_partition) {
        let mut events = events.into_iter().peekable();
        let mut part = 0;
        while events.peek().is_some() {
            let batch = events.by_ref().take(MESSAGE_EVENTS).collect();
            let id = format!("{id}.{partition}.{part}");
            messages.push(E::into_message(batch).into_outgoing(partition, id));
            part += 1;
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use chrono::TimeDelta;
    use serde_json::Value;

    use super::*;
    use crate::{
        candidate::{PresenceEvent, PresenceKind},
        infra::broker::Target,
        kernel::{RoomId, Timestamp, UserId},
    };

    fn event(user: u64, number: i64) -> PresenceEvent {
        PresenceEvent {
            room_id: RoomId(8),
            user_id: UserId(user),
            kind: PresenceKind::Enter,
            occurred_at: Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(number),
        }
    }

    #[test]
    fn each_user_keeps_its_partition_and_its_order_in_messages_of_at_most_256() {
        // Backwards in time, so that sorting by anything would show.
        let events: Vec<_> = (0..1_000_i64)
            .map(|number| event(1 + (number % 7).unsigned_abs(), 1_000 - number))
            .collect();

        let messages = messages(events.clone(), 3, "m");

        let mut ids = BTreeSet::new();
        let mut arrived: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for message in &messages {
            assert!(ids.insert(message.message_id.clone()));
            let body: Value = serde_json::from_slice(&message.body).unwrap();
            let events = body["events"].as_array().unwrap();
            assert!((1..=256).contains(&events.len()), "{}", events.len());
            for event in events {
                let user = event["userId"].as_str().unwrap();
                let partition = partition_of(user.parse().unwrap(), 3);
                assert_eq!(message.target, Target::Stream(partition));
                arrived
                    .entry(user.to_owned())
                    .or_default()
                    .push(event.clone());
            }
        }
        for user in 1..=7_u64 {
            let sent = events.iter().filter(|event| event.user_id.0 == user);
            let sent: Vec<_> = sent
                .map(|event| serde_json::to_value(event).unwrap())
                .collect();
            assert_eq!(arrived[&user.to_string()], sent, "{user}");
        }
    }

    #[test]
    fn the_same_events_give_the_same_messages_and_none_gives_none() {
        let id_and_body = |message: Outgoing| (message.message_id, message.body);
        let once = || messages(vec![event(1, 1), event(2, 1)], 4, "m").into_iter();

        assert!(once().map(id_and_body).eq(once().map(id_and_body)));
        assert!(messages(Vec::<PresenceEvent>::new(), 4, "m").is_empty());
    }
}
