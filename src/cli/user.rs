//! `luckybag user`.

use luckybag::{app, kernel::UserId, settings::Settings};

use super::CliError;

/// What to do with one user's data.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum UserCommand {
    /// Print everything that is stored about a user as JSON.
    Export {
        /// The user's id.
        user: UserId,
    },
    /// Remove it; print what was removed, what stays, and why.
    Erase {
        /// The user's id.
        user: UserId,
    },
}

impl UserCommand {
    /// Does it, and answers what to print.
    pub(super) async fn run(self, settings: Settings) -> Result<String, CliError> {
        match self {
            Self::Export { user } => {
                let data = app::export_user(settings, user).await?;
                Ok(serde_json::to_string_pretty(&data)?)
            }
            Self::Erase { user } => {
                let erased = app::erase_user(settings, user).await?;
                Ok(serde_json::to_string_pretty(&erased)?)
            }
        }
    }
}
