//! Tells the caller why a command failed.

use std::io::{self, Write};

use super::CliError;
use luckybag::telemetry::Chain;

/// Writes the error and its causes as one line to standard error.
pub(crate) fn report(error: &CliError) {
    let text = Chain(error).to_string();
    let line: String = text
        .chars()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .collect();
    // There is nowhere left to say that this failed.
    writeln!(io::stderr(), "luckybag: {line}").unwrap_or_default();
}
