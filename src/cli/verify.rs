//! `luckybag verify`.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

use luckybag::draw::{Fault, Verified, verify_proof};

/// More than any proof has: 10,000 winners among a million entries make about 15 MB.
const MOST_BYTES: u64 = 256 << 20;

/// What to check.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The answer of `GET …/proof`; `-` reads standard input.
    #[arg(value_name = "PROOF")]
    proof: PathBuf,

    /// The answer of `GET …/proof/me` to whoever wants to know about its own entry.
    #[arg(long, value_name = "FILE")]
    entry: Option<PathBuf>,
}

/// Why a proof is not believed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyError {
    #[error("cannot read {}", file.display())]
    Unreadable {
        file: PathBuf,
        #[source]
        source: io::Error,
    },

    #[error("the proof does not hold: {0}")]
    Wrong(#[from] Fault),
}

impl VerifyArgs {
    /// Reads and checks the files.
    pub(super) fn verify(self) -> Result<Verified, VerifyError> {
        let proof = read(self.proof)?;
        let entry = self.entry.map(read).transpose()?;
        Ok(verify_proof(&proof, entry.as_deref())?)
    }
}

fn read(file: PathBuf) -> Result<String, VerifyError> {
    let text = if file.as_os_str() == "-" {
        read_bounded(io::stdin().lock())
    } else {
        File::open(&file).and_then(read_bounded)
    };
    text.map_err(|source| VerifyError::Unreadable { file, source })
}

fn read_bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        let message = "it is longer than any proof";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}
