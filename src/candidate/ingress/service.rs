//! Takes events from callers, and knows what the door asks of them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::{
    IngressError,
    check::{Checked, check},
    forms::{Door, EventsBody, Reported},
    split,
};
use crate::{
    http::FieldErrors,
    infra::{
        broker::{Broker, Outgoing, PublishError, Queue},
        mysql::DatabaseClock,
    },
    kernel::{Clock, SystemClock},
    settings::PresenceSettings,
    telemetry::metrics,
};

/// What taking events stands on.
pub struct IngressDeps {
    pub broker: Broker,
    pub clock: Arc<DatabaseClock>,
    pub settings: PresenceSettings,
    /// Largest body of a message with events.
    pub max_body_bytes: usize,
}

/// Which events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// Who entered and left.
    Presence,
    /// Who finished a task.
    Tasks,
}

impl Feed {
    pub const ALL: [Self; 2] = [Self::Presence, Self::Tasks];

    /// The queue in which other systems leave them.
    pub const fn queue(self) -> Queue {
        match self {
            Self::Presence => Queue::Presence,
            Self::Tasks => Queue::Tasks,
        }
    }

    /// The word in logs, metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Presence => "presence",
            Self::Tasks => "tasks",
        }
    }
}

/// Puts events into the stream. Cheap to clone.
#[derive(Clone)]
pub struct Ingress(Arc<Inner>);

struct Inner {
    deps: IngressDeps,
    is_open: AtomicBool,
    /// The last call's events were not confirmed: told once an outage, not once a call.
    is_failing: AtomicBool,
}

impl Ingress {
    /// Where callers' events are counted.
    const SOURCE: &str = "http";

    pub fn new(deps: IngressDeps) -> Self {
        Self(Arc::new(Inner {
            deps,
            is_open: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
        }))
    }

    /// Takes events from now on: it is known by now how many partitions the stream has, and an event
    /// in a partition that nobody reads would be lost.
    pub fn open(&self) {
        self.0.is_open.store(true, Ordering::Relaxed);
    }

    pub(super) fn broker(&self) -> &Broker {
        &self.0.deps.broker
    }

    pub(super) fn clock(&self) -> &Arc<DatabaseClock> {
        &self.0.deps.clock
    }

    pub(super) fn max_body_bytes(&self) -> usize {
        self.0.deps.max_body_bytes
    }

    /// When an event may have happened, as far as can be told without asking anybody: with the
    /// database away its clock is guessed, and in doubt an event is taken.
    pub(super) fn door(&self) -> Door {
        let clock = self.clock();
        let latest = clock.estimate().map_or_else(
            || clock.guess().latest().max(SystemClock.now()),
            |time| time.latest(),
        );
        let max_ahead = self.0.deps.settings.max_ahead_secs;
        Door {
            until: latest + max_ahead.duration(),
            max_ahead_secs: max_ahead.get(),
        }
    }

    /// The messages of the stream that carry the events.
    pub(super) fn messages<E: Reported>(&self, events: Vec<E>, id: &str) -> Vec<Outgoing> {
        split::messages(events, self.broker().topology().partitions(), id)
    }

    /// Takes all events of a body or none: on return all of them are confirmed.
    pub(super) async fn take<E: Reported>(&self, body: EventsBody) -> Result<(), IngressError> {
        let count = body.events.len() as u64;
        let feed = E::FEED.as_str();
        metrics::ingress_message(Self::SOURCE, feed);
        let taken = self.send(check_all::<E>(body, self.door())).await;
        match &taken {
            Ok(()) => metrics::ingress_events(Self::SOURCE, feed, count),
            Err(error) => metrics::ingress_refused(Self::SOURCE, feed, error.reason(), count),
        }
        taken
    }

    async fn send<E: Reported>(
        &self,
        events: Result<Vec<E>, FieldErrors>,
    ) -> Result<(), IngressError> {
        let events = events.map_err(IngressError::Invalid)?;
        if !self.0.is_open.load(Ordering::Relaxed) {
            return Err(IngressError::NotTaken);
        }
        let id = uuid::Uuid::now_v7().to_string();
        let results = self.broker().publish_all(self.messages(events, &id)).await;
        self.note_outage(&results);
        IngressError::of_results(&results)
    }

    fn note_outage(&self, results: &[Result<(), PublishError>]) {
        let failure = results.iter().find_map(|result| result.as_ref().err());
        let was_failing = self.0.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(error) if !was_failing => tracing::warn!(
                error = error as &dyn std::error::Error,
                "events are not confirmed and answered 503 until this works again"
            ),
            None if was_failing => tracing::info!("events are confirmed again"),
            Some(_) | None => (),
        }
    }
}

/// The events of a body in which none is bad.
fn check_all<E: Reported>(body: EventsBody, door: Door) -> Result<Vec<E>, FieldErrors> {
    let mut errors = FieldErrors::new();
    match check(body, door) {
        Ok(Checked { good, bad }) if bad.is_empty() => return Ok(good),
        Ok(Checked { bad, .. }) => bad.iter().for_each(|bad| bad.add_to(&mut errors)),
        Err(wrong_count) => errors.add("events", wrong_count.to_string()),
    }
    Err(errors)
}
