//! The command line: others script against it.

mod dead;
mod partitions;
mod report;
mod token;
mod user;
mod verify;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use luckybag::{
    app::{self, AppError},
    http::AuthError,
    kernel::ActivityId,
    settings::{Settings, SettingsError},
    telemetry::{self, TelemetryError},
};

use dead::DeadCommand;
use partitions::PartitionsArgs;
pub(crate) use report::report;
pub(crate) use token::TokenArgs;
use user::UserCommand;
pub(crate) use verify::{VerifyArgs, VerifyError};

/// Giveaways for live rooms.
#[derive(Debug, Parser)]
#[command(name = "luckybag", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service.
    Serve,
    /// Bring the database schema up to date and leave.
    Migrate,
    /// Print a token signed with the configured key, for trying things out.
    Token(TokenArgs),
    /// Check the configuration and print it with secrets masked.
    CheckConfig,
    /// Fill the pool of an activity in Redis from MySQL.
    Rebuild {
        /// The activity's id.
        activity: ActivityId,
    },
    /// Queue every activity to be copied to the admin database.
    CopyAll,
    /// Look at what could not be handled, or send it again.
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Change the number of partitions of the stream, while no process runs.
    Partitions(PartitionsArgs),
    /// Show or erase what is stored about one user.
    #[command(subcommand)]
    User(UserCommand),
    /// Check the proof of a result, offline.
    Verify(VerifyArgs),
    /// Print the OpenAPI document of the HTTP API.
    Openapi,
    /// Play one giveaway against a running service.
    Demo(DemoArgs),
}

#[derive(Debug, clap::Args)]
struct DemoArgs {
    /// Where the service runs.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Settings(#[from] SettingsError),

    #[error("cannot start logging")]
    Telemetry(#[from] TelemetryError),

    #[error("cannot make a token")]
    Token(#[from] AuthError),

    #[error(transparent)]
    Verify(#[from] VerifyError),

    #[error("cannot write to standard output")]
    Output(#[from] io::Error),

    #[error("cannot write JSON")]
    Json(#[from] serde_json::Error),

    #[error(transparent)]
    App(#[from] AppError),
}

impl CliError {
    /// 2 when the command line or the configuration is at fault, else 1.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Settings(_)
            | Self::Telemetry(_)
            | Self::Token(AuthError::NoSigningKey)
            | Self::App(
                AppError::Auth(
                    AuthError::NoKeys
                    | AuthError::NoSigningKey
                    | AuthError::JwksFile(_)
                    | AuthError::JwksUrl(_),
                )
                | AppError::Traces(_)
                | AppError::MySqlUrl(_)
                | AppError::AdminDatabaseUrl(_)
                | AppError::NoAdminDatabase
                | AppError::RedisUrl(_),
            ) => ExitCode::from(2),
            Self::Token(_) | Self::Verify(_) | Self::Output(_) | Self::Json(_) | Self::App(_) => {
                ExitCode::FAILURE
            }
        }
    }
}

impl Cli {
    /// Does what was asked for.
    pub(crate) async fn run(self) -> Result<(), CliError> {
        // These need no configuration: whoever checks a result need not run the service.
        if let Command::Verify(args) = self.command {
            return Ok(print(&args.verify()?.to_string())?);
        }
        if let Command::Openapi = self.command {
            return Ok(print_bytes(app::openapi_json()?.as_bytes())?);
        }
        let settings = Settings::load()?;
        match self.command {
            Command::Verify(_) | Command::Openapi => Ok(()),
            Command::Token(args) => Ok(print(&args.issue(&settings.auth)?)?),
            Command::CheckConfig => Ok(print(settings.masked().trim_end())?),
            Command::Serve => {
                let traces = app::open_traces(&settings)?;
                telemetry::init(&settings.log, traces.as_ref())?;
                Ok(app::serve(settings, traces).await?)
            }
            Command::Migrate => {
                telemetry::init(&settings.log, None)?;
                Ok(app::migrate(settings).await?)
            }
            Command::Rebuild { activity } => {
                telemetry::init(&settings.log, None)?;
                let count = app::rebuild(settings, activity).await?;
                let done = format!("rebuilt: {count} participations of activity {activity}");
                Ok(print(&done)?)
            }
            Command::CopyAll => {
                telemetry::init(&settings.log, None)?;
                let count = app::copy_all(settings).await?;
                Ok(print(&format!("queued: {count} activities to be copied"))?)
            }
            Command::Dead(command) => Ok(print(&command.run(settings).await?)?),
            Command::Partitions(args) => {
                telemetry::init(&settings.log, None)?;
                Ok(print(&args.run(settings).await?)?)
            }
            Command::User(command) => Ok(print(&command.run(settings).await?)?),
            Command::Demo(args) => {
                telemetry::init(&settings.log, None)?;
                Ok(app::demo(settings, &args.url).await?)
            }
        }
    }
}

fn print(text: &str) -> io::Result<()> {
    print_bytes(format!("{text}\n").as_bytes())
}

fn print_bytes(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}
