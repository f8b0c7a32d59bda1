//! Presence and task events, as other systems report them.

use luckybag::kernel::{Timestamp, format_timestamp};
use serde_json::{Value, json};

use super::{Answer, Api, Bag, eventually};

/// Somebody entered or left the bag's room; `kind` is the word.
pub(crate) fn presence(bag: &Bag, user: u64, kind: &str, at: Timestamp) -> Value {
    json!({
        "roomId": bag.room.to_string(), "userId": user.to_string(), "kind": kind,
        "occurredAt": format_timestamp(at),
    })
}

/// Somebody finished a task of the bag.
pub(crate) fn completion(bag: &Bag, user: u64, task: &str, at: Timestamp) -> Value {
    json!({
        "activityId": bag.id, "userId": user.to_string(), "taskId": task,
        "completedAt": format_timestamp(at),
    })
}

impl Api {
    /// Reports events of a feed, `presence` or `tasks`, whatever comes of it.
    pub(crate) async fn try_report(&self, feed: &str, events: &[Value]) -> Answer {
        self.report_body(feed, json!({ "events": events })).await
    }

    /// The same with a body of any kind.
    pub(crate) async fn report_body(&self, feed: &str, body: Value) -> Answer {
        self.post(&self.service(), &format!("/v1/events/{feed}"), Some(body))
            .await
    }

    /// Reports events and expects them to be taken.
    pub(crate) async fn report(&self, feed: &str, events: &[Value]) {
        let taken = self.try_report(feed, events).await.expect(202);
        assert_eq!(taken, json!({ "status": "accepted" }));
    }

    /// What `/me` says once it calls a user this: `eligible`, `absent` and so on.
    pub(crate) async fn becomes(&self, bag: &Bag, user: u64, eligibility: &str) -> Value {
        eventually(&format!("user {user} to be {eligibility}"), async || {
            let me = self.me(bag, user).await;
            if me["eligibility"] == eligibility {
                Ok(me)
            } else {
                Err(me)
            }
        })
        .await
    }
}
