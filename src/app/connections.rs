//! The connections that all parts of the process share.

use std::{sync::Arc, time::Duration};

use sea_orm::DatabaseConnection;
use secrecy::ExposeSecret;

use super::error::AppError;
use crate::{
    activity,
    infra::{
        broker::{Broker, BrokerOptions},
        mysql::{self, DatabaseClock, MySqlOptions},
        outbox::Outbox,
        redis::{Redis, RedisOptions},
    },
    kernel::Supervisor,
    settings::Settings,
};

/// One pool a server, the database's clock, and the outbox. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) db: DatabaseConnection,
    pub(super) redis: Redis,
    pub(super) broker: Broker,
    pub(super) clock: Arc<DatabaseClock>,
    pub(super) outbox: Outbox,
    /// Where copies go, if anywhere.
    pub(super) admin: Option<DatabaseConnection>,
}

impl Connections {
    /// Needs no server to be up: each connection is made when its server answers.
    pub(super) fn open(settings: &Settings) -> Result<Self, AppError> {
        let db = open_mysql(settings)?;
        let redis = Redis::connect(&RedisOptions {
            url: settings.redis.url.expose_secret(),
            pool_size: settings.redis.pool_size.get(),
            command_timeout: settings.redis.command_timeout_ms.duration(),
            namespace: &settings.namespace,
        })
        .map_err(AppError::RedisUrl)?;
        let broker = Broker::new(BrokerOptions {
            url: settings.rabbitmq.url.expose_secret().to_owned(),
            namespace: settings.namespace.clone(),
            partitions: settings.stream.partitions,
            confirm_timeout: settings.rabbitmq.confirm_timeout_ms.duration(),
        });
        let clock = Arc::new(DatabaseClock::new(db.clone()));
        Ok(Self {
            db,
            redis,
            broker,
            clock,
            outbox: if settings.admin_database.is_on() {
                Outbox::copying(activity::PROJECTION)
            } else {
                Outbox::default()
            },
            admin: open_admin(settings)?,
        })
    }

    /// Starts what keeps the connections alive; it ends last.
    pub(super) fn spawn(&self, ground: &Supervisor) {
        let stop = ground.stop_token();
        let broker = self.broker.clone();
        ground.spawn("broker", {
            let stop = stop.clone();
            async move { broker.run(stop).await }
        });
        let clock = Arc::clone(&self.clock);
        ground.spawn("database clock", async move { clock.run(stop).await });
    }

    /// Says goodbye; a server that does not answer is left without one after `grace`.
    pub(super) async fn close(&self, grace: Duration) {
        let goodbye = async {
            self.redis.close().await;
            if let Err(error) = self.db.clone().close().await {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "the MySQL pool did not close"
                );
            }
        };
        if tokio::time::timeout(grace, goodbye).await.is_err() {
            tracing::debug!("connections are left without a goodbye");
        }
    }
}

/// The pool of the admin database; `None` when there is none.
pub(super) fn open_admin(settings: &Settings) -> Result<Option<DatabaseConnection>, AppError> {
    let admin = &settings.admin_database;
    if !admin.is_on() {
        return Ok(None);
    }
    mysql::connect_lazy(&MySqlOptions {
        url: admin.url.expose_secret(),
        max_connections: admin.max_connections.get(),
        acquire_timeout: admin.connect_timeout_ms.duration(),
    })
    .map(Some)
    .map_err(AppError::AdminDatabaseUrl)
}

/// The `MySQL` pool alone.
pub(super) fn open_mysql(settings: &Settings) -> Result<DatabaseConnection, AppError> {
    mysql::connect_lazy(&MySqlOptions {
        url: settings.mysql.url.expose_secret(),
        max_connections: settings.mysql.max_connections.get(),
        acquire_timeout: settings.mysql.acquire_timeout_ms.duration(),
    })
    .map_err(AppError::MySqlUrl)
}
