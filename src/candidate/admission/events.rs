//! The messages that follow a commit. Their ids come from the message that caused them, so a
//! redelivery repeats them under the same ids.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{batch::Message, outcome::Outcome};
use crate::{
    candidate::{CandidateService, SettledUser, Verdict, message::Item},
    infra::{
        broker::{Outgoing, Queue, Target},
        outbox::{Event, EventKind},
    },
    kernel::{ActivityId, Clock, SystemClock, Timestamp, UserId},
    telemetry::metrics,
};

const SCHEMA_VERSION: u32 = 1;

impl CandidateService {
    /// When something was told; decides nothing, so this machine's clock will do when the
    /// database's is not known.
    pub(super) async fn event_time(&self) -> Timestamp {
        let now = self.shared.deps.clock.now().await;
        now.map_or_else(|_| SystemClock.now(), |now| now.at)
    }
}

/// Items that can never be handled, each on its own.
pub(super) fn dead_letters(
    partition: u16,
    messages: &[Message],
    dead: &[(usize, String)],
) -> Vec<Outgoing> {
    let items: Vec<(&str, usize, &Item)> = messages
        .iter()
        .flat_map(|message| {
            let numbered = message.items.iter().enumerate();
            numbered.map(|(index, item)| (message.id.as_str(), index, item))
        })
        .collect();
    let letters = dead.iter().filter_map(|(number, reason)| {
        let (message_id, index, item) = items.get(*number)?;
        metrics::dead_lettered("stream");
        tracing::error!(
            message.id = message_id,
            item.index = index,
            message.reason = reason,
            "item of the stream moved to the dead-letter queue"
        );
        let id = format!("{message_id}:{index}");
        Some(Outgoing {
            reason: Some(reason.clone()),
            origin: Some(Queue::Stream(partition)),
            ..Outgoing::new(Target::Dead, id, item.kind(), item.to_body())
        })
    });
    letters.collect()
}

/// One `participation.updated` for each message and activity.
pub(super) fn updates(messages: &[Message], outcome: &Outcome, at: Timestamp) -> Vec<Outgoing> {
    let event = |message: &Message, activity_id, users: Vec<(UserId, &SettledUser)>| {
        let users: Vec<Value> = users
            .into_iter()
            .map(|(user_id, user)| describe(user_id, user))
            .collect();
        (!users.is_empty()).then(|| Event {
            id: format!("participation:{}:{activity_id}", message.id),
            kind: EventKind::ParticipationUpdated,
            schema_version: SCHEMA_VERSION,
            at,
            data: json!({ "activityId": activity_id, "users": users }),
        })
    };
    for_each_activity(messages, outcome, event)
}

/// One `join.accepted` for each message and activity with joins that hold.
pub(super) fn accepted_joins(
    messages: &[Message],
    outcome: &Outcome,
    at: Timestamp,
) -> Vec<Outgoing> {
    let event = |message: &Message, activity_id, users: Vec<(UserId, &SettledUser)>| {
        let joined: Vec<UserId> = users
            .into_iter()
            .filter(|(_, user)| user.has_join && user.state.verdict == Verdict::Joined)
            .map(|(user_id, _)| user_id)
            .filter(|user_id| has_join(message, activity_id, *user_id))
            .collect();
        (!joined.is_empty()).then(|| Event {
            id: format!("joinAccepted:{}:{activity_id}", message.id),
            kind: EventKind::JoinAccepted,
            schema_version: SCHEMA_VERSION,
            at,
            data: json!({ "activityId": activity_id, "userIds": joined }),
        })
    };
    for_each_activity(messages, outcome, event)
}

fn has_join(message: &Message, activity_id: ActivityId, user_id: UserId) -> bool {
    message.items.iter().any(|item| match item {
        Item::Join(join) => (join.activity_id, join.user_id) == (activity_id, user_id),
        Item::Presence(_) | Item::Task(_) | Item::Unusable { .. } => false,
    })
}

fn describe(user_id: UserId, user: &SettledUser) -> Value {
    let (status, reason) = user.state.verdict.as_words();
    json!({
        "userId": user_id,
        "participation": status,
        "reason": reason,
        "eligibility": user.state.eligibility.map(super::super::Eligibility::as_str),
        "revision": user.state.revision,
    })
}

fn for_each_activity(
    messages: &[Message],
    outcome: &Outcome,
    event: impl Fn(&Message, ActivityId, Vec<(UserId, &SettledUser)>) -> Option<Event>,
) -> Vec<Outgoing> {
    let mut outgoing = Vec::new();
    for message in messages {
        for (activity_id, users) in concerned(message, outcome) {
            let Some(settled) = outcome.activities.get(&activity_id) else {
                continue;
            };
            let users = users
                .into_iter()
                .filter_map(|user_id| Some((user_id, settled.users.get(&user_id)?)))
                .collect();
            outgoing.extend(event(message, activity_id, users).map(Event::into_outgoing));
        }
    }
    outgoing
}

/// Which users of which activities a message is about.
fn concerned(message: &Message, outcome: &Outcome) -> BTreeMap<ActivityId, BTreeSet<UserId>> {
    let mut users: BTreeMap<ActivityId, BTreeSet<UserId>> = BTreeMap::new();
    for item in &message.items {
        let (activity_id, user_id) = match item {
            Item::Join(join) => (Some(join.activity_id), join.user_id),
            Item::Task(event) => (Some(event.activity_id), event.user_id),
            Item::Presence(event) => {
                let running = outcome.running_in(event.room_id);
                (running.map(|settled| settled.activity.id), event.user_id)
            }
            Item::Unusable { .. } => continue,
        };
        if let Some(activity_id) = activity_id {
            users.entry(activity_id).or_default().insert(user_id);
        }
    }
    users
}
