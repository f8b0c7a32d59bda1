//! One struct a section; config/default.toml says what each key means and its default.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::{
    masking, parse,
    proxies::ProxyRange,
    units::{Millis, Secs},
};
use crate::kernel::UserId;

/// Everything that can be configured.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub namespace: String,
    pub server: ServerSettings,
    pub log: LogSettings,
    pub telemetry: TelemetrySettings,
    pub mysql: MysqlSettings,
    pub admin_database: AdminDatabaseSettings,
    pub redis: RedisSettings,
    pub rabbitmq: RabbitmqSettings,
    pub stream: StreamSettings,
    pub auth: AuthSettings,
    pub activity: ActivitySettings,
    pub join: JoinSettings,
    pub presence: PresenceSettings,
    pub candidate: CandidateSettings,
    pub draw: DrawSettings,
    pub sweeper: SweeperSettings,
    pub retention: RetentionSettings,
    pub notifications: NotificationsSettings,
    pub limits: LimitsSettings,
    pub live: LiveSettings,
}

/// The HTTP servers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    pub bind: SocketAddr,
    /// `None` serves health and metrics on the public address.
    #[serde(with = "parse::optional_text")]
    pub ops_bind: Option<SocketAddr>,
    /// 0 means one for each core.
    pub workers: usize,
    pub shutdown_grace_secs: Secs,
    pub join_body_limit_bytes: NonZeroUsize,
    pub body_limit_bytes: NonZeroUsize,
    pub batch_body_limit_bytes: NonZeroUsize,
    pub client_header_timeout_ms: Millis,
    pub client_body_timeout_ms: Millis,
    pub keep_alive_secs: Secs,
    pub send_timeout_secs: Secs,
    /// Whose `X-Forwarded-For` is believed.
    #[serde(with = "parse::comma_list")]
    pub trusted_proxies: Vec<ProxyRange>,
    /// Whether `/openapi.json` and `/docs` are served.
    pub docs: bool,
}

/// What is logged, and how.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    pub format: LogFormat,
    pub filter: String,
}

/// How one log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Json,
    Pretty,
}

/// Where traces are sent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySettings {
    /// Empty traces nothing. Some collectors want a key in its query.
    #[serde(serialize_with = "masking::optional_url")]
    pub otlp_endpoint: SecretString,
    /// 0 to 1.
    pub otlp_sample_ratio: f64,
    pub otlp_service_name: String,
    /// `None` is a random one a process.
    #[serde(with = "parse::optional_text")]
    pub otlp_instance: Option<String>,
}

/// The connection to `MySQL` or `MariaDB`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MysqlSettings {
    #[serde(serialize_with = "masking::url")]
    pub url: SecretString,
    pub max_connections: NonZeroU32,
    pub acquire_timeout_ms: Millis,
    pub migrate: bool,
}

/// The database that receives a copy of activities and win records.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AdminDatabaseSettings {
    /// Empty when there is none.
    #[serde(serialize_with = "masking::optional_url")]
    pub url: SecretString,
    pub max_connections: NonZeroU32,
    pub connect_timeout_ms: Millis,
    pub migrate: bool,
}

impl AdminDatabaseSettings {
    /// Whether copies are made.
    pub fn is_on(&self) -> bool {
        !self.url.expose_secret().is_empty()
    }
}

/// The connection to Redis.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RedisSettings {
    #[serde(serialize_with = "masking::url")]
    pub url: SecretString,
    pub pool_size: NonZeroUsize,
    pub command_timeout_ms: Millis,
}

/// The connection to `RabbitMQ`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RabbitmqSettings {
    #[serde(serialize_with = "masking::url")]
    pub url: SecretString,
    pub confirm_timeout_ms: Millis,
}

/// The partitioned, ordered stream.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSettings {
    /// 1 to 64.
    pub partitions: u16,
}

/// Whose tokens are believed.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AuthSettings {
    /// Empty when none is configured.
    #[serde(serialize_with = "masking::secret")]
    pub signing_secret: SecretString,
    #[serde(with = "parse::optional_text")]
    pub issuer: Option<String>,
    #[serde(with = "parse::optional_text")]
    pub audience: Option<String>,
    pub leeway_secs: u32,
    #[serde(with = "parse::optional_text")]
    pub jwks_file: Option<String>,
    /// Empty when none is configured.
    #[serde(serialize_with = "masking::optional_url")]
    pub jwks_url: SecretString,
    pub jwks_allow_http: bool,
    pub jwks_refresh_secs: Secs,
    pub jwks_least_pause_secs: Secs,
    pub jwks_timeout_ms: Millis,
}

/// The life cycle of activities.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ActivitySettings {
    pub review_required: bool,
    #[serde(with = "parse::comma_list")]
    pub review_exempt_hosts: Vec<UserId>,
    pub detail_memory_ms: Millis,
}

/// Accepting joins.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JoinSettings {
    pub batch_max: NonZeroUsize,
    pub queue_limit: NonZeroUsize,
    pub trust_completed_tasks: bool,
    pub report_accepted: bool,
}

/// Presence and task events.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PresenceSettings {
    pub max_ahead_secs: Secs,
}

/// Who may win.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateSettings {
    /// 0 turns the cool-down off.
    pub cooldown_secs: u32,
    pub trim_after: u64,
    /// At least 0, below 1.
    pub trim_floor: f64,
}

impl CandidateSettings {
    /// How long a winner is kept from winning again; zero when that is off.
    pub fn cooldown(&self) -> Duration {
        Duration::from_secs(self.cooldown_secs.into())
    }
}

/// Draws.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DrawSettings {
    pub lease_secs: Secs,
    pub lease_renew_secs: Secs,
    pub drain_limit_secs: Secs,
    pub drain_max_secs: Secs,
    pub concurrency: NonZeroUsize,
    pub arm_ahead_secs: Secs,
    pub messages_enabled: bool,
}

/// The search for what a lost message left undone.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SweeperSettings {
    pub enabled: bool,
    pub interval_ms: Millis,
}

/// How long what is stored about people is kept, in days; 0 keeps it for ever.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    pub participations_days: u32,
    pub win_records_days: u32,
    pub audit_days: u32,
}

/// Telling people about results.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NotificationsSettings {
    pub part_size: NonZeroUsize,
}

/// What keeps one part from overwhelming another.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsSettings {
    pub mysql_concurrency: NonZeroUsize,
    /// 0 turns the limit of a user off.
    pub user_per_second: u32,
    pub user_burst: NonZeroU32,
    /// 0 turns the limit of an address off.
    pub ip_per_second: u32,
    pub ip_burst: NonZeroU32,
    /// Of users, and as many of addresses.
    pub buckets_max: NonZeroU32,
}

/// Streams of what happens in an activity.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LiveSettings {
    pub max_streams: NonZeroUsize,
    pub streams_per_user: NonZeroU32,
    pub heartbeat_secs: Secs,
    pub linger_secs: Secs,
    pub result_spread_ms: Millis,
    pub retry_ms: Millis,
}
