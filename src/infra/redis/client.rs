//! The one Redis client of the process: standalone, Sentinel or Cluster, as its URL says.

use std::{
    ops::Deref,
    sync::Arc,
    time::{Duration, Instant},
};

use fred::{
    clients::Pool,
    error::{Error as RedisError, ErrorKind},
    interfaces::{ClientLike, EventInterface},
    types::{
        Builder,
        config::{Config, ReconnectPolicy, UnresponsiveConfig},
    },
};

use parking_lot::Mutex;

use super::Keys;

/// How to reach Redis.
#[derive(Clone, Debug)]
pub struct RedisOptions<'a> {
    /// `redis://`, `redis-sentinel://` or `redis-cluster://`.
    pub url: &'a str,
    /// How many connections are kept.
    pub pool_size: usize,
    /// After this a command fails; it may have been executed.
    pub command_timeout: Duration,
    /// The prefix of every key.
    pub namespace: &'a str,
}

/// A pool of connections together with the builder of its keys. Cheap to clone.
#[derive(Clone)]
pub struct Redis {
    pool: Pool,
    patience: Duration,
    keys: Keys,
    silent_until: Arc<Mutex<Option<Instant>>>,
}

impl Redis {
    /// How long readers of copies leave a server alone that let one of them wait in vain.
    const SILENCE: Duration = Duration::from_secs(1);
    // During an outage commands wait in a buffer; it must not grow without end.
    const BUFFERED_COMMANDS: usize = 20_000;
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

    /// Starts connecting in the background, and again whenever the connection is lost.
    pub fn connect(options: &RedisOptions<'_>) -> Result<Self, RedisError> {
        let mut config = Config::from_url(options.url)?;
        config.fail_fast = false;
        let command_timeout = options.command_timeout;
        let pool = Builder::from_config(config)
            .with_performance_config(|performance| {
                performance.default_command_timeout = command_timeout;
            })
            .with_connection_config(|connection| {
                connection.connection_timeout = Self::CONNECT_TIMEOUT;
                connection.internal_command_timeout = Self::CONNECT_TIMEOUT;
                connection.max_command_buffer_len = Self::BUFFERED_COMMANDS;
                connection.unresponsive = UnresponsiveConfig {
                    max_timeout: Some(Duration::from_secs(5)),
                    interval: Duration::from_secs(1),
                };
            })
            .set_policy(ReconnectPolicy::new_exponential(0, 50, 1_000, 2))
            .build_pool(options.pool_size)?;
        // The handles end with `quit`; nothing is gained from watching them.
        drop(pool.connect_pool());
        for client in pool.clients() {
            drop(client.on_error(|(error, server)| async move {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    ?server,
                    "redis connection failed"
                );
                Ok(())
            }));
        }
        Ok(Self {
            pool,
            keys: Keys::new(options.namespace),
            patience: options.command_timeout,
            silent_until: Arc::default(),
        })
    }

    /// How long a reader waits for Redis before it asks `MySQL`: as long as one command may take.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Has the readers of copies in this process do without for a second: it waited in vain.
    pub(super) fn note_silence(&self) {
        *self.silent_until.lock() = Some(Instant::now() + Self::SILENCE);
    }

    /// Whether a reader waited in vain within the last second.
    pub(super) fn is_silent(&self) -> bool {
        let silent_until = *self.silent_until.lock();
        silent_until.is_some_and(|until| Instant::now() < until)
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether every connection of the pool is up, as far as the client knows.
    pub fn is_connected(&self) -> bool {
        self.pool.clients().iter().all(ClientLike::is_connected)
    }

    /// Asks the server for a sign of life, and for every connection of the pool to be up: before, readers
    /// go without Redis.
    ///
    /// # Errors
    ///
    /// When it does not answer, or a connection is not up yet.
    pub async fn reach(&self) -> Result<(), RedisError> {
        self.ping().await?;
        if self.is_connected() {
            Ok(())
        } else {
            let reason = "not every connection is up";
            Err(RedisError::new(ErrorKind::IO, reason))
        }
    }

    /// Asks the server for a sign of life.
    pub async fn ping(&self) -> Result<(), RedisError> {
        self.pool.ping::<()>(None).await
    }

    /// Closes the connections.
    pub async fn close(&self) {
        if let Err(error) = self.pool.quit().await {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "redis did not say good-bye"
            );
        }
    }
}

impl Deref for Redis {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.pool
    }
}
