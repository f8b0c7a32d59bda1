//! The two verifiers: `luckybag verify`, and the one in Python beside this file's folder.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use luckybag::draw::verify_proof;
use serde_json::json;

use crate::harness::{Finished, finish, luckybag};

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/verify_proof.py");

/// A proof, and an entry beside it.
pub(super) type Pair<'a> = (&'a str, Option<&'a str>);

/// What the Python verifier says of each: `ok`, or what does not hold.
pub(super) fn python(pairs: &[Pair<'_>]) -> Vec<String> {
    let mut child = Command::new("python3")
        .args(["-B", PYTHON, "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut input = child.stdin.take().expect("its standard input");
    let lines: Vec<String> = pairs.iter().map(|pair| json!(pair).to_string()).collect();
    // It answers as it reads, so both pipes have to be served at once.
    let writer = std::thread::spawn(move || {
        for line in lines {
            writeln!(input, "{line}").expect("it reads");
        }
    });
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("everything was written");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), pairs.len(), "{text}");
    answers
}

/// What ours says, in the same form.
pub(super) fn rust((proof, entry): Pair<'_>) -> String {
    match verify_proof(proof, entry) {
        Ok(_) => "ok".to_owned(),
        Err(fault) => fault.to_string(),
    }
}

/// Asserts that both verifiers believe it.
#[track_caller]
pub(super) fn assert_verified(pair: Pair<'_>) {
    let (rust, python) = (rust(pair), python(&[pair]));
    assert_eq!(
        (rust.as_str(), python[0].as_str()),
        ("ok", "ok"),
        "{pair:?}"
    );
}

/// A file for as long as a test needs it.
pub(super) struct TestFile(PathBuf);

impl TestFile {
    pub(super) fn new(text: &str) -> Self {
        let name = format!("luckybag-{:016x}.json", rand::random::<u64>());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).expect("a file");
        Self(path)
    }

    pub(super) fn name(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// `luckybag verify` without any configuration.
pub(super) fn verify(args: &[&str]) -> Finished {
    let args: Vec<&str> = std::iter::once("verify")
        .chain(args.iter().copied())
        .collect();
    luckybag::<&str, &str>(&args, [])
}

/// The same with the proof on standard input.
pub(super) fn verify_stdin(proof: &TestFile) -> Finished {
    let mut command = Command::new("sh");
    command
        .env_clear()
        .args(["-c", "exec \"$1\" verify - < \"$2\"", "sh"])
        .args([env!("CARGO_BIN_EXE_luckybag"), proof.name()]);
    finish(command)
}
