//! A database, a namespace and a signing key of its own for one test.

use std::time::Duration;

use luckybag::{
    infra::{
        broker::{Broker, BrokerOptions, Topology},
        mysql::{self, MySqlOptions},
        redis::{Keys, Redis, RedisOptions},
    },
    settings::Settings,
};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use super::{Amqp, Api, Process};

/// How long a test's own publisher waits for a confirm: as long as a busy machine may take.
pub(crate) const CONFIRM_TIMEOUT: Duration = Duration::from_secs(20);

/// The servers under test, seen through one test's database and namespace.
///
/// A test ends with [`World::end`], which removes both.
pub(crate) struct World {
    pub(crate) namespace: String,
    pub(crate) db: DatabaseConnection,
    pub(crate) redis: Redis,
    pub(crate) mysql_url: String,
    pub(crate) redis_url: String,
    pub(crate) rabbitmq_url: String,
    signing_secret: String,
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run scripts/test, or eval \"$(scripts/services env)\" first")
    })
}

impl World {
    /// An empty world; its schema is brought up to date.
    pub(crate) async fn new() -> Self {
        Self::on_redis(&variable("LUCKYBAG__REDIS__URL")).await
    }

    /// The same on Redis servers that are the test's own.
    pub(crate) async fn on_redis(redis_url: &str) -> Self {
        let world = Self::empty(redis_url).await;
        mysql::migrate(&world.db).await.expect("migrating");
        world
    }

    /// A world with a database that holds no table yet.
    pub(crate) async fn without_schema() -> Self {
        Self::empty(&variable("LUCKYBAG__REDIS__URL")).await
    }

    async fn empty(redis_url: &str) -> Self {
        let namespace = format!("t{:012x}", rand::random::<u64>() & 0xffff_ffff_ffff);
        let shared_url = variable("LUCKYBAG__MYSQL__URL");
        let shared = connect(&shared_url);
        shared
            .execute_unprepared(&format!(
                "CREATE DATABASE {namespace} CHARACTER SET utf8mb4"
            ))
            .await
            .expect("a database for this test");
        shared.close().await.expect("closing the shared connection");

        let (server, _) = shared_url
            .rsplit_once('/')
            .expect("mysql.url names a database");
        let mysql_url = format!("{server}/{namespace}");
        let db = connect(&mysql_url);
        let redis = Redis::connect(&RedisOptions {
            url: redis_url,
            pool_size: 1,
            command_timeout: Duration::from_secs(5),
            namespace: &namespace,
        })
        .expect("redis.url");
        Self {
            db,
            redis,
            mysql_url,
            redis_url: redis_url.to_owned(),
            rabbitmq_url: variable("LUCKYBAG__RABBITMQ__URL"),
            signing_secret: format!("{:032x}", rand::random::<u128>()),
            namespace,
        }
    }

    pub(crate) fn keys(&self) -> &Keys {
        self.redis.keys()
    }

    /// The variables that make a process of ours live in this world.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let own = [
            ("NAMESPACE", self.namespace.as_str()),
            ("MYSQL__URL", &self.mysql_url),
            ("MYSQL__MAX_CONNECTIONS", "12"),
            ("LIMITS__MYSQL_CONCURRENCY", "8"),
            // Tests ask again and again, as one user and from one address.
            ("LIMITS__USER_PER_SECOND", "0"),
            ("LIMITS__IP_PER_SECOND", "0"),
            ("REDIS__URL", &self.redis_url),
            ("REDIS__POOL_SIZE", "2"),
            ("RABBITMQ__URL", &self.rabbitmq_url),
            // A busy machine may keep a confirm waiting; a join has its answer after twice this time
            // at the latest, before its caller gives up.
            ("RABBITMQ__CONFIRM_TIMEOUT_MS", "9000"),
            ("AUTH__SIGNING_SECRET", &self.signing_secret),
            ("SERVER__BIND", "127.0.0.1:0"),
            ("SERVER__WORKERS", "1"),
            // A busy machine may keep a test from sending what it has connected for.
            ("SERVER__CLIENT_HEADER_TIMEOUT_MS", "30000"),
            ("SERVER__CLIENT_BODY_TIMEOUT_MS", "30000"),
            ("STREAM__PARTITIONS", "2"),
            ("ACTIVITY__REVIEW_REQUIRED", "false"),
            ("LOG__FORMAT", "json"),
        ];
        own.into_iter()
            .map(|(key, value)| (format!("LUCKYBAG__{key}"), value.to_owned()))
            .collect()
    }

    /// How often users and addresses may call by default: in a world they may without end.
    pub(crate) fn default_rates() -> Vec<(&'static str, String)> {
        let limits = Settings::load_from(None, std::iter::empty())
            .expect("the defaults")
            .limits;
        vec![
            (
                "LIMITS__USER_PER_SECOND",
                limits.user_per_second.to_string(),
            ),
            ("LIMITS__USER_BURST", limits.user_burst.to_string()),
            ("LIMITS__IP_PER_SECOND", limits.ip_per_second.to_string()),
            ("LIMITS__IP_BURST", limits.ip_burst.to_string()),
        ]
    }

    /// The settings of a process in this world, for parts that a test runs itself.
    pub(crate) fn settings(&self) -> Settings {
        Settings::load_from(None, self.variables().into_iter()).expect("settings of the test")
    }

    /// A process of ours that is ready.
    pub(crate) async fn serve(&self) -> Process {
        self.serve_with(&[]).await
    }

    /// The same with other settings: `("SWEEPER__ENABLED", "false")`.
    pub(crate) async fn serve_with(&self, changes: &[(&str, &str)]) -> Process {
        let process = self.spawn(changes);
        process.ready().await;
        process
    }

    /// A process of ours that has just been started.
    pub(crate) fn spawn(&self, changes: &[(&str, &str)]) -> Process {
        Process::spawn(env!("CARGO_BIN_EXE_luckybag"), self.variables(), changes)
    }

    /// A process of an older version that has just been started: of the program that the variable
    /// `LUCKYBAG_OLDER` names, without it of this very version.
    pub(crate) fn spawn_older(&self, changes: &[(&str, &str)]) -> Process {
        let older = std::env::var("LUCKYBAG_OLDER");
        let program = older.unwrap_or_else(|_| env!("CARGO_BIN_EXE_luckybag").to_owned());
        Process::spawn(program, self.variables(), changes)
    }

    /// Connects to the database anew, after it was removed and made again.
    pub(crate) fn reconnect(&mut self) {
        self.db = connect(&self.mysql_url);
    }

    /// A caller of a process's API.
    pub(crate) async fn api(&self, process: &Process) -> Api {
        Api::new(process.url().await, self.settings().auth)
    }

    /// The number that `query` gives: the first column of its first row.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let row = self
            .db
            .query_one_raw(mysql::sql(query, []))
            .await
            .expect(query)
            .expect(query);
        row.try_get_by_index::<Option<i64>>(0)
            .expect(query)
            .unwrap_or(0)
    }

    pub(crate) async fn execute(&self, statement: &str) {
        self.db
            .execute_unprepared(statement)
            .await
            .expect(statement);
    }

    /// A publisher of this world, for messages that no process of ours would send.
    pub(crate) async fn broker(&self) -> (Broker, CancellationToken) {
        self.broker_of(self.settings().stream.partitions).await
    }

    /// The same where the stream has another number of partitions.
    pub(crate) async fn broker_of(&self, partitions: u16) -> (Broker, CancellationToken) {
        let settings = self.settings();
        let broker = Broker::new(BrokerOptions {
            url: settings.rabbitmq.url.expose_secret().to_owned(),
            namespace: settings.namespace,
            partitions,
            confirm_timeout: CONFIRM_TIMEOUT,
        });
        let stop = CancellationToken::new();
        let (running, until) = (broker.clone(), stop.clone());
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        tokio::spawn(async move { running.run(until).await });
        broker.wait_connected().await;
        (broker, stop)
    }

    /// The names of this world's queues and exchanges.
    pub(crate) fn topology(&self) -> Topology {
        Topology::new(&self.namespace, self.settings().stream.partitions)
    }

    /// A connection to RabbitMQ as another system has one.
    pub(crate) async fn amqp(&self) -> Amqp {
        Amqp::connect(&self.rabbitmq_url).await
    }

    /// Removes the database and the queues. Every process of this world has ended before.
    pub(crate) async fn end(self) {
        let amqp = self.amqp().await;
        amqp.delete_all(&self.topology()).await;
        amqp.close().await;
        self.execute(&format!("DROP DATABASE {}", self.namespace))
            .await;
        self.redis.close().await;
    }
}

fn connect(url: &str) -> DatabaseConnection {
    mysql::connect_lazy(&MySqlOptions {
        url,
        max_connections: 4,
        acquire_timeout: Duration::from_secs(10),
    })
    .expect("mysql.url")
}
