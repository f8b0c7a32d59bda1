//! Sends batches of messages and finds out what became of each.
//!
//! Each batch has a channel to itself until all its confirms are in. The client hands a returned
//! message to *some* confirm of its channel; so only when all of them are known, and all belong to
//! us, the returned ones can be told by their message id.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use lapin::{Channel, Connection, PublisherConfirm, options::BasicPublishOptions};
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    connection,
    error::PublishError,
    message::{Envelope, short},
};

/// Most batches under way at once; further ones wait for their turn.
const MAX_CHANNELS: usize = 64;

/// So many time-outs in a row, and the connection is given up.
const MAX_TIMEOUTS: u32 = 3;

/// The publishing connection with its channels.
#[derive(Debug)]
pub(super) struct Line {
    connection: Connection,
    idle: Mutex<Vec<Channel>>,
    turns: Semaphore,
    timeouts: AtomicU32,
    given_up: CancellationToken,
}

impl Line {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection,
            idle: Mutex::new(Vec::new()),
            turns: Semaphore::new(MAX_CHANNELS),
            timeouts: AtomicU32::new(0),
            given_up: CancellationToken::new(),
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn is_alive(&self) -> bool {
        self.connection.status().connected()
    }

    /// Alive, and not blocked by a memory or disk alarm of the broker.
    pub(super) fn takes_messages(&self) -> bool {
        self.is_alive() && !self.connection.status().blocked()
    }

    /// Resolves once too many publishes in a row have timed out.
    pub(super) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }

    async fn channel(&self) -> Option<Channel> {
        loop {
            let Some(channel) = self.idle.lock().pop() else {
                break;
            };
            if channel.status().connected() {
                return Some(channel);
            }
        }
        connection::open_confirmed_channel(&self.connection)
            .await
            .ok()
    }

    /// Keeps a channel for the next batch. One with confirms still to come is dropped instead,
    /// which closes it: they would be taken for those of the next batch.
    fn put_back(&self, channel: Channel) {
        self.idle.lock().push(channel);
    }

    fn note_timeout(&self) {
        // A blocked connection is not a broken one; a new one would be blocked as well.
        if self.connection.status().blocked() {
            return;
        }
        if self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_TIMEOUTS {
            self.given_up.cancel();
        }
    }

    fn note_answer(&self) {
        self.timeouts.store(0, Ordering::Relaxed);
    }
}

/// Sends all messages, then waits for all confirms; one result a message, in order.
pub(super) async fn send(
    line: &Line,
    envelopes: &[Envelope],
    limit: Duration,
) -> Vec<Result<(), PublishError>> {
    let deadline = Instant::now() + limit;
    let not_sent = || {
        envelopes
            .iter()
            .map(|_| Err(PublishError::NotConnected))
            .collect()
    };

    let Ok(Ok(_turn)) = timeout_at(deadline, line.turns.acquire()).await else {
        return not_sent();
    };
    let channel = match timeout_at(deadline, line.channel()).await {
        Ok(Some(channel)) => channel,
        Ok(None) => return not_sent(),
        Err(_) => {
            line.note_timeout();
            return not_sent();
        }
    };

    let mut fates = Vec::with_capacity(envelopes.len());
    for sent in write_all(&channel, envelopes, deadline).await {
        fates.push(match sent {
            Ok(confirm) => await_confirm(confirm, deadline).await,
            Err(error) => Fate::of(Err(error)),
        });
    }

    if fates
        .iter()
        .any(|fate| matches!(fate.result, Err(PublishError::TimedOut)))
    {
        line.note_timeout();
    } else {
        line.note_answer();
    }
    if fates.iter().all(Fate::is_settled) {
        line.put_back(channel);
    }
    tell_returned(envelopes, fates)
}

async fn write_all(
    channel: &Channel,
    envelopes: &[Envelope],
    deadline: Instant,
) -> Vec<Result<PublisherConfirm, PublishError>> {
    let mut sent = Vec::with_capacity(envelopes.len());
    for envelope in envelopes {
        let options = BasicPublishOptions {
            mandatory: envelope.mandatory,
            ..BasicPublishOptions::default()
        };
        let publish = channel.basic_publish(
            short(&envelope.exchange),
            short(&envelope.routing_key),
            options,
            &envelope.body,
            envelope.properties.clone(),
        );
        sent.push(match timeout_at(deadline, publish).await {
            Ok(Ok(confirm)) => Ok(confirm),
            Ok(Err(error)) => Err(PublishError::Connection(error)),
            Err(_) => Err(PublishError::TimedOut),
        });
    }
    sent
}

/// What the broker said about a message.
struct Fate {
    result: Result<(), PublishError>,
    /// The id of a returned message, this one or another, that came with the confirm.
    returned: Option<String>,
}

impl Fate {
    fn of(result: Result<(), PublishError>) -> Self {
        Self {
            result,
            returned: None,
        }
    }

    /// Whether the broker has said all that it will say.
    fn is_settled(&self) -> bool {
        matches!(self.result, Ok(()) | Err(PublishError::Nacked))
    }
}

async fn await_confirm(confirm: PublisherConfirm, deadline: Instant) -> Fate {
    let confirmation = match timeout_at(deadline, confirm).await {
        Ok(Ok(confirmation)) => confirmation,
        Ok(Err(error)) => return Fate::of(Err(PublishError::Connection(error))),
        Err(_) => return Fate::of(Err(PublishError::TimedOut)),
    };
    let result = if confirmation.is_ack() {
        Ok(())
    } else {
        Err(PublishError::Nacked)
    };
    let returned = confirmation.take_message().map(|message| {
        message
            .properties
            .message_id()
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    });
    Fate { result, returned }
}

/// An unroutable message is confirmed like any other, and its return may be attached to the confirm
/// of another one.
fn tell_returned(envelopes: &[Envelope], fates: Vec<Fate>) -> Vec<Result<(), PublishError>> {
    let returned: HashSet<String> = fates
        .iter()
        .filter_map(|fate| fate.returned.clone())
        .collect();
    envelopes
        .iter()
        .zip(fates)
        .map(|(envelope, fate)| {
            fate.result?;
            if returned.contains(short(&envelope.message_id).as_str()) {
                return Err(PublishError::Returned);
            }
            Ok(())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            message::Outgoing,
            topology::{Target, Topology},
        },
        *,
    };

    #[test]
    fn a_return_is_told_by_its_message_id_and_not_by_its_place() {
        let topology = Topology::new("lb", 1);
        let envelopes = ["a", "b", "c"].map(|id| {
            Envelope::of(
                Outgoing::new(Target::Draw, id.into(), "test.v1", vec![]),
                &topology,
            )
        });
        // The return of "a" came with the confirm of "c".
        let fates = vec![
            Fate::of(Ok(())),
            Fate::of(Ok(())),
            Fate {
                result: Ok(()),
                returned: Some("a".to_owned()),
            },
        ];

        let results = tell_returned(&envelopes, fates);

        assert!(matches!(results[0], Err(PublishError::Returned)));
        assert!(results[1].is_ok());
        assert!(results[2].is_ok());
    }
}
