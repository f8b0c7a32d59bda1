//! Turns the joins that wait into messages of the stream, one unconfirmed message a partition.
//!
//! What arrives while a message is on its way is the next message. There is no timer, so a lone
//! join leaves at once, and the more joins come the larger the messages get.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{marks::Marks, queue::Lengths};
use crate::{
    candidate::{JoinRequest, StreamMessage},
    infra::{
        broker::{Broker, Outgoing, PublishError},
        mysql::{ClockUncertain, DatabaseClock, DatabaseTime},
    },
    kernel::{ActivityId, Timestamp, UserId, truncate_to_millis},
    telemetry::{TraceContext, metrics},
};

/// A join that waits for its message.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) activity_id: ActivityId,
    pub(super) user_id: UserId,
    pub(super) device_id: Option<String>,
    pub(super) completed_tasks: Vec<String>,
    pub(super) request_id: String,
    pub(super) draw_at: Timestamp,
    pub(super) since: Instant,
    /// The request that brought it.
    pub(super) trace: TraceContext,
    /// Closed once nobody waits for the answer; the join is then not sent any more.
    pub(super) answer: oneshot::Sender<Answer>,
}

/// What became of a join.
pub(super) type Answer = Result<(), Refusal>;

/// Why a join is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// drawAt had passed; it was not sent.
    Closed,
    /// drawAt had passed, or may have passed, by the time of the confirm; the join may count.
    ConfirmedLate,
    /// The time cannot be told well enough to stamp the join.
    ClockUncertain,
    /// The broker does not take the join, or has not for too long; it was not sent.
    NotTaken,
    /// The broker has not answered; the join may be in the stream.
    OutcomeUnknown,
}

/// Where messages go.
pub(super) trait Publish: Send + Sync {
    fn publish(&self, message: Outgoing) -> impl Future<Output = Result<(), PublishError>> + Send;
}

impl Publish for Broker {
    async fn publish(&self, message: Outgoing) -> Result<(), PublishError> {
        Self::publish(self, message).await
    }
}

/// What the time is at the database.
pub(super) trait TellTime: Send + Sync {
    fn now(&self) -> impl Future<Output = Result<DatabaseTime, ClockUncertain>> + Send;

    /// The best estimate at hand.
    fn estimate(&self) -> Option<DatabaseTime>;
}

impl TellTime for Arc<DatabaseClock> {
    async fn now(&self) -> Result<DatabaseTime, ClockUncertain> {
        DatabaseClock::now(self).await
    }

    fn estimate(&self) -> Option<DatabaseTime> {
        DatabaseClock::estimate(self)
    }
}

/// Sends the joins of one partition.
pub(super) struct Batcher<B, C> {
    pub(super) partition: u16,
    pub(super) batch_max: usize,
    /// A join that has waited longer than this is not sent any more.
    pub(super) patience: Duration,
    pub(super) broker: B,
    pub(super) clock: C,
    pub(super) marks: Marks,
    pub(super) lengths: Lengths,
    /// The last message was not confirmed: told once an outage, not once a message.
    pub(super) is_failing: AtomicBool,
    pub(super) queue: mpsc::Receiver<Waiting>,
}

impl<B: Publish, C: TellTime> Batcher<B, C> {
    /// Sends until `stop`; then takes nothing new, sends what waits, and ends.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut joins = Vec::with_capacity(self.batch_max);
        loop {
            tokio::select! {
                count = self.queue.recv_many(&mut joins, self.batch_max) => {
                    if count == 0 {
                        return;
                    }
                    self.lengths.set(self.partition, self.queue.len());
                    self.send(&mut joins).await;
                }
                () = stop.cancelled(), if !self.queue.is_closed() => self.queue.close(),
            }
        }
    }

    /// Sends one message and answers everyone in it.
    async fn send(&self, joins: &mut Vec<Waiting>) {
        let Ok(time) = self.clock.now().await else {
            answer_all(joins.drain(..), Err(Refusal::ClockUncertain));
            return;
        };
        let accepted_at = truncate_to_millis(time.at);
        let batch = self.sendable(joins, accepted_at);
        if batch.is_empty() {
            return;
        }
        metrics::join_batch(batch.len());
        let message = StreamMessage::Joins {
            joins: batch.iter().map(|join| join.request(accepted_at)).collect(),
        };
        let message_id = uuid::Uuid::now_v7().to_string();
        let span = tracing::debug_span!(
            parent: None,
            "join.publish",
            stream.partition = self.partition,
            join.count = batch.len()
        );
        TraceContext::adopt_all(batch.iter().map(|join| &join.trace), &span);
        let outgoing = message.into_outgoing(self.partition, message_id);
        let published = self.broker.publish(outgoing).instrument(span).await;
        match published {
            Ok(()) => self.answer_confirmed(batch),
            Err(error) => self.answer_failed(batch, &error),
        }
    }

    /// The joins that somebody still waits for and that are still in time; the others are answered.
    fn sendable(&self, joins: &mut Vec<Waiting>, accepted_at: Timestamp) -> Vec<Waiting> {
        let mut batch = Vec::with_capacity(joins.len());
        for join in joins.drain(..) {
            if join.draw_at <= accepted_at {
                join.answer(Err(Refusal::Closed));
            } else if join.since.elapsed() > self.patience {
                join.answer(Err(Refusal::NotTaken));
            } else if !join.answer.is_closed() {
                batch.push(join);
            }
        }
        batch
    }

    fn answer_confirmed(&self, batch: Vec<Waiting>) {
        if self.is_failing.swap(false, Ordering::Relaxed) {
            tracing::info!(
                stream.partition = self.partition,
                "joins are confirmed again"
            );
        }
        // The clock answered a moment ago, so there is an estimate.
        let latest = self.clock.estimate().map(|time| time.latest());
        let mut accepted = 0;
        for join in batch {
            self.marks.set((join.activity_id, join.user_id));
            if latest.is_some_and(|latest| latest < join.draw_at) {
                accepted += 1;
                join.answer(Ok(()));
            } else {
                join.answer(Err(Refusal::ConfirmedLate));
            }
        }
        metrics::joins_accepted(accepted);
    }

    fn answer_failed(&self, batch: Vec<Waiting>, error: &PublishError) {
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                stream.partition = self.partition,
                "joins are not confirmed and answered 503 until this works again"
            );
        }
        let refusal = if error.is_outcome_unknown() {
            Refusal::OutcomeUnknown
        } else {
            Refusal::NotTaken
        };
        answer_all(batch, Err(refusal));
    }
}

impl Waiting {
    fn request(&self, accepted_at: Timestamp) -> JoinRequest {
        JoinRequest {
            activity_id: self.activity_id,
            user_id: self.user_id,
            device_id: self.device_id.clone(),
            completed_tasks: self.completed_tasks.clone(),
            accepted_at,
            request_id: self.request_id.clone(),
        }
    }

    fn answer(self, answer: Answer) {
        if self.answer.send(answer).is_err() {
            tracing::debug!("whoever sent the join has gone");
        }
    }
}

fn answer_all(joins: impl IntoIterator<Item = Waiting>, answer: Answer) {
    for join in joins {
        join.answer(answer);
    }
}
