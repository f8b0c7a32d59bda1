//! `lb:join:request`: the marks of joins that are accepted and not yet processed.

use std::{collections::HashSet, sync::Arc, time::Duration};

use fred::{interfaces::KeysInterface, types::Expiration};
use futures_util::future;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    infra::redis::Redis,
    kernel::{ActivityId, UserId},
};

/// How long a mark stands, in seconds.
const LIFE_SECS: i64 = 1_800;

/// Most marks that wait to be set; beyond it they are not set at all.
const QUEUE_LIMIT: usize = 20_000;

/// Most marks on their way to Redis at once.
const PIPELINE: usize = 256;

/// How often a lost connection is looked for.
const CONNECTION_CHECK: Duration = Duration::from_millis(100);

/// The join that a mark stands for.
pub(super) type Mark = (ActivityId, UserId);

/// Takes marks to set. Never waits: a mark that cannot be set costs the viewer the word
/// "processing", nothing else.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    queue: mpsc::Sender<Mark>,
    unset: UnsetMarks,
}

/// The marks of this process that Redis does not have yet, so that whoever asks at once after its
/// join finds it.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsetMarks(Arc<Mutex<HashSet<Mark>>>);

impl UnsetMarks {
    fn contains(&self, mark: Mark) -> bool {
        self.0.lock().contains(&mark)
    }

    fn remove(&self, marks: &[Mark]) {
        let mut unset = self.0.lock();
        for mark in marks {
            unset.remove(mark);
        }
    }
}

impl Marks {
    pub(super) fn new() -> (Self, mpsc::Receiver<Mark>) {
        let (queue, waiting) = mpsc::channel(QUEUE_LIMIT);
        let unset = UnsetMarks::default();
        (Self { queue, unset }, waiting)
    }

    pub(super) fn set(&self, mark: Mark) {
        self.unset.0.lock().insert(mark);
        if self.queue.try_send(mark).is_err() {
            tracing::debug!("too many marks of joins are waiting");
            self.unset.remove(&[mark]);
        }
    }

    pub(super) fn unset(&self) -> UnsetMarks {
        self.unset.clone()
    }
}

/// Sets the marks, in a task of its own so that no answer waits for Redis.
pub(super) struct Marker {
    redis: Redis,
    waiting: mpsc::Receiver<Mark>,
    unset: UnsetMarks,
}

impl Marker {
    pub(super) fn new(redis: Redis) -> (Marks, Self) {
        let (marks, waiting) = Marks::new();
        let unset = marks.unset();
        let marker = Self {
            redis,
            waiting,
            unset,
        };
        (marks, marker)
    }

    /// Sets what comes until nobody is left who could send a mark.
    pub(super) async fn run(mut self) {
        let mut marks = Vec::with_capacity(PIPELINE);
        while self.waiting.recv_many(&mut marks, PIPELINE).await > 0 {
            self.wait_connected().await;
            self.set_all(&marks).await;
            self.unset.remove(&marks);
            marks.clear();
        }
    }

    /// Without a connection the commands would crowd the client's buffer and be lost.
    async fn wait_connected(&self) {
        while !self.redis.is_connected() && !self.waiting.is_closed() {
            tokio::time::sleep(CONNECTION_CHECK).await;
        }
    }

    async fn set_all(&self, marks: &[Mark]) {
        if !self.redis.is_connected() {
            return;
        }
        // The client sends commands of one moment together, in a cluster to each node its own.
        let commands = marks.iter().map(|(id, user)| {
            let key = self.redis.keys().join_request(*id, *user);
            let expires = Some(Expiration::EX(LIFE_SECS));
            self.redis.set::<(), _, _>(key, "1", expires, None, false)
        });
        let failed = future::join_all(commands)
            .await
            .into_iter()
            .find_map(Result::err);
        if let Some(error) = failed {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "cannot mark joins as being processed"
            );
        }
    }
}

/// Whether a join of the user is marked; `None` when Redis does not answer.
pub(super) async fn is_marked(
    redis: &Redis,
    unset: &UnsetMarks,
    id: ActivityId,
    user: UserId,
) -> Option<bool> {
    // Before Redis: a mark leaves this set only once Redis has it.
    if unset.contains((id, user)) {
        return Some(true);
    }
    if !redis.is_connected() {
        return None;
    }
    let exists: Result<u64, _> = redis.exists(redis.keys().join_request(id, user)).await;
    match exists {
        Ok(count) => Some(count > 0),
        Err(error) => {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "cannot look for the mark of a join"
            );
            None
        }
    }
}
