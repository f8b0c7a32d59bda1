//! Reads one partition of the stream.

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{BarrierPass, CandidateService, admission::Message, message::Received};
use crate::{
    infra::broker::{Delivery, OrderedHandler, Verdict},
    telemetry::metrics,
};

/// Items that are admitted in one transaction, give or take those of one message.
const BATCH_ITEMS: usize = 1_000;

/// Handles the messages of one partition, in order.
///
/// Holds them while a server is down; only what is itself bad leaves for the dead-letter queue.
pub struct StreamConsumer {
    candidates: CandidateService,
    partition: u16,
    stop: CancellationToken,
}

impl StreamConsumer {
    pub fn new(candidates: CandidateService, partition: u16, stop: CancellationToken) -> Self {
        Self {
            candidates,
            partition,
            stop,
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
        for delivery in deliveries {
            let verdict = match Received::decode(&delivery.body) {
                Ok(Received::Items(items)) => {
                    let waiting: usize = batch.iter().map(|message| message.items.len()).sum();
                    if waiting + items.len() > BATCH_ITEMS {
                        self.admit(&mut batch).await?;
                    }
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
            metrics::stream_messages(kind(&delivery), 1);
            verdicts.push(verdict);
        }
        self.admit(&mut batch).await?;
        Some(verdicts)
    }
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
