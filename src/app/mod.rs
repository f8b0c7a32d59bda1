//! Wiring: turns settings into a running process.

use crate::settings::Settings;

/// Why a command of the process failed.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error("`{0}` is not built yet")]
    NotBuilt(&'static str),
}

/// Runs the service until it is told to stop.
#[expect(clippy::unused_async, reason = "a placeholder")]
pub async fn serve(_settings: Settings) -> Result<(), AppError> {
    Err(AppError::NotBuilt("serve"))
}

/// Brings the schema up to date.
#[expect(clippy::unused_async, reason = "a placeholder")]
pub async fn migrate(_settings: Settings) -> Result<(), AppError> {
    Err(AppError::NotBuilt("migrate"))
}

/// Plays one giveaway against the service at `url`.
#[expect(clippy::unused_async, reason = "a placeholder")]
pub async fn demo(_settings: Settings, _url: &str) -> Result<(), AppError> {
    Err(AppError::NotBuilt("demo"))
}
