//! Messages on their way out and in.

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, LongString, ShortString},
};

use super::topology::{Queue, Target, Topology};
use crate::telemetry::TraceContext;

pub(super) const REASON_HEADER: &str = "x-reason";
pub(super) const ORIGIN_HEADER: &str = "x-origin";

/// Longest reason that is written into a header, in bytes.
const MAX_REASON_BYTES: usize = 500;

/// Longest text that AMQP calls a short string, in bytes.
const MAX_SHORT_BYTES: usize = 255;

/// `delivery_mode` of a message that survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// A message to send.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Where it goes.
    pub target: Target,
    /// Lets its consumers drop repeats; at most 255 bytes.
    pub message_id: String,
    /// What it is: the AMQP property `type`.
    pub kind: &'static str,
    /// JSON.
    pub body: Vec<u8>,
    /// Dead letters only: why it could not be handled.
    pub reason: Option<String>,
    /// Dead letters only: the queue that a replay sends it to again.
    pub origin: Option<Queue>,
}

impl Outgoing {
    /// A message that is not a dead letter.
    pub fn new(target: Target, message_id: String, kind: &'static str, body: Vec<u8>) -> Self {
        Self {
            target,
            message_id,
            kind,
            body,
            reason: None,
            origin: None,
        }
    }
}

/// A message that was received.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What was sent.
    pub body: Vec<u8>,
    /// The broker has delivered it before, perhaps to somebody else.
    pub redelivered: bool,
    /// The sender's id for it.
    pub message_id: Option<String>,
    /// What it is: the AMQP property `type`.
    pub kind: Option<String>,
    /// What it was sent by.
    pub trace: TraceContext,
}

/// What becomes of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done, or already done by an earlier delivery.
    Ack,
    /// It can never succeed; it moves to the dead-letter queue.
    DeadLetter {
        /// Why, for the operator.
        reason: String,
    },
    /// It stays unsettled and is delivered again once this consumer has gone. For a requested
    /// stop only.
    Abandon,
}

/// A message with its route resolved.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) exchange: String,
    pub(super) routing_key: String,
    /// A message that reaches no queue is a failure.
    pub(super) mandatory: bool,
    pub(super) message_id: String,
    pub(super) properties: BasicProperties,
    pub(super) body: Vec<u8>,
}

impl Envelope {
    pub(super) fn of(message: Outgoing, topology: &Topology) -> Self {
        let (exchange, routing_key) = topology.route(message.target);
        let mut headers = FieldTable::default();
        // The sender's own, also of a message that is sent on.
        if let Some(trace) = TraceContext::current().to_header() {
            headers.insert(TraceContext::HEADER.into(), header_text(&trace));
        }
        if let Some(reason) = message.reason {
            headers.insert(REASON_HEADER.into(), header_text(&reason));
        }
        if let Some(origin) = message.origin {
            headers.insert(
                ORIGIN_HEADER.into(),
                header_text(&topology.queue_name(origin)),
            );
        }
        Self {
            exchange,
            routing_key,
            mandatory: !matches!(message.target, Target::Events(_)),
            properties: properties(&message.message_id, Some(message.kind), headers),
            message_id: message.message_id,
            body: message.body,
        }
    }

    /// A delivery that could not be handled, on its way to the dead-letter queue. Its headers are
    /// fresh: a copied `x-death` would make the broker drop it as a cycle.
    pub(super) fn dead(
        delivery: &Delivery,
        reason: &str,
        origin: Queue,
        topology: &Topology,
    ) -> Self {
        let (exchange, routing_key) = topology.route(Target::Dead);
        let mut headers = FieldTable::default();
        headers.insert(REASON_HEADER.into(), header_text(reason));
        headers.insert(
            ORIGIN_HEADER.into(),
            header_text(&topology.queue_name(origin)),
        );
        Self::resent(delivery, exchange, routing_key, headers)
    }

    /// A dead letter on its way back to the queue it came from, as if it was new.
    pub(super) fn replayed(delivery: &Delivery, queue_name: String) -> Self {
        Self::resent(delivery, String::new(), queue_name, FieldTable::default())
    }

    fn resent(
        delivery: &Delivery,
        exchange: String,
        routing_key: String,
        headers: FieldTable,
    ) -> Self {
        let message_id = delivery
            .message_id
            .clone()
            .unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
        Self {
            exchange,
            routing_key,
            mandatory: true,
            properties: properties(&message_id, delivery.kind.as_deref(), headers),
            message_id,
            body: delivery.body.clone(),
        }
    }
}

fn properties(message_id: &str, kind: Option<&str>, headers: FieldTable) -> BasicProperties {
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_content_type("application/json".into())
        .with_message_id(short(message_id))
        .with_headers(headers);
    match kind {
        Some(kind) => properties.with_type(short(kind)),
        None => properties,
    }
}

impl Delivery {
    pub(super) fn of(delivery: &lapin::message::Delivery) -> Self {
        let properties = &delivery.properties;
        let trace = header(properties, TraceContext::HEADER).and_then(as_text);
        Self {
            body: delivery.data.clone(),
            redelivered: delivery.redelivered,
            message_id: properties.message_id().as_ref().map(ToString::to_string),
            kind: properties.kind().as_ref().map(ToString::to_string),
            trace: TraceContext::of_message(trace.as_deref().unwrap_or_default()),
        }
    }
}

/// A header of a message.
pub(super) fn header<'a>(properties: &'a BasicProperties, name: &str) -> Option<&'a AMQPValue> {
    properties.headers().as_ref()?.inner().get(name)
}

/// A header's value as text.
pub(super) fn as_text(value: &AMQPValue) -> Option<String> {
    let long = value.as_long_string().map(ToString::to_string);
    long.or_else(|| value.as_short_string().map(ToString::to_string))
}

/// The text as a header's value, cut to a sane length.
fn header_text(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(cut(text, MAX_REASON_BYTES)))
}

/// The text as a short string, cut to the length that AMQP allows: the client panics beyond it.
pub(super) fn short(text: &str) -> ShortString {
    ShortString::from(cut(text, MAX_SHORT_BYTES))
}

fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("福袋", 4), "福");
        assert_eq!(cut("bag", 255), "bag");
        assert_eq!(short(&"x".repeat(300)).as_str().len(), MAX_SHORT_BYTES);
    }

    #[test]
    fn only_events_may_reach_nobody() {
        let topology = Topology::new("lb", 1);
        let sent = |target| {
            Envelope::of(
                Outgoing::new(target, "1".into(), "test.v1", vec![]),
                &topology,
            )
        };

        assert!(!sent(Target::Events("activity.drawn")).mandatory);
        assert!(sent(Target::Stream(0)).mandatory);
        assert!(sent(Target::Draw).mandatory);
    }

    #[test]
    fn a_dead_letter_carries_its_reason_and_origin_and_nothing_else() {
        let topology = Topology::new("lb", 1);
        let delivery = Delivery {
            body: b"{}".to_vec(),
            redelivered: true,
            message_id: Some("m-1".into()),
            kind: Some("join.v1".into()),
            trace: TraceContext::default(),
        };

        let dead = Envelope::dead(&delivery, "not JSON", Queue::Stream(0), &topology);

        let headers = dead.properties.headers().as_ref().unwrap();
        assert_eq!(headers.inner().len(), 2);
        let value = |name| header(&dead.properties, name).and_then(as_text).unwrap();
        assert_eq!(value(REASON_HEADER), "not JSON");
        assert_eq!(value(ORIGIN_HEADER), "lb.v1.stream.0");
        assert_eq!(dead.message_id, "m-1");
        assert_eq!(dead.routing_key, "");
    }
}
