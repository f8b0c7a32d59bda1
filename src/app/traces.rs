//! Where traces go.

use secrecy::ExposeSecret;

use super::error::AppError;
use crate::{infra::https, settings::Settings, telemetry::Traces};

/// Starts exporting spans, if the settings say where to; the collector need not be up.
pub fn open_traces(settings: &Settings) -> Result<Option<Traces>, AppError> {
    let telemetry = &settings.telemetry;
    let endpoint = telemetry.otlp_endpoint.expose_secret();
    let (scheme, _) = endpoint.split_once("://").unwrap_or_default();
    let connector = https::connector(scheme).map_err(AppError::Traces)?;
    Traces::open(telemetry, &settings.namespace, connector)
        .map_err(|error| AppError::Traces(error.to_string()))
}
