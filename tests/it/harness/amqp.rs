//! The broker's client library itself, for what an operator or another system would do.

use futures_util::StreamExt;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    options::{
        BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions,
        ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
    },
    types::FieldTable,
};
use luckybag::infra::broker::Topology;
use serde_json::Value;

/// One connection with one channel.
pub(crate) struct Amqp {
    connection: Connection,
    channel: Channel,
}

impl Amqp {
    pub(crate) async fn connect(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default())
            .await
            .expect("a connection to RabbitMQ");
        let channel = connection.create_channel().await.expect("a channel");
        Self {
            connection,
            channel,
        }
    }

    pub(super) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Removes every queue and exchange of a namespace.
    pub(crate) async fn delete_all(&self, topology: &Topology) {
        for queue in topology.queues() {
            self.channel
                .queue_delete(
                    topology.queue_name(queue).into(),
                    QueueDeleteOptions::default(),
                )
                .await
                .expect("the queue is deleted");
        }
        for exchange in topology.exchange_names() {
            self.channel
                .exchange_delete(exchange.into(), ExchangeDeleteOptions::default())
                .await
                .expect("the exchange is deleted");
        }
    }

    /// The body of the oldest message of a queue, taken out of it.
    pub(crate) async fn take(&self, queue: &str) -> Option<Vec<u8>> {
        let message = self
            .channel
            .basic_get(queue.into(), BasicGetOptions::default())
            .await
            .expect("the queue exists")?;
        message
            .ack(BasicAckOptions::default())
            .await
            .expect("taken");
        Some(message.delivery.data)
    }

    /// Collects the events of an exchange from now on, in a queue that goes with the connection.
    pub(crate) async fn listen(&self, exchange: &str, routing_key: &str) -> Events {
        let options = QueueDeclareOptions {
            exclusive: true,
            auto_delete: true,
            ..Default::default()
        };
        let queue = self
            .channel
            .queue_declare("".into(), options, FieldTable::default())
            .await
            .expect("a queue");
        let name = queue.name().clone();
        self.channel
            .queue_bind(
                name.clone(),
                exchange.into(),
                routing_key.into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await
            .expect("the exchange exists");
        let options = BasicConsumeOptions {
            no_ack: true,
            ..Default::default()
        };
        let consumer = self
            .channel
            .basic_consume(name.clone(), "".into(), options, FieldTable::default())
            .await
            .expect("a consumer");
        Events {
            consumer,
            channel: self.channel.clone(),
            queue: name.to_string(),
        }
    }

    pub(crate) async fn close(self) {
        self.connection
            .close(200, "bye".into())
            .await
            .expect("closed");
    }
}

/// Events as they arrive.
pub(crate) struct Events {
    consumer: lapin::Consumer,
    channel: Channel,
    queue: String,
}

impl Events {
    /// The next event's envelope; panics when none comes for long.
    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_slice(&self.next_delivery().await.data).expect("a JSON event")
    }

    /// The next event with its properties; panics when none comes for long.
    pub(crate) async fn next_delivery(&mut self) -> lapin::message::Delivery {
        let waiting =
            tokio::time::timeout(std::time::Duration::from_secs(30), self.consumer.next());
        let delivery = waiting
            .await
            .expect("an event in time")
            .expect("a live connection");
        delivery.expect("a delivery")
    }

    /// Every event that was confirmed before this call and has not been read yet.
    pub(crate) async fn until_now(&mut self) -> Vec<Value> {
        // What was confirmed is in the queue, and this message comes behind it.
        self.channel
            .basic_publish(
                "".into(),
                self.queue.as_str().into(),
                BasicPublishOptions::default(),
                b"{}",
                BasicProperties::default(),
            )
            .await
            .expect("sent");
        let mut arrived = Vec::new();
        loop {
            let delivery = self.next_delivery().await;
            // Events come by an exchange that has a name.
            if delivery.exchange.as_str().is_empty() {
                return arrived;
            }
            arrived.push(serde_json::from_slice(&delivery.data).expect("a JSON event"));
        }
    }
}
