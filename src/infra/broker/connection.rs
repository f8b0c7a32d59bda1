//! One connection: opened, watched and closed by us.
//!
//! The client's own recovery can hang for ever, and so can any of its answers. So nothing here
//! waits without a limit, and a connection in doubt is thrown away and built anew.

use std::{
    str::FromStr,
    time::{Duration, Instant},
};

use lapin::{
    Channel, Connection, ConnectionProperties,
    options::{
        ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
    },
    types::FieldTable,
    uri::AMQPUri,
};
use tokio_util::sync::CancellationToken;

use super::{
    error::BrokerError,
    message::short,
    topology::{ExchangeSpec, Queue, QueueSpec, Topology},
};
use crate::telemetry::metrics;

/// Limit of any one answer of the broker.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Limit of one declaration: a new quorum queue has to elect a leader first.
const DECLARE_LIMIT: Duration = Duration::from_secs(15);

/// Limit of a polite goodbye.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How often a connection is asked whether it is still alive.
pub(super) const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// Heartbeat when the address names none: a silent peer is noticed after twice this time.
const HEARTBEAT_SECS: u16 = 10;

/// Waits for the broker's answer, but not for ever.
pub(super) async fn within<T>(
    limit: Duration,
    action: &'static str,
    answer: impl Future<Output = lapin::Result<T>>,
) -> Result<T, BrokerError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(BrokerError::Failed { action, source }),
        Err(_) => Err(BrokerError::TimedOut(action)),
    }
}

/// Opens a connection that operators see as `luckybag <role>`.
pub(super) async fn open(url: &str, role: &str) -> Result<Connection, BrokerError> {
    let mut uri = AMQPUri::from_str(url).map_err(BrokerError::InvalidUrl)?;
    uri.query.heartbeat.get_or_insert(HEARTBEAT_SECS);

    let properties =
        ConnectionProperties::default().with_connection_name(format!("luckybag {role}").into());
    within(
        ANSWER_LIMIT,
        "connect",
        Connection::connect_uri(uri, properties),
    )
    .await
}

/// Says goodbye; a connection that is dead already is none the worse for it.
pub(super) async fn close(connection: &Connection) {
    if let Err(error) = within(CLOSE_LIMIT, "close", connection.close(200, "OK".into())).await {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "connection closed without answer"
        );
    }
}

pub(super) async fn open_channel(connection: &Connection) -> Result<Channel, BrokerError> {
    within(ANSWER_LIMIT, "open a channel", connection.create_channel()).await
}

/// A channel on which every publish is confirmed.
pub(super) async fn open_confirmed_channel(
    connection: &Connection,
) -> Result<Channel, BrokerError> {
    let channel = open_channel(connection).await?;
    let select = channel.confirm_select(ConfirmSelectOptions::default());
    within(ANSWER_LIMIT, "confirm publishes", select).await?;
    Ok(channel)
}

/// Declares every exchange and queue.
pub(super) async fn declare_all(
    connection: &Connection,
    topology: &Topology,
) -> Result<(), BrokerError> {
    let channel = open_channel(connection).await?;
    for exchange in topology.exchanges() {
        declare_exchange(&channel, exchange).await?;
    }
    for queue in topology.queues() {
        declare_queue(&channel, topology.queue_spec(queue)).await?;
    }
    within(
        CLOSE_LIMIT,
        "close a channel",
        channel.close(200, "OK".into()),
    )
    .await
}

/// Declares what one consumer needs: its queue and the exchange that feeds it.
pub(super) async fn declare_for(
    channel: &Channel,
    topology: &Topology,
    queue: Queue,
) -> Result<(), BrokerError> {
    let queue = topology.queue_spec(queue);
    let fed_by = queue.binding.as_ref().map(|(exchange, _)| exchange.clone());
    for exchange in topology.exchanges() {
        if Some(&exchange.name) == fed_by.as_ref() {
            declare_exchange(channel, exchange).await?;
        }
    }
    declare_queue(channel, queue).await
}

async fn declare_exchange(channel: &Channel, exchange: ExchangeSpec) -> Result<(), BrokerError> {
    let options = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let name = short(&exchange.name);
    let declare = channel.exchange_declare(name, exchange.kind, options, exchange.arguments);
    named(
        exchange.name,
        within(DECLARE_LIMIT, "declare", declare).await,
    )
}

async fn declare_queue(channel: &Channel, queue: QueueSpec) -> Result<(), BrokerError> {
    let name = short(&queue.name);
    let options = QueueDeclareOptions::durable();
    let declare = channel.queue_declare(name.clone(), options, queue.arguments);
    named(queue.name, within(DECLARE_LIMIT, "declare", declare).await)?;

    let Some((exchange, routing_key)) = queue.binding else {
        return Ok(());
    };
    let (exchange, routing_key) = (short(&exchange), short(&routing_key));
    let bind = channel.queue_bind(
        name,
        exchange,
        routing_key,
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    within(DECLARE_LIMIT, "bind a queue", bind).await
}

/// Says in an error which exchange or queue it was about.
fn named<T>(name: String, answer: Result<T, BrokerError>) -> Result<(), BrokerError> {
    match answer {
        Ok(_) => Ok(()),
        Err(BrokerError::Failed { source, .. }) => Err(BrokerError::Declare { name, source }),
        Err(other) => Err(other),
    }
}

/// The pauses between attempts to connect.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    connected_at: Option<Instant>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(5);
    /// After a contradiction that only an operator can resolve.
    const CONFLICT: Duration = Duration::from_secs(30);
    /// A connection that lived this long was a good one; the pauses start small again.
    const GOOD_LIFE: Duration = Duration::from_secs(10);

    pub(super) fn new() -> Self {
        Self {
            failures: 0,
            connected_at: None,
        }
    }

    pub(super) fn connected(&mut self) {
        self.connected_at = Some(Instant::now());
        if self.failures > 0 {
            metrics::reconnected("rabbitmq");
        }
    }

    /// The pause after one more failure, without jitter.
    fn next(&mut self) -> Duration {
        if self
            .connected_at
            .take()
            .is_some_and(|since| since.elapsed() >= Self::GOOD_LIFE)
        {
            self.failures = 0;
        }
        let pause = Self::FIRST.saturating_mul(1 << self.failures.min(8));
        self.failures += 1;
        pause.min(Self::LONGEST)
    }

    /// Reports a failure and waits before the next attempt, or for the stop.
    pub(super) async fn pause(
        &mut self,
        role: &str,
        error: &BrokerError,
        stop: &CancellationToken,
    ) {
        let pause = self.report(role, error);
        tokio::select! {
            () = stop.cancelled() => (),
            () = tokio::time::sleep(pause) => (),
        }
    }

    fn report(&mut self, role: &str, error: &BrokerError) -> Duration {
        let pause = self.next().mul_f64(rand::random_range(0.5..1.0));
        let cause = error as &dyn std::error::Error;
        if error.is_conflict() {
            tracing::error!(
                error = cause,
                broker.role = role,
                "an exchange or queue exists with other arguments; remove it or change the namespace"
            );
            return Self::CONFLICT;
        }
        tracing::warn!(
            error = cause,
            broker.role = role,
            broker.pause_ms = pause.as_millis(),
            "broker connection lost; trying again"
        );
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_five_seconds() {
        let mut backoff = Backoff::new();

        let pauses: Vec<u128> = (0..7).map(|_| backoff.next().as_millis()).collect();

        assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    }

    #[test]
    fn a_connection_that_dies_young_does_not_shorten_the_pauses() {
        let mut backoff = Backoff::new();
        backoff.next();

        backoff.connected();

        assert_eq!(backoff.next().as_millis(), 400);
    }

    #[tokio::test]
    async fn an_address_that_is_none_fails_by_name() {
        let error = open("http://127.0.0.1", "test").await.unwrap_err();

        assert!(matches!(error, BrokerError::InvalidUrl(_)), "{error}");
    }
}
