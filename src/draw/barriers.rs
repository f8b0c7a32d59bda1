//! Waits until everything that was in the stream at drawAt has been handled.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    drain::{BrokerState, DrainTimer, Patience, Sighting},
    lease::DrawLease,
};
use crate::{
    candidate::{BarrierPass, CandidateService, StreamMessage},
    infra::broker::{Broker, BrokerError, Queue},
    settings::DrawSettings,
};

/// How waiting for the stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drained {
    /// Every partition has passed its barrier.
    Completely,
    /// A limit was reached; what is handled from now on is late.
    CutShort,
    /// A stop of the process was requested.
    Stopped,
}

/// Sends barriers through the partitions and watches them pass.
pub(super) struct Barriers {
    broker: Broker,
    candidates: CandidateService,
    settings: DrawSettings,
    /// Passes that wait for the next message of their partition.
    waiting: Mutex<BTreeMap<u16, Vec<BarrierPass>>>,
    /// Held by whoever sends what waits.
    sending: AsyncMutex<()>,
}

/// One wait for the stream.
struct Wait<'a> {
    barriers: &'a Barriers,
    lease: &'a DrawLease,
    /// Partitions whose barrier has not passed.
    missing: Vec<u16>,
    /// Grows whenever something was seen to have been committed.
    progress: u64,
    admitted: u64,
    depth: u64,
}

impl Barriers {
    pub(super) fn new(
        broker: Broker,
        candidates: CandidateService,
        settings: DrawSettings,
    ) -> Self {
        Self {
            broker,
            candidates,
            settings,
            waiting: Mutex::default(),
            sending: AsyncMutex::default(),
        }
    }

    /// Sends a pass through each of the partitions. Draws that ask while a message is under way
    /// share the next one.
    ///
    /// Each is a new message: a partition ignores a barrier that it gets a second time.
    async fn send(&self, pass: BarrierPass, partitions: &[u16]) {
        {
            let mut waiting = self.waiting.lock();
            for partition in partitions {
                waiting.entry(*partition).or_default().push(pass);
            }
        }
        let _sending = self.sending.lock().await;
        // Empty when the one before has taken ours along.
        let taken = std::mem::take(&mut *self.waiting.lock());
        let messages = taken.into_iter().map(|(partition, passes)| {
            let message = StreamMessage::Barrier { passes };
            message.into_outgoing(partition, Uuid::now_v7().to_string())
        });
        let results = self.broker.publish_all(messages.collect()).await;
        for error in results.into_iter().filter_map(Result::err) {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "a barrier was not sent, it is repeated"
            );
        }
    }

    /// How often unanswered barriers are repeated and the stream is looked at.
    const REPEAT_EVERY: Duration = Duration::from_secs(1);
    const FIRST_PAUSE: Duration = Duration::from_millis(10);
    const LONGEST_PAUSE: Duration = Duration::from_millis(50);

    /// Returns once all barriers have passed, the limits are reached, or `stop`.
    pub(super) async fn wait(&self, lease: &DrawLease, stop: &CancellationToken) -> Drained {
        let mut wait = Wait {
            barriers: self,
            lease,
            missing: (0..self.broker.topology().partitions()).collect(),
            progress: 0,
            admitted: 0,
            depth: u64::MAX,
        };
        let limit = self.settings.drain_limit_secs.duration();
        let max = self.settings.drain_max_secs.duration();
        let mut timer = DrainTimer::start(limit, max, Instant::now());
        let mut pause = Self::FIRST_PAUSE;
        let mut repeat_at = wait.ask().await;
        while !wait.missing.is_empty() {
            if stop
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
            {
                return Drained::Stopped;
            }
            pause = (pause * 2).min(Self::LONGEST_PAUSE);
            wait.strike_off().await;
            if !wait.missing.is_empty() && Instant::now() >= repeat_at {
                let seen = wait.sight().await;
                if timer.look(Instant::now(), seen) == Patience::Exhausted {
                    return Drained::CutShort;
                }
                repeat_at = wait.ask().await;
            }
        }
        Drained::Completely
    }
}

impl Wait<'_> {
    /// Sends a barrier to each partition that has not passed one; returns when to do so again.
    async fn ask(&self) -> Instant {
        let pass = BarrierPass {
            activity_id: self.lease.activity_id(),
            draw_token: self.lease.token(),
        };
        self.barriers.send(pass, &self.missing).await;
        Instant::now() + Barriers::REPEAT_EVERY
    }

    /// Forgets the partitions whose barrier has passed.
    async fn strike_off(&mut self) {
        let (id, token) = (self.lease.activity_id(), self.lease.token());
        match self.barriers.candidates.barriers_passed(id, token).await {
            Ok(passed) => {
                let before = self.missing.len();
                self.missing.retain(|partition| !passed.contains(partition));
                self.progress += u64::from(self.missing.len() < before);
            }
            // The lease runs out when this lasts.
            Err(error) => tracing::debug!(
                error = &error as &dyn std::error::Error,
                "cannot see which barriers have passed"
            ),
        }
    }

    /// Looks whether anything moves.
    async fn sight(&mut self) -> Sighting {
        // Whose joins they are says nothing: another activity's may stand before ours.
        if let Ok(admitted) = self.barriers.candidates.admitted_total().await {
            self.progress += u64::from(admitted > self.admitted);
            self.admitted = admitted;
        }
        let broker = match self.depth().await {
            Ok(depth) => {
                self.progress += u64::from(depth < self.depth);
                self.depth = depth;
                BrokerState::Answers
            }
            Err(_) => BrokerState::Silent,
        };
        Sighting {
            broker,
            progress: self.progress,
        }
    }

    /// How many messages wait in the partitions that have not passed.
    async fn depth(&self) -> Result<u64, BrokerError> {
        let mut total = 0;
        for partition in &self.missing {
            let queue = Queue::Stream(*partition);
            total += u64::from(self.barriers.broker.queue_depth(queue).await?);
        }
        Ok(total)
    }
}
