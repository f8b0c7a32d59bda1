//! Typed configuration, read once at start and checked before anything is started.

mod load;
mod masking;
mod parse;
mod proxies;
mod sections;
mod units;
mod validate;

pub use load::SettingsError;
pub use proxies::ProxyRange;
pub use sections::{
    ActivitySettings, AuthSettings, CandidateSettings, DrawSettings, JoinSettings, LimitsSettings,
    LiveSettings, LogFormat, LogSettings, MysqlSettings, NotificationsSettings, PresenceSettings,
    RabbitmqSettings, RedisSettings, RetentionSettings, ServerSettings, Settings, StreamSettings,
    SweeperSettings, TelemetrySettings,
};
pub use units::{Millis, Secs};

#[cfg(test)]
mod tests;
