//! The table of background tasks that do the service's work.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{connections::Connections, services::Services};
use crate::{
    candidate::{Feed, IngressConsumer, StreamConsumer},
    draw::DrawConsumer,
    infra::{broker::Queue, outbox::Relay},
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
        watch_outbox(Arc::clone(&services.relay), stop),
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

/// Starts the relay, which outlives the workers: it works off what they leave in the outbox.
pub(super) fn spawn_relay(services: &Services, relaying: &Supervisor) {
    let relay = Arc::clone(&services.relay);
    let stop = relaying.stop_token();
    relaying.spawn("outbox relay", async move { relay.run(stop).await });
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
async fn watch_outbox(relay: Arc<Relay>, stop: CancellationToken) {
    let mut every = tokio::time::interval(Duration::from_secs(5));
    while stop.run_until_cancelled(every.tick()).await.is_some() {
        if let Ok(age) = relay.age().await {
            metrics::outbox_age(age);
        }
        if let Ok(rows) = relay.rows().await {
            state::outbox_rows(&rows);
        }
    }
}
