//! Every exchange and queue of the service in one table, and the names that lead to them.
//!
//! The arguments of a queue cannot change later: a change is a new version in the names.

use std::time::Duration;

use lapin::{
    ExchangeKind,
    types::{AMQPValue, FieldTable, LongString},
};

/// How often a message may come back unsettled before the broker dead-letters it.
const DELIVERY_LIMIT: i64 = 1_000;

/// The same for the dead-letter queue, where running into it would lose the message: each listing
/// of dead letters counts as one delivery.
const DEAD_DELIVERY_LIMIT: i64 = 1_000_000;

/// One step of the ladder that a waiting draw comes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DelayRung {
    /// 1 s.
    OneSecond,
    /// 5 s.
    FiveSeconds,
    /// 30 s.
    ThirtySeconds,
    /// 5 min.
    FiveMinutes,
    /// 1 h.
    OneHour,
}

impl DelayRung {
    /// All rungs, the shortest first.
    pub const ALL: [Self; 5] = [
        Self::OneSecond,
        Self::FiveSeconds,
        Self::ThirtySeconds,
        Self::FiveMinutes,
        Self::OneHour,
    ];

    /// How long a message stays on this rung.
    pub const fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::OneSecond => 1,
            Self::FiveSeconds => 5,
            Self::ThirtySeconds => 30,
            Self::FiveMinutes => 300,
            Self::OneHour => 3_600,
        })
    }

    /// The longest rung that does not overshoot `wait`; `None` below one second.
    pub fn longest_within(wait: Duration) -> Option<Self> {
        Self::ALL
            .into_iter()
            .rev()
            .find(|rung| rung.duration() <= wait)
    }
}

/// Where a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// One partition of the stream.
    Stream(u16),
    /// A rung of the ladder, after which the message is in the draw queue.
    Delay(DelayRung),
    /// The draw queue itself.
    Draw,
    /// The topic exchange for others, with this routing key. Nobody has to be listening.
    Events(&'static str),
    /// The ingress of presence events.
    Presence,
    /// The ingress of task completions.
    Tasks,
    /// The dead-letter queue.
    Dead,
}

/// A queue of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// One partition of the stream.
    Stream(u16),
    /// The ingress of presence events.
    Presence,
    /// The ingress of task completions.
    Tasks,
    /// Draws that are due, or on their way down the ladder.
    Draw,
    /// A rung of the ladder; nobody consumes it.
    Delay(DelayRung),
    /// What could not be handled.
    Dead,
    /// What came off the ladder while the draw queue was missing; nobody consumes it.
    Unrouted,
}

/// The names of all exchanges and queues under one namespace.
#[derive(Clone, Debug)]
pub struct Topology {
    namespace: String,
    partitions: u16,
}

/// An exchange to declare.
#[derive(Clone, Debug)]
pub(super) struct ExchangeSpec {
    pub(super) name: String,
    pub(super) kind: ExchangeKind,
    pub(super) arguments: FieldTable,
}

/// A queue to declare; every one is durable and a quorum queue.
#[derive(Clone, Debug)]
pub(super) struct QueueSpec {
    pub(super) name: String,
    pub(super) arguments: FieldTable,
    /// Exchange and routing key, unless the queue is reached through the default exchange.
    pub(super) binding: Option<(String, String)>,
}

impl Topology {
    /// The names under `namespace`, with `partitions` partitions of the stream.
    pub fn new(namespace: &str, partitions: u16) -> Self {
        Self {
            namespace: namespace.to_owned(),
            partitions,
        }
    }

    /// How many partitions the stream has.
    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    /// The name of a queue.
    pub fn queue_name(&self, queue: Queue) -> String {
        self.versioned(&Self::short_name(queue))
    }

    /// The same without namespace and version, as in metrics.
    pub fn short_name(queue: Queue) -> String {
        match queue {
            Queue::Stream(partition) => format!("stream.{partition}"),
            Queue::Presence => "presence".to_owned(),
            Queue::Tasks => "tasks".to_owned(),
            Queue::Draw => "draw".to_owned(),
            Queue::Delay(rung) => format!("delay.{}", rung.duration().as_secs()),
            Queue::Dead => "dead".to_owned(),
            Queue::Unrouted => "unrouted".to_owned(),
        }
    }

    /// Every queue, in the order of declaration: a queue's dead letters have somewhere to go by
    /// the time it exists.
    pub fn queues(&self) -> Vec<Queue> {
        [Queue::Dead, Queue::Unrouted, Queue::Draw]
            .into_iter()
            .chain(DelayRung::ALL.map(Queue::Delay))
            .chain([Queue::Presence, Queue::Tasks])
            .chain((0..self.partitions).map(Queue::Stream))
            .collect()
    }

    /// The names of every exchange.
    pub fn exchange_names(&self) -> Vec<String> {
        self.exchanges()
            .into_iter()
            .map(|exchange| exchange.name)
            .collect()
    }

    /// The topic exchange that carries events to other systems.
    pub fn events_exchange(&self) -> String {
        format!("{}.events", self.namespace)
    }

    /// Exchange and routing key of a target; the default exchange has the empty name.
    pub(super) fn route(&self, target: Target) -> (String, String) {
        match target {
            Target::Stream(partition) => (self.versioned("stream"), partition.to_string()),
            Target::Delay(rung) => (String::new(), self.queue_name(Queue::Delay(rung))),
            Target::Draw => (String::new(), self.queue_name(Queue::Draw)),
            Target::Events(routing_key) => (self.events_exchange(), routing_key.to_owned()),
            Target::Presence => (self.versioned("presence"), String::new()),
            Target::Tasks => (self.versioned("tasks"), String::new()),
            Target::Dead => (self.versioned("dead"), String::new()),
        }
    }

    /// The queue of ours that has this name.
    pub(super) fn queue_named(&self, name: &str) -> Option<Queue> {
        self.queues()
            .into_iter()
            .find(|queue| self.queue_name(*queue) == name)
    }

    /// The partition of ours that stands for one by this name; for one that is no more another one
    /// does, as good as any for a message that comes out of order anyway.
    pub(super) fn partition_named(&self, name: &str) -> Option<Queue> {
        let prefix = self.versioned("stream.");
        let partition: u16 = name.strip_prefix(&prefix)?.parse().ok()?;
        Some(Queue::Stream(partition % self.partitions))
    }

    pub(super) fn exchanges(&self) -> Vec<ExchangeSpec> {
        let exchange = |name: String, kind: ExchangeKind| ExchangeSpec {
            name,
            kind,
            arguments: FieldTable::default(),
        };

        let mut fire = exchange(self.versioned("fire"), ExchangeKind::Fanout);
        fire.arguments.insert(
            "alternate-exchange".into(),
            text(self.versioned("unrouted")),
        );
        vec![
            exchange(self.versioned("dead"), ExchangeKind::Fanout),
            exchange(self.versioned("unrouted"), ExchangeKind::Fanout),
            fire,
            exchange(self.versioned("stream"), ExchangeKind::Direct),
            exchange(self.versioned("presence"), ExchangeKind::Fanout),
            exchange(self.versioned("tasks"), ExchangeKind::Fanout),
            exchange(self.events_exchange(), ExchangeKind::Topic),
        ]
    }

    pub(super) fn queue_spec(&self, queue: Queue) -> QueueSpec {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), text("quorum"));
        let limit = if queue == Queue::Dead {
            DEAD_DELIVERY_LIMIT
        } else {
            DELIVERY_LIMIT
        };
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(limit));

        if let Some(exchange) = self.dead_letters_to(queue) {
            arguments.insert("x-dead-letter-exchange".into(), text(exchange));
            // At-least-once holds only together with this overflow rule; without it messages
            // are lost silently.
            arguments.insert("x-dead-letter-strategy".into(), text("at-least-once"));
            arguments.insert("x-overflow".into(), text("reject-publish"));
        }
        if let Queue::Delay(rung) = queue {
            let millis = i64::try_from(rung.duration().as_millis()).unwrap_or(i64::MAX);
            arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(millis));
        }
        if let Queue::Stream(_) = queue {
            arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        }
        QueueSpec {
            name: self.queue_name(queue),
            arguments,
            binding: self.binding(queue),
        }
    }

    fn dead_letters_to(&self, queue: Queue) -> Option<String> {
        match queue {
            Queue::Stream(_) | Queue::Presence | Queue::Tasks | Queue::Draw => {
                Some(self.versioned("dead"))
            }
            Queue::Delay(_) => Some(self.versioned("fire")),
            Queue::Dead | Queue::Unrouted => None,
        }
    }

    fn binding(&self, queue: Queue) -> Option<(String, String)> {
        match queue {
            Queue::Stream(partition) => Some((self.versioned("stream"), partition.to_string())),
            Queue::Presence => Some((self.versioned("presence"), String::new())),
            Queue::Tasks => Some((self.versioned("tasks"), String::new())),
            Queue::Draw => Some((self.versioned("fire"), String::new())),
            Queue::Dead => Some((self.versioned("dead"), String::new())),
            Queue::Unrouted => Some((self.versioned("unrouted"), String::new())),
            Queue::Delay(_) => None,
        }
    }

    fn versioned(&self, name: &str) -> String {
        format!("{}.v1.{name}", self.namespace)
    }
}

fn text(value: impl Into<Vec<u8>>) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rung_never_overshoots() {
        let rung = |millis| DelayRung::longest_within(Duration::from_millis(millis));

        assert_eq!(rung(999), None);
        assert_eq!(rung(1_000), Some(DelayRung::OneSecond));
        assert_eq!(rung(4_999), Some(DelayRung::OneSecond));
        assert_eq!(rung(5_000), Some(DelayRung::FiveSeconds));
        assert_eq!(rung(299_999), Some(DelayRung::ThirtySeconds));
        assert_eq!(rung(300_000), Some(DelayRung::FiveMinutes));
        assert_eq!(rung(30 * 86_400_000), Some(DelayRung::OneHour));
    }

    #[test]
    fn every_target_leads_to_a_declared_exchange_or_queue() {
        let topology = Topology::new("lb", 2);
        let targets = [
            Target::Stream(1),
            Target::Delay(DelayRung::OneHour),
            Target::Draw,
            Target::Events("activity.drawn"),
            Target::Presence,
            Target::Tasks,
            Target::Dead,
        ];

        for target in targets {
            let (exchange, routing_key) = topology.route(target);
            if exchange.is_empty() {
                assert!(
                    topology.queue_named(&routing_key).is_some(),
                    "{routing_key}"
                );
            } else {
                assert!(topology.exchange_names().contains(&exchange), "{exchange}");
            }
        }
    }

    #[test]
    fn the_table_is_the_one_that_was_agreed() {
        let topology = Topology::new("lb", 1);

        let queues: Vec<String> = topology
            .queues()
            .into_iter()
            .map(|queue| topology.queue_spec(queue))
            .map(|spec| match spec.binding {
                Some((exchange, key)) => format!("{exchange} -{key}-> {}", spec.name),
                None => spec.name,
            })
            .collect();

        assert_eq!(
            queues,
            [
                "lb.v1.dead --> lb.v1.dead",
                "lb.v1.unrouted --> lb.v1.unrouted",
                "lb.v1.fire --> lb.v1.draw",
                "lb.v1.delay.1",
                "lb.v1.delay.5",
                "lb.v1.delay.30",
                "lb.v1.delay.300",
                "lb.v1.delay.3600",
                "lb.v1.presence --> lb.v1.presence",
                "lb.v1.tasks --> lb.v1.tasks",
                "lb.v1.stream -0-> lb.v1.stream.0",
            ]
        );
        assert_eq!(topology.events_exchange(), "lb.events");
    }

    #[test]
    fn a_queue_that_dead_letters_does_so_at_least_once() {
        let topology = Topology::new("lb", 1);

        for queue in topology.queues() {
            let arguments = topology.queue_spec(queue).arguments;
            let has = |name: &str| arguments.contains_key(name);
            assert!(has("x-delivery-limit"), "{queue:?}");
            assert_eq!(
                has("x-dead-letter-exchange"),
                has("x-dead-letter-strategy"),
                "{queue:?}"
            );
            assert_eq!(
                has("x-dead-letter-exchange"),
                has("x-overflow"),
                "{queue:?}"
            );
        }
    }
}
