//! Receives messages and settles what the handlers decide.
//!
//! A consumer owns its connection. Whatever goes wrong, the connection is thrown away: everything
//! unsettled comes back on the next one, here or in another process.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use lapin::{
    Acker, Channel, Connection, Consumer,
    options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::{
    client::Broker,
    connection::{self, ANSWER_LIMIT, Backoff, WATCH_PERIOD, within},
    error::BrokerError,
    message::{Delivery, Envelope, Verdict, short},
    topology::{Queue, Topology},
};
use crate::telemetry::{TraceContext, metrics};

/// Most deliveries that an [`OrderedHandler`] is given at once.
const MAX_RUN: usize = 16;

/// How many messages of a partition wait in the process.
const ORDERED_PREFETCH: u16 = 64;

/// Pause before a dead letter that could not be moved away is tried again.
const BURY_PAUSE: Duration = Duration::from_millis(500);

/// What is said of a message whose handler panicked.
const PANICKED: &str = "its handler panicked";

/// Reacts to messages one by one, many at a time. Must be idempotent.
pub trait Handler: Send + Sync + 'static {
    /// Decides what becomes of one delivery.
    fn handle(&self, delivery: Delivery) -> impl Future<Output = Verdict> + Send;
}

/// Reacts to the messages of one partition in their order. Must be idempotent.
pub trait OrderedHandler: Send + Sync + 'static {
    /// Decides what becomes of consecutive deliveries, one verdict each.
    ///
    /// It holds them and tries again in place while a dependency is down. `None`: a stop was
    /// requested before it could finish; all of them are left to the next consumer.
    fn handle(
        &self,
        deliveries: Vec<Delivery>,
    ) -> impl Future<Output = Option<Vec<Verdict>>> + Send;
}

/// One connection with one consumer on it.
struct Session {
    queue: Queue,
    connection: Connection,
    channel: Channel,
    consumer: Consumer,
}

impl Session {
    async fn open(broker: &Broker, queue: Queue, prefetch: u16) -> Result<Self, BrokerError> {
        let name = broker.topology().queue_name(queue);
        let connection = connection::open(broker.url(), &format!("consumer {name}")).await?;
        match Self::subscribe(broker, &connection, queue, prefetch).await {
            Ok((channel, consumer)) => Ok(Self {
                queue,
                connection,
                channel,
                consumer,
            }),
            Err(error) => {
                connection::close(&connection).await;
                Err(error)
            }
        }
    }

    async fn subscribe(
        broker: &Broker,
        connection: &Connection,
        queue: Queue,
        prefetch: u16,
    ) -> Result<(Channel, Consumer), BrokerError> {
        let channel = connection::open_channel(connection).await?;
        connection::declare_for(&channel, broker.topology(), queue).await?;

        let qos = channel.basic_qos(prefetch, BasicQosOptions::default());
        within(ANSWER_LIMIT, "set the prefetch", qos).await?;
        let consume = channel.basic_consume(
            short(&broker.topology().queue_name(queue)),
            short(""),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = within(ANSWER_LIMIT, "consume", consume).await?;
        Ok((channel, consumer))
    }

    fn is_alive(&self) -> bool {
        self.connection.status().connected() && self.channel.status().connected()
    }

    /// The next delivery; an error when there will be none on this connection.
    async fn next(&mut self) -> Result<lapin::message::Delivery, BrokerError> {
        let mut watch = tokio::time::interval(WATCH_PERIOD);
        loop {
            tokio::select! {
                next = self.consumer.next() => return Self::usable(next),
                _ = watch.tick() => {
                    if !self.is_alive() {
                        return Err(BrokerError::ConsumerEnded);
                    }
                }
            }
        }
    }

    /// The next delivery and those that already wait behind it.
    async fn next_run(&mut self) -> Result<Vec<lapin::message::Delivery>, BrokerError> {
        let mut run = vec![self.next().await?];
        while run.len() < MAX_RUN {
            let Some(next) = self.consumer.next().now_or_never() else {
                break;
            };
            run.push(Self::usable(next)?);
        }
        Ok(run)
    }

    /// What is buffered of a dead channel is delivered again elsewhere, so it is not handled here.
    fn usable(
        next: Option<lapin::Result<lapin::message::Delivery>>,
    ) -> Result<lapin::message::Delivery, BrokerError> {
        match next {
            Some(Ok(delivery)) if delivery.acker.usable() => Ok(delivery),
            Some(Ok(_)) | None => Err(BrokerError::ConsumerEnded),
            Some(Err(source)) => Err(BrokerError::Failed {
                action: "deliver",
                source,
            }),
        }
    }
}

impl Broker {
    /// Handles the messages of a queue until `stop`, up to `prefetch` at once.
    ///
    /// At the stop it takes no more, waits for the handlers that run, and closes. A handler that
    /// panics has its message dead-lettered.
    pub async fn consume<H: Handler>(
        &self,
        queue: Queue,
        prefetch: u16,
        handler: Arc<H>,
        stop: CancellationToken,
    ) {
        let role = format!("consumer {}", self.topology().queue_name(queue));
        let mut backoff = Backoff::new();
        let mut tasks = JoinSet::new();
        self.wait_connected_or(&stop).await;
        while !stop.is_cancelled() {
            let error = match Session::open(self, queue, prefetch).await {
                Ok(mut session) => {
                    backoff.connected();
                    let ended = self
                        .dispatch(&mut session, &handler, &mut tasks, &stop)
                        .await;
                    if ended.is_ok() {
                        while tasks.join_next().await.is_some() {}
                    }
                    connection::close(&session.connection).await;
                    let Err(error) = ended else { break };
                    error
                }
                Err(error) => error,
            };
            backoff.pause(&role, &error, &stop).await;
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Starts a task a delivery; returns at the stop, or when the connection is of no more use.
    async fn dispatch<H: Handler>(
        &self,
        session: &mut Session,
        handler: &Arc<H>,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Result<(), BrokerError> {
        let lost = CancellationToken::new();
        loop {
            let delivery = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                () = lost.cancelled() => return Err(BrokerError::ConsumerEnded),
                Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
                delivery = session.next() => delivery?,
            };
            let (broker, queue) = (self.clone(), session.queue);
            let (handler, lost, stop) = (Arc::clone(handler), lost.clone(), stop.clone());
            let message = Delivery::of(&delivery);
            let span = handling_span(queue, 1);
            if queue == Queue::Draw {
                // Waits for days on the ladder: the draw is a trace of its own.
                message.trace.link(&span);
            } else {
                message.trace.adopt(&span);
            }
            let handling = async move {
                let verdict = AssertUnwindSafe(handler.handle(message.clone()))
                    .catch_unwind()
                    .await
                    .unwrap_or_else(|_| dead(PANICKED));
                let settled = broker
                    .settle(queue, &delivery.acker, &message, verdict, &stop)
                    .await;
                if settled.is_err() {
                    lost.cancel();
                }
            };
            tasks.spawn(handling.instrument(span));
        }
    }

    async fn settle(
        &self,
        queue: Queue,
        acker: &Acker,
        message: &Delivery,
        verdict: Verdict,
        stop: &CancellationToken,
    ) -> Result<(), BrokerError> {
        match verdict {
            Verdict::Ack => ack(acker, BasicAckOptions::default()).await,
            Verdict::DeadLetter { reason } => {
                match self.bury(queue, acker, message, &reason, stop).await? {
                    Burial::Done => ack(acker, BasicAckOptions::default()).await,
                    Burial::StopRequested => Ok(()),
                }
            }
            Verdict::Abandon => Ok(()),
        }
    }

    /// Handles the messages of one partition of the stream until `stop`, one run of consecutive
    /// ones after another.
    ///
    /// Of all consumers of a partition, in whatever process, the broker serves one. At the stop
    /// the run in hand is finished and settled. If the handler panics, its run is tried again one by
    /// one, and the message with which it panics alone is dead-lettered.
    pub async fn consume_ordered<H: OrderedHandler>(
        &self,
        partition: u16,
        handler: Arc<H>,
        stop: CancellationToken,
    ) {
        let queue = Queue::Stream(partition);
        let role = format!("consumer {}", self.topology().queue_name(queue));
        let mut backoff = Backoff::new();
        self.wait_connected_or(&stop).await;
        while !stop.is_cancelled() {
            let error = match Session::open(self, queue, ORDERED_PREFETCH).await {
                Ok(mut session) => {
                    backoff.connected();
                    let ended = self
                        .handle_runs(&mut session, handler.as_ref(), &stop)
                        .await;
                    // Closing without a cancel: the broker keeps serving nobody else until all
                    // that is unsettled has been put back in front.
                    connection::close(&session.connection).await;
                    let Err(error) = ended else { break };
                    error
                }
                Err(error) => error,
            };
            backoff.pause(&role, &error, &stop).await;
        }
    }

    async fn handle_runs<H: OrderedHandler>(
        &self,
        session: &mut Session,
        handler: &H,
        stop: &CancellationToken,
    ) -> Result<(), BrokerError> {
        while !stop.is_cancelled() {
            let run = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                run = session.next_run() => run?,
            };
            if !session.is_alive() {
                return Err(BrokerError::ConsumerEnded);
            }
            let messages: Vec<Delivery> = run.iter().map(Delivery::of).collect();
            let span = handling_span(session.queue, messages.len());
            TraceContext::adopt_all(messages.iter().map(|message| &message.trace), &span);
            let handling = handle_run(handler, &messages).instrument(span);
            let Some(verdicts) = handling.await else {
                return if stop.is_cancelled() {
                    Ok(())
                } else {
                    Err(BrokerError::ConsumerEnded)
                };
            };
            let ackers: Vec<&Acker> = run.iter().map(|delivery| &delivery.acker).collect();
            self.settle_run(session.queue, &ackers, &messages, verdicts, stop)
                .await?;
        }
        Ok(())
    }

    /// Settles a run from its front, with one ack for all of it.
    async fn settle_run(
        &self,
        queue: Queue,
        ackers: &[&Acker],
        messages: &[Delivery],
        verdicts: Vec<Verdict>,
        stop: &CancellationToken,
    ) -> Result<(), BrokerError> {
        let mut last_done = None;
        for ((acker, message), verdict) in ackers.iter().zip(messages).zip(verdicts) {
            match verdict {
                Verdict::Ack => (),
                Verdict::DeadLetter { reason } => {
                    match self.bury(queue, acker, message, &reason, stop).await? {
                        Burial::Done => (),
                        Burial::StopRequested => break,
                    }
                }
                Verdict::Abandon => break,
            }
            last_done = Some(acker);
        }

        if let Some(acker) = last_done {
            ack(acker, BasicAckOptions { multiple: true }).await?;
        }
        let all_done = last_done.is_some_and(|done| ackers.last().is_some_and(|last| last == done));
        if all_done || stop.is_cancelled() {
            Ok(())
        } else {
            Err(BrokerError::ConsumerEnded)
        }
    }

    /// Moves a message to the dead-letter queue; tries until the broker has confirmed it.
    async fn bury(
        &self,
        queue: Queue,
        acker: &Acker,
        message: &Delivery,
        reason: &str,
        stop: &CancellationToken,
    ) -> Result<Burial, BrokerError> {
        loop {
            let letter = Envelope::dead(message, reason, queue, self.topology());
            let Err(error) = self.send_one(letter).await else {
                tracing::error!(
                    message.id = message.message_id,
                    message.kind = message.kind,
                    message.reason = reason,
                    "message moved to the dead-letter queue"
                );
                metrics::dead_lettered(label(queue));
                return Ok(Burial::Done);
            };
            if !acker.usable() {
                return Err(BrokerError::Publish(error));
            }
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "message not yet moved to the dead-letter queue"
            );
            tokio::select! {
                () = stop.cancelled() => return Ok(Burial::StopRequested),
                () = tokio::time::sleep(BURY_PAUSE) => (),
            }
        }
    }

    async fn wait_connected_or(&self, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => (),
            () = self.wait_connected() => (),
        }
    }
}

/// What dead letters are counted under.
const fn label(queue: Queue) -> &'static str {
    match queue {
        Queue::Stream(_) => "stream",
        Queue::Presence => "presence",
        Queue::Tasks => "tasks",
        Queue::Draw => "draw",
        Queue::Delay(_) | Queue::Dead | Queue::Unrouted => "other",
    }
}

/// Only for traces: the logs do without.
fn handling_span(queue: Queue, message_count: usize) -> Span {
    tracing::debug_span!(
        parent: None,
        "message.handle",
        message.queue = Topology::short_name(queue),
        message.count = message_count
    )
}

/// How moving a message to the dead-letter queue ended.
enum Burial {
    Done,
    StopRequested,
}

fn dead(reason: &str) -> Verdict {
    Verdict::DeadLetter {
        reason: reason.to_owned(),
    }
}

/// Gives a run to the handler; after a panic, its messages one by one.
async fn handle_run<H: OrderedHandler>(handler: &H, messages: &[Delivery]) -> Option<Vec<Verdict>> {
    if let Ok(verdicts) = attempt(handler, messages.to_vec()).await {
        return verdicts;
    }
    let mut verdicts = Vec::with_capacity(messages.len());
    for message in messages {
        match attempt(handler, vec![message.clone()]).await {
            Ok(verdict) => verdicts.extend(verdict?),
            Err(_) => verdicts.push(dead(PANICKED)),
        }
    }
    Some(verdicts)
}

async fn attempt<H: OrderedHandler>(
    handler: &H,
    messages: Vec<Delivery>,
) -> std::thread::Result<Option<Vec<Verdict>>> {
    AssertUnwindSafe(handler.handle(messages))
        .catch_unwind()
        .await
}

/// Settles a delivery; anything but a clear yes means that the channel is gone.
async fn ack(acker: &Acker, options: BasicAckOptions) -> Result<(), BrokerError> {
    match within(ANSWER_LIMIT, "ack", acker.ack(options)).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(BrokerError::ConsumerEnded),
        Err(error) => Err(error),
    }
}
