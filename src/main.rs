//! The binary: reads the command line and leaves with its exit code.

use std::process::ExitCode;

use clap::Parser;

mod cli;

use cli::{Cli, report};

#[tokio::main]
async fn main() -> ExitCode {
    // Only fails when a provider was installed before, and nothing ran before.
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .unwrap_or_default();

    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => return print_usage(&usage),
    };
    match cli.run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            error.exit_code()
        }
    }
}

/// Help and version are asked for and go to standard output; anything else is an error.
fn print_usage(usage: &clap::Error) -> ExitCode {
    match usage.print() {
        Ok(()) if !usage.use_stderr() => ExitCode::SUCCESS,
        Ok(()) | Err(_) => ExitCode::from(2),
    }
}
