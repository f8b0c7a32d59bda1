//! The verifier: holds a proof, and an entry, against what they claim. Pure; needs nothing but the
//! two documents.

mod entry;
mod fault;
mod opened;
mod rounds;
mod rules;
mod strict;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, de::DeserializeOwned};

use self::fault::{EntryFault, ProofFault};
use self::{entry::EntryVerdict, opened::Winners, rounds::Seats};
use super::document::{ENTRY_FORMAT, EntryProof, PROOF_FORMAT, Proof};

pub use fault::Fault;

/// What held.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    activity_id: u64,
    entries_count: u64,
    seats: Seats,
    entry: Option<EntryVerdict>,
}

/// Checks a proof, and beside it a user's entry: the texts of `GET …/proof` and `…/proof/me`.
///
/// # Errors
///
/// The first thing that does not hold; its text begins with the name of the value at fault.
pub fn verify_proof(proof: &str, entry: Option<&str>) -> Result<Verified, Fault> {
    let proof: Proof = read(proof, PROOF_FORMAT)?;
    let entry: Option<EntryProof> = entry
        .map(|entry| read(entry, ENTRY_FORMAT))
        .transpose()
        .map_err(|fault| EntryFault::Unreadable(Box::new(fault)))?;
    let winners = Winners::of(&proof);
    let rules = rules::check(&proof, &winners)?;
    winners.check(&proof)?;
    let seats = rounds::check(&proof, &rules, &winners)?;
    let entry = entry
        .map(|entry| entry::check(&entry, &proof, &seats))
        .transpose()?;
    Ok(Verified {
        activity_id: proof.activity_id.0,
        entries_count: proof.entries_count,
        seats,
        entry,
    })
}

#[derive(Deserialize)]
struct Header {
    format: String,
}

/// Parses a document; the format comes first, since it says which fields there are.
fn read<T: DeserializeOwned>(text: &str, format: &'static str) -> Result<T, ProofFault> {
    let header: Header = parse(text)?;
    if header.format != format {
        return Err(ProofFault::Format {
            found: header.format,
            expected: format,
        });
    }
    parse(text)
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ProofFault> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value =
        serde_path_to_error::deserialize(&mut json).map_err(|error| ProofFault::Malformed {
            path: error.path().to_string(),
            message: error.inner().to_string(),
        })?;
    json.end().map_err(|error| ProofFault::Malformed {
        path: ".".to_owned(),
        message: error.to_string(),
    })?;
    Ok(value)
}

impl fmt::Display for Verified {
    /// What was checked, a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            activity_id,
            entries_count,
            seats,
            entry,
        } = self;
        writeln!(f, "The proof of activity {activity_id} holds:")?;
        writeln!(
            f,
            "- seed and rules are those that were committed to at the opening"
        )?;
        writeln!(
            f,
            "- the root is that of {entries_count} entries, and each winner's is one of them, \
             joined and eligible"
        )?;
        write!(
            f,
            "- every winner has the score that the seed gives it, and the seats and prizes of all \
             {} rounds went by it: {seats}",
            seats.rounds
        )?;
        match entry {
            Some(entry) => write!(f, "\n- {entry}"),
            None => Ok(()),
        }
    }
}
