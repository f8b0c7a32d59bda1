//! Moves what other systems leave in the two ingress queues into the stream.

use std::{sync::Arc, time::Duration};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    Feed, Ingress,
    check::{BadEvent, Checked, check},
    forms::{EventsBody, Reported},
};
use crate::{
    candidate::{PresenceEvent, TaskEvent, age::Ages, holding::publish_until_confirmed},
    infra::broker::{Delivery, Handler, Outgoing, Target, Verdict},
    kernel::step,
    telemetry::metrics,
};

/// Handles the messages of one ingress queue, several at a time.
///
/// A message is acked once all of it is in the stream, confirmed, or set aside; it is held while the
/// broker does not take it.
pub struct IngressConsumer {
    ingress: Ingress,
    feed: Feed,
    ages: Ages,
    stop: CancellationToken,
}

impl IngressConsumer {
    /// How many messages are in hand at the same time.
    pub const PREFETCH: u16 = 16;
    /// Where their events are counted, and what an outage stops, for the log.
    const SOURCE: &str = "amqp";
    const HELD: &str = "ingress";
    /// How often the age of what is in hand is told.
    const AGE_EVERY: Duration = Duration::from_secs(1);

    pub fn new(ingress: Ingress, feed: Feed, stop: CancellationToken) -> Self {
        let clock = Arc::clone(ingress.clock());
        Self {
            ingress,
            feed,
            ages: Ages::new(move || clock.guess().at),
            stop,
        }
    }

    /// Tells the metrics how old the events are, until the stop.
    pub async fn watch_age(&self) {
        let mut every = tokio::time::interval(Self::AGE_EVERY);
        let stop = &self.stop;
        while stop.run_until_cancelled(every.tick()).await.is_some() {
            metrics::ingress_age(self.feed.as_str(), self.ages.look());
        }
    }

    async fn take<E: Reported>(&self, delivery: &Delivery) -> Verdict {
        let checked = match self.read::<E>(&delivery.body) {
            Ok(checked) => checked,
            Err(reason) => return Verdict::DeadLetter { reason },
        };
        step("ingress.received");
        let newest = checked.good.iter().map(Reported::happened_at).max();
        let _in_hand = newest.map(|at| self.ages.take_up(at));
        match self.send(delivery, checked).await {
            Some(()) => {
                step("ingress.published");
                Verdict::Ack
            }
            None => Verdict::Abandon,
        }
    }

    /// The events of a message, or what is wrong with it as a whole.
    fn read<E: Reported>(&self, body: &[u8]) -> Result<Checked<E>, String> {
        metrics::ingress_message(Self::SOURCE, self.feed.as_str());
        let limit = self.ingress.max_body_bytes();
        if body.len() > limit {
            return Err(format!("the body is larger than {limit} bytes"));
        }
        let body: EventsBody = serde_json::from_slice(body).map_err(|error| not_events(&error))?;
        check(body, self.ingress.door()).map_err(|wrong_count| wrong_count.to_string())
    }

    /// `None`: the stop was requested before everything was confirmed.
    async fn send<E: Reported>(&self, delivery: &Delivery, checked: Checked<E>) -> Option<()> {
        let Checked { good, bad } = checked;
        let (good_count, bad_count) = (good.len() as u64, bad.len() as u64);
        let id = message_id(delivery);
        let mut outgoing = self.ingress.messages(good, &id);
        outgoing.extend(bad.iter().map(|bad| self.dead_letter(bad, &id)));
        let broker = self.ingress.broker();
        publish_until_confirmed(broker, outgoing, Self::HELD, &self.stop).await?;

        let feed = self.feed.as_str();
        metrics::ingress_events(Self::SOURCE, feed, good_count);
        if bad_count > 0 {
            metrics::ingress_refused(Self::SOURCE, feed, "invalid", bad_count);
        }
        for bad in &bad {
            metrics::dead_lettered(feed);
            tracing::error!(
                message.id = id,
                message.kind = feed,
                item.index = bad.index,
                message.reason = bad.reason(),
                "event moved to the dead-letter queue"
            );
        }
        Some(())
    }

    /// A message that carries the event alone, so that it can be replayed.
    fn dead_letter(&self, bad: &BadEvent, id: &str) -> Outgoing {
        // Byte for byte: a field that was given twice still is.
        let body = format!("{{\"events\":[{}]}}", bad.event.get()).into_bytes();
        let id = format!("{id}:{}", bad.index);
        Outgoing {
            reason: Some(bad.reason()),
            origin: Some(self.feed.queue()),
            ..Outgoing::new(Target::Dead, id, self.feed.as_str(), body)
        }
    }
}

impl Handler for IngressConsumer {
    async fn handle(&self, delivery: Delivery) -> Verdict {
        match self.feed {
            Feed::Presence => self.take::<PresenceEvent>(&delivery).await,
            Feed::Tasks => self.take::<TaskEvent>(&delivery).await,
        }
    }
}

/// The fault of a message that is none of ours; what it quotes of the message is cut.
fn not_events(error: &serde_json::Error) -> String {
    const LONGEST_BYTES: usize = 300;
    let mut fault = format!("not a message with events: {error}");
    fault.truncate(fault.floor_char_boundary(LONGEST_BYTES));
    fault
}

/// The same for the same message, so that what a redelivery sends again can be told by its id; and
/// another for another message, whatever id its sender gave it.
fn message_id(delivery: &Delivery) -> String {
    let given = delivery.message_id.as_deref().unwrap_or_default();
    let mut digest = Sha256::new();
    digest.update(given);
    digest.update([0]);
    digest.update(&delivery.body);
    hex::encode(&digest.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::TraceContext;

    #[test]
    fn a_redelivery_has_the_same_id_and_another_message_has_another() {
        let delivery = |message_id: Option<&str>, body: &str| Delivery {
            body: body.into(),
            redelivered: false,
            message_id: message_id.map(str::to_owned),
            kind: None,
            trace: TraceContext::default(),
        };
        let first = delivery(Some("m"), "{}");
        let again = Delivery {
            redelivered: true,
            ..first.clone()
        };

        assert_eq!(message_id(&first), message_id(&again));
        for other in [
            delivery(Some("m"), "{ }"),
            delivery(Some("n"), "{}"),
            delivery(None, "{}"),
        ] {
            assert_ne!(message_id(&first), message_id(&other));
        }
    }
}
