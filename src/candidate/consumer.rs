//! Reads one partition of the stream.

use std::{sync::Arc, time::Duration};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    BarrierPass, CandidateService,
    admission::Message,
    age::{Ages, InHand},
    message::{Item, Received},
};
use crate::{
    infra::broker::{Delivery, OrderedHandler, Queue, Topology, Verdict},
    kernel::Timestamp,
    telemetry::{metrics, state},
};

/// Items that are admitted in one transaction, give or take those of one message.
const BATCH_ITEMS: usize = 1_000;

/// Handles the messages of one partition, in order.
///
/// Holds them while a server is down; only what is itself bad leaves for the dead-letter queue.
pub struct StreamConsumer {
    candidates: CandidateService,
    partition: u16,
    ages: Ages,
    stop: CancellationToken,
}

impl StreamConsumer {
    /// How often the age of what is in hand is told.
    const AGE_EVERY: Duration = Duration::from_secs(1);

    pub fn new(candidates: CandidateService, partition: u16, stop: CancellationToken) -> Self {
        let clock = Arc::clone(candidates.clock());
        Self {
            candidates,
            partition,
            ages: Ages::new(move || clock.guess().at),
            stop,
        }
    }

    /// Tells the metrics how long accepted joins have been waiting for their verdict, until the stop.
    pub async fn watch_lag(&self) {
        let mut every = tokio::time::interval(Self::AGE_EVERY);
        let stop = &self.stop;
        while stop.run_until_cancelled(every.tick()).await.is_some() {
            state::stream_lag(self.partition, self.ages.look());
        }
    }

    /// Admits what has been gathered.
    async fn admit(&self, batch: &mut Vec<Message>) -> Option<()> {
        if !batch.is_empty() {
            let messages = std::mem::take(batch);
            self.candidates
                .admit(self.partition, &messages, &self.stop)
                .await?;
        }
        Some(())
    }

    async fn pass(&self, passes: &[BarrierPass]) -> Option<Verdict> {
        let unasked = self
            .candidates
            .pass_barriers(self.partition, passes, &self.stop)
            .await?;
        let Some(first) = unasked.first() else {
            return Some(Verdict::Ack);
        };
        let (id, token) = (first.activity_id, first.draw_token);
        let reason = format!("nobody asked for a barrier of activity {id} with draw token {token}");
        Some(Verdict::DeadLetter { reason })
    }
}

impl OrderedHandler for StreamConsumer {
    async fn handle(&self, deliveries: Vec<Delivery>) -> Option<Vec<Verdict>> {
        let mut verdicts = Vec::with_capacity(deliveries.len());
        let mut batch: Vec<Message> = Vec::new();
        let mut in_hand: Vec<InHand<'_>> = Vec::new();
        for delivery in deliveries {
            let verdict = match Received::decode(&delivery.body) {
                Ok(Received::Items(items)) => {
                    let waiting: usize = batch.iter().map(|message| message.items.len()).sum();
                    if waiting + items.len() > BATCH_ITEMS {
                        self.admit(&mut batch).await?;
                    }
                    in_hand.extend(first_accepted(&items).map(|at| self.ages.take_up(at)));
                    let id = message_id(&delivery);
                    batch.push(Message { id, items });
                    Verdict::Ack
                }
                // Only the first delivery of a barrier comes after everything that was before it.
                Ok(Received::Barrier(_)) if delivery.redelivered => Verdict::Ack,
                Ok(Received::Barrier(passes)) => {
                    self.admit(&mut batch).await?;
                    self.pass(&passes).await?
                }
                Err(error) => Verdict::DeadLetter {
                    reason: error.to_string(),
                },
            };
            let queue = Topology::short_name(Queue::Stream(self.partition));
            metrics::stream_message(queue, kind(&delivery));
            verdicts.push(verdict);
        }
        self.admit(&mut batch).await?;
        Some(verdicts)
    }
}

/// When the oldest join of a message was accepted.
fn first_accepted(items: &[Item]) -> Option<Timestamp> {
    let accepted = items.iter().filter_map(|item| match item {
        Item::Join(join) => join.accepted_at,
        Item::Presence(_) | Item::Task(_) | Item::Unusable { .. } => None,
    });
    accepted.min()
}

/// The sender's id, or one that is the same for the same body.
fn message_id(delivery: &Delivery) -> String {
    delivery
        .message_id
        .clone()
        .unwrap_or_else(|| hex::encode(&Sha256::digest(&delivery.body)[..16]))
}

fn kind(delivery: &Delivery) -> &'static str {
    match delivery.kind.as_deref() {
        Some("joins") => "joins",
        Some("presence") => "presence",
        Some("tasks") => "tasks",
        Some("barrier") => "barrier",
        Some(_) | None => "other",
    }
}
