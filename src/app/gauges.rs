//! Looks at how things stand, for the metrics.

use std::{sync::Arc, time::Duration};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{connections::Connections, services::Services};
use crate::{infra::mysql, kernel::Supervisor, settings::Settings, telemetry::state};

/// How often what this process knows by itself is told.
const OWN_EVERY: Duration = Duration::from_secs(1);

/// How often the broker is asked how long the queues are: one question a queue.
const QUEUES_EVERY: Duration = Duration::from_secs(10);

/// Starts the looks; they end with the workers.
pub(super) fn spawn(
    settings: &Settings,
    connections: &Connections,
    services: &Services,
    workers: &Supervisor,
) {
    let stop = workers.stop_token();
    let own = Own {
        connections: connections.clone(),
        turns: Arc::clone(&services.mysql_reads),
        turns_all: settings.limits.mysql_concurrency.get(),
    };
    workers.spawn(
        "own gauges",
        repeat(OWN_EVERY, stop.clone(), async move || own.tell()),
    );
    let broker = connections.broker.clone();
    workers.spawn(
        "queue gauges",
        repeat(QUEUES_EVERY, stop, async move || {
            // Why a queue could not be looked at, an outage above all, shows elsewhere.
            for (name, count) in broker.queue_depths().await {
                state::queue_messages(name, count.ok().map(u64::from));
            }
        }),
    );
}

/// What needs no question to anybody.
struct Own {
    connections: Connections,
    turns: Arc<Semaphore>,
    turns_all: usize,
}

impl Own {
    fn tell(&self) {
        let turns_left = self.turns.available_permits();
        state::mysql_turns_in_use(self.turns_all.saturating_sub(turns_left));
        let (used, idle) = mysql::connection_counts(&self.connections.db);
        state::mysql_connections(used, idle);
        state::db_clock_uncertainty(self.connections.clock.guess().uncertainty);
    }
}

async fn repeat(every: Duration, stop: CancellationToken, look: impl AsyncFn()) {
    let mut every = tokio::time::interval(every);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(every.tick()).await.is_some() {
        // Long as the answers of a broker may be, the stop does not wait for them.
        stop.run_until_cancelled(look()).await.unwrap_or_default();
    }
}
