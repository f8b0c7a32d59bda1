//! Commands that run to their end.

use std::process::{Command, Stdio};

use super::World;

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

impl Finished {
    /// What a command printed that did what it was asked.
    #[track_caller]
    pub(crate) fn printed(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout.trim_end()
    }

    /// Why a command could not do what it was asked.
    #[track_caller]
    pub(crate) fn complaint(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        &self.stderr
    }
}

impl World {
    /// Runs a command of operators to its end.
    pub(crate) async fn operate(&self, line: &str, changes: &[(&str, &str)]) -> Finished {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let changes = changes
            .iter()
            .map(|(key, value)| (format!("LUCKYBAG__{key}"), (*value).to_owned()));
        let variables: Vec<_> = self.variables().into_iter().chain(changes).collect();
        tokio::task::spawn_blocking(move || {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            luckybag(&args, variables)
        })
        .await
        .expect("the command ends")
    }
}
