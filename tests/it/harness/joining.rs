//! Joins that may be refused, and what became of them.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{Answer, Api, Bag};

/// Joins under way at once.
const AT_ONCE: usize = 64;

impl Api {
    /// One join, whatever comes of it.
    pub(crate) async fn try_join(&self, bag: &Bag, user: u64, body: Option<Value>) -> Answer {
        self.post(&self.viewer(user), &bag.path("/join"), body)
            .await
    }

    /// One join from a device; it is accepted.
    pub(crate) async fn join_from(&self, bag: &Bag, user: u64, device: &str) {
        let body = json!({ "deviceId": device });
        self.try_join(bag, user, Some(body)).await.expect(202);
    }

    /// Many joins at once, and the answer to each.
    pub(crate) async fn try_join_all(
        &self,
        bag: &Bag,
        users: impl IntoIterator<Item = u64>,
    ) -> BTreeMap<u64, Answer> {
        stream::iter(users)
            .map(|user| async move { (user, self.try_join(bag, user, None).await) })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await
    }

    /// What `/me` says to a user now.
    pub(crate) async fn me(&self, bag: &Bag, user: u64) -> Value {
        self.get(&self.viewer(user), &bag.path("/me"))
            .await
            .expect(200)
    }

    /// Asserts what becomes of a user's join: `joined`, or `rejected` or `late` with a reason.
    pub(crate) async fn assert_settled(
        &self,
        bag: &Bag,
        user: u64,
        expected: (&str, Option<&str>),
    ) {
        let me = self.settled(bag, user).await;
        let (participation, reason) = expected;
        assert_eq!(me["participation"], participation, "user {user}: {me}");
        assert_eq!(me["reason"].as_str(), reason, "user {user}: {me}");
    }
}
