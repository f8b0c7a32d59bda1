//! The handle that everything else holds, and the task that keeps its connection up.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use lapin::{
    Channel,
    options::{QueueDeclareOptions, QueueDeleteOptions},
};
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{
    connection::{self, ANSWER_LIMIT, Backoff, WATCH_PERIOD, within},
    error::{BrokerError, PublishError},
    message::{Envelope, Outgoing, short},
    publisher::{self, Line},
    topology::{Queue, Topology},
};

/// Most messages that are under way unconfirmed for one caller; more buys nothing.
const MAX_UNCONFIRMED: usize = 500;

/// What the broker says of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// Messages that no consumer has.
    pub ready: u32,
    /// Whoever is subscribed, served or not.
    pub consumers: u32,
}

/// Where the broker is and how it is used.
#[derive(Clone)]
pub struct BrokerOptions {
    /// AMQP URI, with user and password.
    pub url: String,
    /// Prefix of every exchange and queue.
    pub namespace: String,
    /// How many partitions the stream has.
    pub partitions: u16,
    /// How long a publish waits for its confirm.
    pub confirm_timeout: Duration,
}

impl fmt::Debug for BrokerOptions {
    /// Without the address, which holds a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerOptions")
            .field("namespace", &self.namespace)
            .field("partitions", &self.partitions)
            .field("confirm_timeout", &self.confirm_timeout)
            .finish_non_exhaustive()
    }
}

/// Sends and receives messages. Cheap to clone; all clones share one connection for publishing,
/// and each consumer has one of its own.
#[derive(Clone, Debug)]
pub struct Broker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: BrokerOptions,
    topology: Topology,
    line: RwLock<Option<Arc<Line>>>,
    connected: watch::Sender<bool>,
    /// A message found no queue: something has been deleted and has to be declared again.
    untaken: Notify,
}

impl Broker {
    /// A broker that is not connected yet; [`Broker::run`] does that.
    pub fn new(options: BrokerOptions) -> Self {
        let topology = Topology::new(&options.namespace, options.partitions);
        let shared = Shared {
            options,
            topology,
            line: RwLock::new(None),
            connected: watch::Sender::new(false),
            untaken: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The names of our exchanges and queues.
    pub fn topology(&self) -> &Topology {
        &self.shared.topology
    }

    pub(super) fn url(&self) -> &str {
        &self.shared.options.url
    }

    pub(super) fn confirm_timeout(&self) -> Duration {
        self.shared.options.confirm_timeout
    }

    /// Keeps the publishing connection up until `stop`; declares everything at each connect.
    ///
    /// Stop it after the consumers: they need it to move bad messages away.
    pub async fn run(&self, stop: CancellationToken) {
        let mut backoff = Backoff::new();
        while let Some(connected) = stop.run_until_cancelled(self.connect()).await {
            match connected {
                Ok(line) => {
                    backoff.connected();
                    tracing::info!("broker connected");
                    let ended = self.keep(&line, &stop).await;
                    *self.shared.line.write() = None;
                    self.shared.connected.send_replace(false);
                    connection::close(line.connection()).await;
                    let Err(error) = ended else { break };
                    backoff.pause("publisher", &error, &stop).await;
                }
                Err(error) => backoff.pause("publisher", &error, &stop).await,
            }
        }
        tracing::info!("broker connection closed");
    }

    async fn connect(&self) -> Result<Arc<Line>, BrokerError> {
        let connection = connection::open(self.url(), "publisher").await?;
        if let Err(error) = connection::declare_all(&connection, self.topology()).await {
            connection::close(&connection).await;
            return Err(error);
        }
        let line = Arc::new(Line::new(connection));
        *self.shared.line.write() = Some(Arc::clone(&line));
        self.shared.connected.send_replace(true);
        Ok(line)
    }

    /// Returns when the stop is requested, or with the reason why the connection is of no more use.
    async fn keep(&self, line: &Line, stop: &CancellationToken) -> Result<(), BrokerError> {
        let mut watch = tokio::time::interval(WATCH_PERIOD);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = line.given_up() => return Err(BrokerError::TimedOut("confirm")),
                _ = watch.tick() => {
                    if !line.is_alive() {
                        return Err(BrokerError::NotConnected);
                    }
                }
            }
            // Looked at once a tick at most, so a missing queue is not declared in a tight loop.
            if futures_util::FutureExt::now_or_never(self.shared.untaken.notified()).is_some() {
                tracing::warn!("a message was not taken; declaring all queues and exchanges again");
                connection::declare_all(line.connection(), self.topology()).await?;
            }
        }
    }

    /// Whether a publish has a chance.
    pub fn is_connected(&self) -> bool {
        self.line().is_some()
    }

    /// Waits until the connection is up and everything is declared.
    pub async fn wait_connected(&self) {
        let mut connected = self.shared.connected.subscribe();
        // The sender lives in `self`, so this cannot fail.
        drop(connected.wait_for(|connected| *connected).await);
    }

    /// Sends one message and waits until the broker has taken it over.
    ///
    /// Many callers at once do not wait for each other.
    pub async fn publish(&self, message: Outgoing) -> Result<(), PublishError> {
        self.send_one(Envelope::of(message, self.topology())).await
    }

    /// Sends all messages, then waits for all confirms; one result a message, in order.
    pub async fn publish_all(&self, messages: Vec<Outgoing>) -> Vec<Result<(), PublishError>> {
        let envelopes: Vec<Envelope> = messages
            .into_iter()
            .map(|message| Envelope::of(message, self.topology()))
            .collect();
        let mut results = Vec::with_capacity(envelopes.len());
        for chunk in envelopes.chunks(MAX_UNCONFIRMED) {
            results.extend(self.send(chunk).await);
        }
        results
    }

    pub(super) async fn send_one(&self, envelope: Envelope) -> Result<(), PublishError> {
        self.send(std::slice::from_ref(&envelope))
            .await
            .pop()
            .unwrap_or(Err(PublishError::NotConnected))
    }

    async fn send(&self, envelopes: &[Envelope]) -> Vec<Result<(), PublishError>> {
        let Some(line) = self.line() else {
            return envelopes
                .iter()
                .map(|_| Err(PublishError::NotConnected))
                .collect();
        };
        let results = publisher::send(&line, envelopes, self.confirm_timeout()).await;
        // A missing queue returns the message, a missing exchange breaks the channel.
        let hints_at_topology = |result: &_| {
            matches!(
                result,
                Err(PublishError::Returned | PublishError::Connection(_))
            )
        };
        if results.iter().any(hints_at_topology) {
            self.shared.untaken.notify_one();
        }
        results
    }

    /// The publishing connection, if it takes anything at the moment.
    pub(super) fn line(&self) -> Option<Arc<Line>> {
        self.shared
            .line
            .read()
            .clone()
            .filter(|line| line.takes_messages())
    }

    /// How many messages are ready in each queue, by its name without the namespace; an error for
    /// itself where a queue is missing or the broker does not say.
    pub async fn queue_depths(&self) -> Vec<(String, Result<u32, BrokerError>)> {
        /// A broker that does not answer costs a time-out for so many queues.
        const AT_ONCE: usize = 8;

        stream::iter(self.topology().queues())
            .map(async |queue| (Topology::short_name(queue), self.queue_depth(queue).await))
            .buffered(AT_ONCE)
            .collect()
            .await
    }

    /// How many messages are ready in a queue; those in the hands of a consumer do not count.
    pub async fn queue_depth(&self, queue: Queue) -> Result<u32, BrokerError> {
        self.look_at(queue).await.map(|state| state.ready)
    }

    /// What the broker says of a queue.
    pub async fn look_at(&self, queue: Queue) -> Result<QueueState, BrokerError> {
        let channel = self.open_channel().await?;
        let name = short(&self.topology().queue_name(queue));
        let options = QueueDeclareOptions::durable().passive();
        let look = channel.queue_declare(name, options, lapin::types::FieldTable::default());
        // A missing queue closes the channel by itself.
        let found = within(ANSWER_LIMIT, "look at a queue", look).await?;
        close_channel(&channel).await;
        Ok(QueueState {
            ready: found.message_count(),
            consumers: found.consumer_count(),
        })
    }

    /// Removes a queue with what is in it.
    pub async fn delete_queue(&self, queue: Queue) -> Result<(), BrokerError> {
        let channel = self.open_channel().await?;
        let name = short(&self.topology().queue_name(queue));
        let delete = channel.queue_delete(name, QueueDeleteOptions::default());
        within(ANSWER_LIMIT, "delete a queue", delete).await?;
        close_channel(&channel).await;
        Ok(())
    }

    async fn open_channel(&self) -> Result<Channel, BrokerError> {
        let line = self.line().ok_or(BrokerError::NotConnected)?;
        connection::open_channel(line.connection()).await
    }
}

/// Closes a channel that has done its work; one that is broken already is none the worse for it.
async fn close_channel(channel: &Channel) {
    let close = channel.close(200, "OK".into());
    drop(within(ANSWER_LIMIT, "close a channel", close).await);
}
