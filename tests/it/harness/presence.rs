//! People who come to a room and go.

use std::collections::BTreeMap;

use luckybag::{
    candidate::{PresenceEvent, PresenceKind, StreamMessage, partition_of},
    infra::broker::Broker,
    kernel::{RoomId, UserId},
};

use super::{Bag, World};

impl World {
    /// Puts into the stream that these users come to the bag's room now, or leave it.
    pub(crate) async fn tell_presence(
        &self,
        broker: &Broker,
        bag: &Bag,
        users: impl IntoIterator<Item = u64>,
        kind: PresenceKind,
    ) {
        let (occurred_at, partitions) = (self.now().await, self.topology().partitions());
        let mut parts: BTreeMap<u16, Vec<PresenceEvent>> = BTreeMap::new();
        for user_id in users.into_iter().map(UserId) {
            let event = PresenceEvent {
                room_id: RoomId(bag.room),
                user_id,
                kind,
                occurred_at,
            };
            let part = partition_of(user_id, partitions);
            parts.entry(part).or_default().push(event);
        }
        for (partition, events) in parts {
            let id = uuid::Uuid::now_v7().to_string();
            let message = StreamMessage::Presence { events }.into_outgoing(partition, id);
            broker.publish(message).await.expect("confirmed");
        }
    }
}
