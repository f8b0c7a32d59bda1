//! The table of background tasks that do the service's work.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{connections::Connections, services::Services};
use crate::{
    candidate::{Feed, IngressConsumer, StreamConsumer},
    draw::DrawConsumer,
    infra::{
        broker::Queue,
        outbox::{CopyRelay, Relay},
    },
    kernel::Supervisor,
    settings::Settings,
    sweeper::{Retention, Sweeper, SweeperDeps, steps},
    telemetry::{metrics, state},
};

/// Starts them all; each ends soon after the supervisor is asked to stop.
pub(super) fn spawn(
    settings: &Settings,
    connections: &Connections,
    services: &Services,
    workers: &Supervisor,
) {
    let stop = workers.stop_token();
    if let Some(tasks) = services.take_join_tasks() {
        for (name, task) in tasks.into_tasks(&stop) {
            workers.spawn(name, task);
        }
    }
    for partition in 0..settings.stream.partitions {
        let broker = connections.broker.clone();
        let consumer = StreamConsumer::new(services.candidates.clone(), partition, stop.clone());
        let consumer = Arc::new(consumer);
        let watched = Arc::clone(&consumer);
        workers.spawn("stream lag", async move { watched.watch_lag().await });
        let stop = stop.clone();
        workers.spawn("stream consumer", async move {
            broker.consume_ordered(partition, consumer, stop).await;
        });
    }
    services.ingress.open();
    for feed in Feed::ALL {
        spawn_ingress(feed, connections, services, workers);
    }
    if settings.draw.messages_enabled {
        let broker = connections.broker.clone();
        let consumer = DrawConsumer::new(services.draws.clone(), broker.clone(), stop.clone());
        let stop = stop.clone();
        workers.spawn("draw consumer", async move {
            let consumer = Arc::new(consumer);
            broker
                .consume(Queue::Draw, DrawConsumer::PREFETCH, consumer, stop)
                .await;
        });
    }
    let activities = services.activities.clone();
    workers.spawn("hot details", {
        let stop = stop.clone();
        async move { activities.renew_hot_details(stop).await }
    });
    let notifications = services.notifications.clone();
    workers.spawn("notifications", {
        let stop = stop.clone();
        async move { notifications.run(stop).await }
    });
    if settings.sweeper.enabled {
        let sweeper = Sweeper::new(
            steps(&sweeper_deps(settings, connections, services)),
            &settings.sweeper,
        );
        let stop = stop.clone();
        workers.spawn("sweeper", async move { sweeper.run(stop).await });
    }
    workers.spawn(
        "outbox age",
        watch_outbox(Arc::clone(&services.relay), services.copies.clone(), stop),
    );
}

/// Starts what moves events from an ingress queue into the stream, and what tells their age.
fn spawn_ingress(feed: Feed, connections: &Connections, services: &Services, workers: &Supervisor) {
    let stop = workers.stop_token();
    let ingress = services.ingress.clone();
    let consumer = Arc::new(IngressConsumer::new(ingress, feed, stop.clone()));
    let watched = Arc::clone(&consumer);
    workers.spawn("ingress age", async move { watched.watch_age().await });
    let broker = connections.broker.clone();
    workers.spawn("ingress consumer", async move {
        broker
            .consume(feed.queue(), IngressConsumer::PREFETCH, consumer, stop)
            .await;
    });
}

/// Starts the relays, which outlive the workers: they work off what these leave in the outbox.
pub(super) fn spawn_relay(services: &Services, relaying: &Supervisor) {
    let relay = Arc::clone(&services.relay);
    let stop = relaying.stop_token();
    relaying.spawn("outbox publishes", {
        let (relay, stop) = (Arc::clone(&relay), stop.clone());
        async move { relay.run_publishes(stop).await }
    });
    relaying.spawn("outbox projections", {
        let stop = stop.clone();
        async move { relay.run_projections(stop).await }
    });
    if let Some(copies) = services.copies.clone() {
        relaying.spawn("admin copies", async move { copies.run(stop).await });
    }
}

fn sweeper_deps(
    settings: &Settings,
    connections: &Connections,
    services: &Services,
) -> SweeperDeps {
    SweeperDeps {
        activities: services.activities.clone(),
        candidates: services.candidates.clone(),
        draws: services.draws.clone(),
        answers: services.answers.clone(),
        retention: Retention {
            db: connections.db.clone(),
            outbox: connections.outbox.clone(),
            settings: settings.retention.clone(),
        },
    }
}

/// Tells the metrics how old and how long the outbox is.
async fn watch_outbox(relay: Arc<Relay>, copies: Option<Arc<CopyRelay>>, stop: CancellationToken) {
    let mut every = tokio::time::interval(Duration::from_secs(5));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(every.tick()).await.is_some() {
        let look = look_at_outbox(&relay, copies.as_deref());
        stop.run_until_cancelled(look).await.unwrap_or_default();
    }
}

async fn look_at_outbox(relay: &Relay, copies: Option<&CopyRelay>) {
    metrics::outbox_age(relay.age().await.ok());
    for (kind, count) in relay.rows().await {
        state::outbox_rows(kind, count.ok());
    }
    if let Some(copies) = copies {
        metrics::admin_copy_age(copies.age().await.ok());
    }
}
