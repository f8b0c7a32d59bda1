//! Commands that run to their end.

use std::process::{Command, Stdio};

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `luckybag` with these arguments, and with these variables alone.
pub(crate) fn luckybag<N, V>(args: &[&str], variables: impl IntoIterator<Item = (N, V)>) -> Finished
where
    N: AsRef<std::ffi::OsStr>,
    V: AsRef<std::ffi::OsStr>,
{
    let mut command = Command::new(env!("CARGO_BIN_EXE_luckybag"));
    command.args(args).env_clear().envs(variables);
    finish(command)
}

/// Runs a command to its end, without standard input.
pub(crate) fn finish(mut command: Command) -> Finished {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}
