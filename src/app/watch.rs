//! Looks at each dependency once a second, for `/readyz` and the log.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use super::connections::Connections;
use crate::{http::Readiness, infra::mysql, kernel::Supervisor, telemetry::metrics};

const EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);

/// What is known about the three servers.
pub(super) struct Watches {
    connections: Connections,
    is_mysql_up: Arc<AtomicBool>,
    is_redis_up: Arc<AtomicBool>,
}

impl Watches {
    pub(super) fn new(connections: &Connections) -> Self {
        Self {
            connections: connections.clone(),
            is_mysql_up: Arc::default(),
            is_redis_up: Arc::default(),
        }
    }

    pub(super) fn register(&self, readiness: &Readiness) {
        let flag = |flag: &Arc<AtomicBool>| {
            let flag = Arc::clone(flag);
            Arc::new(move || flag.load(Ordering::Relaxed))
        };
        readiness.register("mysql", flag(&self.is_mysql_up));
        readiness.register("redis", flag(&self.is_redis_up));
        let broker = self.connections.broker.clone();
        readiness.register("rabbitmq", Arc::new(move || broker.is_connected()));
    }

    pub(super) fn spawn(self, ground: &Supervisor) {
        let Connections { db, redis, .. } = self.connections;
        let stop = ground.stop_token();
        ground.spawn("mysql watch", {
            let stop = stop.clone();
            watch("mysql", self.is_mysql_up, stop, async move || {
                mysql::ping(&db).await.is_ok()
            })
        });
        ground.spawn(
            "redis watch",
            watch("redis", self.is_redis_up, stop, async move || {
                redis.ping().await.is_ok()
            }),
        );
    }
}

async fn watch<F>(name: &'static str, is_up: Arc<AtomicBool>, stop: CancellationToken, ask: F)
where
    F: AsyncFn() -> bool,
{
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut has_answered = false;
    while stop.run_until_cancelled(every.tick()).await.is_some() {
        let now_up = tokio::time::timeout(PATIENCE, ask()).await.unwrap_or(false);
        match (is_up.swap(now_up, Ordering::Relaxed), now_up) {
            (true, false) => tracing::warn!(dependency = name, "a dependency does not answer"),
            (false, true) => {
                if has_answered {
                    metrics::reconnected(name);
                }
                has_answered = true;
                tracing::info!(dependency = name, "a dependency answers");
            }
            (true, true) | (false, false) => (),
        }
    }
}
