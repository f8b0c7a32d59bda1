//! Reads the layers: compiled-in defaults, the named file, the variables.

use std::path::{Path, PathBuf};

use config::{Config, ConfigError, Environment, File, FileFormat};

use super::{sections::Settings, validate};

/// config/default.toml, so that the binary runs alone.
const DEFAULTS: &str = include_str!("../../config/default.toml");

/// Names the file of the second layer. A single underscore keeps it apart from the settings.
const FILE_VARIABLE: &str = "LUCKYBAG_CONFIG";

/// Why there is no usable configuration.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read the configuration")]
    Unreadable(#[from] ConfigError),

    #[error("the configuration is invalid: {}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl Settings {
    /// Reads the defaults, the file named by `LUCKYBAG_CONFIG` and `LUCKYBAG__SECTION__KEY`.
    pub fn load() -> Result<Self, SettingsError> {
        let file = std::env::var_os(FILE_VARIABLE).filter(|file| !file.is_empty());
        // Variables that are not Unicode cannot be ours, and `vars` would panic on them.
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self::load_from(file.map(PathBuf::from).as_deref(), variables)
    }

    /// The same with the file and the variables given.
    pub fn load_from(
        file: Option<&Path>,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, SettingsError> {
        let mut layers = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
        if let Some(file) = file {
            layers = layers.add_source(File::from(file).format(FileFormat::Toml));
        }
        // Without `try_parsing` text stays text: a password `0123` is not the number 123.
        let variables = Environment::with_prefix("LUCKYBAG")
            .prefix_separator("__")
            .separator("__")
            .source(Some(variables.collect()));
        let settings: Self = layers.add_source(variables).build()?.try_deserialize()?;

        let faults = validate::faults(&settings);
        if faults.is_empty() {
            Ok(settings)
        } else {
            Err(SettingsError::Invalid(faults))
        }
    }
}
