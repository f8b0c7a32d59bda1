//! One user's entry, beside a proof that holds.

use std::{cmp::Ordering, fmt};

use super::{EntryFault, rounds::Seats};
use crate::{
    activity::Seed,
    candidate::{
        Standing,
        entries::{EntryState, Salt, leaf_hash, tree_hash_of},
    },
    draw::proof::document::{EntryProof, Proof, Winner, hashes},
    kernel::{ActivityId, UserId},
};

/// What holds about an entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EntryVerdict {
    user_id: u64,
    index: u64,
    state: EntryState,
    score: f64,
    win: Option<Win>,
}

/// Which seat the user won, and whether it was taken back.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Win {
    seat: u32,
    revoked_in_round: Option<u32>,
}

impl fmt::Display for EntryVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user_id,
            index,
            state,
            score,
            win,
        } = self;
        let (status, reason, eligibility) = state.as_words();
        let more = reason.or(eligibility).unwrap_or_default();
        write!(
            f,
            "entry {index} is that of user {user_id}: {status}, {more}, with score {score}; "
        )?;
        match win {
            Some(win) => {
                write!(f, "it won seat {}", win.seat)?;
                match win.revoked_in_round {
                    Some(round) => write!(f, ", which was revoked in round {round}"),
                    None => Ok(()),
                }
            }
            None if *state == EntryState::ELIGIBLE => write!(f, "nobody with a lower score won"),
            None => write!(f, "it could not win"),
        }
    }
}

/// Holds an entry against the proof.
pub(super) fn check(
    document: &EntryProof,
    proof: &Proof,
    seats: &Seats,
) -> Result<EntryVerdict, EntryFault> {
    if document.activity_id != proof.activity_id {
        return Err(EntryFault::ActivityId);
    }
    if document.entries_count != proof.entries_count {
        return Err(EntryFault::EntriesCount);
    }
    if document.entries_root != proof.entries_root {
        return Err(EntryFault::EntriesRoot);
    }
    let entry = &document.entry;
    let state = EntryState::parse(
        &entry.status,
        entry.reason.as_deref(),
        entry.eligibility.as_deref(),
    );
    let state = state.ok_or(EntryFault::State)?;
    let standing = Standing::of(&Seed::new(proof.seed.0), UserId(entry.user_id.0));
    check_opening(document, proof, state, &standing)?;
    let mut winners = proof.winners.iter();
    let won = winners.find(|winner| winner.user_id == entry.user_id);
    match won {
        Some(win) => check_winner(document, win)?,
        None => check_other(document, proof, state, (&standing, seats))?,
    }
    Ok(EntryVerdict {
        user_id: entry.user_id.0,
        index: entry.index,
        state,
        score: document.score.0,
        win: won.map(|win| Win {
            seat: win.seat,
            revoked_in_round: win.revoked_in_round,
        }),
    })
}

#[expect(clippy::float_cmp, reason = "a score is exact")]
fn check_opening(
    document: &EntryProof,
    proof: &Proof,
    state: EntryState,
    standing: &Standing,
) -> Result<(), EntryFault> {
    let entry = &document.entry;
    let id = ActivityId(proof.activity_id.0);
    let leaf = leaf_hash(id, &Salt(entry.salt.0), UserId(entry.user_id.0), state);
    let path = hashes(&entry.path);
    let tree = tree_hash_of(entry.index, proof.entries_count, leaf, &path);
    let leads_there = tree == Some(proof.entries_tree.0);
    let (found, expected) = (document.score.0, standing.score.value());
    match (found == expected, leads_there) {
        (true, true) => Ok(()),
        (true, false) => Err(EntryFault::Path),
        (false, true) => Err(EntryFault::Score { found, expected }),
        (false, false) => Err(EntryFault::User),
    }
}

fn check_winner(document: &EntryProof, win: &Winner) -> Result<(), EntryFault> {
    let entry = &document.entry;
    if (entry.index, entry.salt) != (win.entry.index, win.entry.salt) {
        return Err(EntryFault::OtherEntry);
    }
    if document.rank != Some(win.seat) {
        return Err(EntryFault::Rank);
    }
    Ok(())
}

fn check_other(
    document: &EntryProof,
    proof: &Proof,
    state: EntryState,
    (standing, seats): (&Standing, &Seats),
) -> Result<(), EntryFault> {
    let entry = &document.entry;
    let is_out_of_order = |winner: &Winner| {
        winner.user_id.cmp(&entry.user_id) != winner.entry.index.cmp(&entry.index)
    };
    if proof.winners.iter().any(is_out_of_order) {
        return Err(EntryFault::Order);
    }
    if document.rank.is_some() {
        return Err(EntryFault::RankWithoutWin);
    }
    if state != EntryState::ELIGIBLE {
        return Ok(());
    }
    if seats.is_short {
        return Err(EntryFault::EmptySeat);
    }
    match &seats.last {
        Some(last) if last.rank(standing) != Ordering::Less => Err(EntryFault::PassedOver),
        Some(_) | None => Ok(()),
    }
}
