//! What could not be handled: looked at, and sent where it came from once more.

use lapin::{
    Channel,
    message::BasicGetMessage,
    options::{BasicAckOptions, BasicGetOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};

use super::{
    client::Broker,
    connection::{self, ANSWER_LIMIT, within},
    error::{BrokerError, PublishError},
    message::{Delivery, Envelope, ORIGIN_HEADER, REASON_HEADER, as_text, header, short},
    publisher::{self, Line},
    topology::Queue,
};

/// A message in the dead-letter queue.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The sender's id for it.
    pub message_id: Option<String>,
    /// What it is.
    pub kind: Option<String>,
    /// Why it is here: in our words, or the broker's (`delivery_limit`).
    pub reason: Option<String>,
    /// The queue that it came from.
    pub origin: Option<String>,
    /// What was sent.
    pub body: Vec<u8>,
}

impl DeadLetter {
    fn of(message: &BasicGetMessage) -> Self {
        let properties = &message.properties;
        let delivery = Delivery::of(message);
        // The broker's own note, the last death first.
        let deaths = header(properties, "x-death").and_then(AMQPValue::as_array);
        let last = deaths.and_then(|deaths| deaths.as_slice().first()?.as_field_table());
        let death = |name: &str| as_text(last?.inner().get(name)?);
        Self {
            message_id: delivery.message_id,
            kind: delivery.kind,
            reason: header(properties, REASON_HEADER)
                .and_then(as_text)
                .or_else(|| death("reason")),
            origin: header(properties, ORIGIN_HEADER)
                .and_then(as_text)
                .or_else(|| death("queue")),
            body: delivery.body,
        }
    }
}

impl Broker {
    /// The dead letters, the oldest first, at most `limit`; all of them stay where they are.
    ///
    /// Needs no running [`Broker::run`].
    pub async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, BrokerError> {
        let connection = connection::open(self.url(), "dead letters").await?;
        let letters = self.read_dead_letters(&connection, limit).await;
        // Nothing was acked, so the close puts everything back.
        connection::close(&connection).await;
        letters
    }

    async fn read_dead_letters(
        &self,
        connection: &lapin::Connection,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, BrokerError> {
        let channel = connection::open_channel(connection).await?;
        let mut letters = Vec::new();
        while letters.len() < limit {
            let Some(message) = self.get_dead_letter(&channel).await? else {
                break;
            };
            letters.push(DeadLetter::of(&message));
        }
        Ok(letters)
    }

    /// Sends at most `limit` dead letters to the queues they came from, the oldest first, and
    /// returns how many went. One whose origin is unknown stays.
    ///
    /// Needs no running [`Broker::run`].
    pub async fn replay_dead(&self, limit: usize) -> Result<usize, BrokerError> {
        let line = Line::new(connection::open(self.url(), "dead letters").await?);
        let replayed = self.replay_over(&line, limit).await;
        connection::close(line.connection()).await;
        replayed
    }

    async fn replay_over(&self, line: &Line, limit: usize) -> Result<usize, BrokerError> {
        let channel = connection::open_channel(line.connection()).await?;
        let name = short(&self.topology().queue_name(Queue::Dead));
        let options = QueueDeclareOptions::durable().passive();
        let look = channel.queue_declare(name, options, FieldTable::default());
        let waiting = within(ANSWER_LIMIT, "look at a queue", look)
            .await?
            .message_count();

        // Only those that are here now: one that fails again at once must not go round for ever.
        let limit = limit.min(usize::try_from(waiting).unwrap_or(usize::MAX));
        let mut replayed = 0;
        for _ in 0..limit {
            let Some(message) = self.get_dead_letter(&channel).await? else {
                break;
            };
            let Some(queue_name) = self.origin_of(&message) else {
                continue;
            };
            self.replay(line, &message, queue_name).await?;
            let ack = message.acker.ack(BasicAckOptions::default());
            if !within(ANSWER_LIMIT, "ack", ack).await? {
                return Err(BrokerError::ConsumerEnded);
            }
            replayed += 1;
        }
        Ok(replayed)
    }

    async fn replay(
        &self,
        line: &Line,
        message: &BasicGetMessage,
        queue_name: String,
    ) -> Result<(), BrokerError> {
        let again = Envelope::replayed(&Delivery::of(message), queue_name);
        publisher::send(line, &[again], self.confirm_timeout())
            .await
            .pop()
            .unwrap_or(Err(PublishError::NotConnected))
            .map_err(BrokerError::Publish)
    }

    /// The queue of ours that a dead letter came from and may go back to.
    fn origin_of(&self, message: &BasicGetMessage) -> Option<String> {
        let topology = self.topology();
        let origin = DeadLetter::of(message).origin?;
        let queue = topology
            .partition_named(&origin)
            .or_else(|| topology.queue_named(&origin))?;
        match queue {
            Queue::Stream(_) | Queue::Presence | Queue::Tasks | Queue::Draw | Queue::Delay(_) => {
                Some(topology.queue_name(queue))
            }
            Queue::Dead | Queue::Unrouted => None,
        }
    }

    async fn get_dead_letter(
        &self,
        channel: &Channel,
    ) -> Result<Option<BasicGetMessage>, BrokerError> {
        let name = short(&self.topology().queue_name(Queue::Dead));
        let get = channel.basic_get(name, BasicGetOptions::default());
        within(ANSWER_LIMIT, "get a dead letter", get).await
    }
}
