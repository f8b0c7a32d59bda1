//! Looking at the queues of a world, and putting into them what no process of ours would send.

use lapin::{
    BasicProperties,
    options::{BasicPublishOptions, QueueDeclareOptions},
    types::FieldTable,
};
use luckybag::{infra::broker::Queue, kernel::Timestamp};

use super::{Amqp, Process, World, eventually};

/// What a queue says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueState {
    /// Messages that are with no consumer.
    pub(crate) waiting: u32,
    /// Those that are served; of a partition one at most.
    pub(crate) consumers: u32,
}

impl Amqp {
    /// What the broker knows of a queue that exists.
    pub(crate) async fn look(&self, queue: &str) -> QueueState {
        let options = QueueDeclareOptions::durable().passive();
        let queue = self
            .channel()
            .queue_declare(queue.into(), options, FieldTable::default())
            .await
            .expect("the queue exists");
        QueueState {
            waiting: queue.message_count(),
            consumers: queue.consumer_count(),
        }
    }

    /// Puts a body into a queue as it is, without id, type or any other property.
    pub(crate) async fn put(&self, queue: &str, body: &[u8]) {
        self.send("", queue, body).await;
    }

    /// The same by an exchange.
    pub(crate) async fn send(&self, exchange: &str, routing_key: &str, body: &[u8]) {
        self.channel()
            .basic_publish(
                exchange.into(),
                routing_key.into(),
                BasicPublishOptions::default(),
                body,
                BasicProperties::default(),
            )
            .await
            .expect("sent");
    }
}

impl World {
    /// Whether there is a queue of this name, whoever made it.
    pub(crate) async fn has_queue(&self, queue: &str) -> bool {
        // A broker that misses a queue closes the channel.
        let amqp = self.amqp().await;
        let options = QueueDeclareOptions::durable().passive();
        let found = amqp
            .channel()
            .queue_declare(queue.into(), options, FieldTable::default())
            .await;
        amqp.close().await;
        match found {
            Ok(_) => true,
            Err(error) => {
                assert!(error.to_string().contains("NOT_FOUND"), "{error}");
                false
            }
        }
    }

    fn stream_queues(&self) -> Vec<String> {
        let topology = self.topology();
        (0..topology.partitions())
            .map(|partition| topology.queue_name(Queue::Stream(partition)))
            .collect()
    }

    /// Waits until some process is served with every partition of the stream. It stays so until
    /// that process ends, whoever comes later.
    pub(crate) async fn served(&self, amqp: &Amqp) {
        for queue in self.stream_queues() {
            eventually("a consumer", async || {
                let state = amqp.look(&queue).await;
                if state.consumers == 1 {
                    Ok(())
                } else {
                    Err((&queue, state))
                }
            })
            .await;
        }
    }

    /// A process of ours, the first one, that reads the stream whoever comes later: one that is only
    /// ready may not have subscribed yet, and the next one would become the reader.
    pub(crate) async fn serve_reader(&self, changes: &[(&str, &str)]) -> Process {
        let process = self.serve_with(changes).await;
        let amqp = self.amqp().await;
        self.served(&amqp).await;
        amqp.close().await;
        process
    }

    /// Nothing of the stream is left over: neither waiting, nor set aside, nor, since every
    /// process has ended and what it held unacked has gone back, held by anybody.
    pub(crate) async fn assert_drained(&self, amqp: &Amqp) {
        let nothing = QueueState {
            waiting: 0,
            consumers: 0,
        };
        let dead = self.topology().queue_name(Queue::Dead);
        for queue in self.stream_queues().into_iter().chain([dead]) {
            assert_eq!(amqp.look(&queue).await, nothing, "{queue}");
        }
    }

    /// Waits until the database's clock shows `at`.
    pub(crate) async fn until(&self, at: Timestamp) {
        // However far away it is; then as precisely as one can ask.
        let left = (at - self.now().await).to_std().unwrap_or_default();
        tokio::time::sleep(left).await;
        eventually("the moment", async || {
            let now = self.now().await;
            if now >= at { Ok(()) } else { Err(now) }
        })
        .await;
    }

    /// What the database's clock shows.
    pub(crate) async fn now(&self) -> Timestamp {
        let millis = self
            .number("SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)")
            .await;
        Timestamp::from_timestamp_millis(millis).expect("a time")
    }
}
