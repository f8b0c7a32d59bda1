//! Whole draws of an honest service, and what a dishonest one might make of them.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{super::document::*, *};
use crate::{
    activity::{Seed, commitment, rules_hash},
    candidate::{
        Eligibility, RejectReason, Standing,
        entries::{EntryState, Hash, Salt, empty_tree, entries_root, leaf_hash},
    },
    kernel::{ActivityId, UserId},
};

const ID: ActivityId = ActivityId(7);
const PRIZES: [(u64, u32); 2] = [(50, 1), (60, 2)];

/// A draw with everything that the service knows about it.
#[derive(Clone, Debug)]
struct Draw {
    seed: [u8; 32],
    entries: BTreeMap<u64, EntryState>,
}

impl Draw {
    /// Users 1 to `count`, all of them eligible.
    fn of(count: u64) -> Self {
        Self {
            seed: [9; 32],
            entries: (1..=count)
                .map(|user| (user, EntryState::ELIGIBLE))
                .collect(),
        }
    }

    fn ranked(&self) -> Vec<Standing> {
        let eligible = self
            .entries
            .iter()
            .filter(|(_, state)| **state == EntryState::ELIGIBLE);
        let seed = Seed::new(self.seed);
        let mut ranked: Vec<_> = eligible
            .map(|(user, _)| Standing::of(&seed, UserId(*user)))
            .collect();
        ranked.sort_by(Standing::rank);
        ranked
    }

    fn salt(user: u64) -> Salt {
        Salt(Sha256::digest(user.to_be_bytes()).into())
    }

    fn leaves(&self) -> Vec<Hash> {
        let leaf = |(user, state): (&u64, &EntryState)| {
            leaf_hash(ID, &Self::salt(*user), UserId(*user), *state)
        };
        self.entries.iter().map(leaf).collect()
    }

    fn opening(&self, user: u64) -> Opening {
        let index = self
            .entries
            .keys()
            .position(|known| *known == user)
            .unwrap();
        let path = path(index, &self.leaves());
        Opening {
            index: index as u64,
            salt: Hex32(Self::salt(user).0),
            path: path.into_iter().map(Hex32).collect(),
        }
    }

    /// Hands the seats out to `ranked`, then takes `revoked` back, round by round.
    fn proof_of(&self, ranked: &[Standing], revoked: &[&[u32]]) -> Proof {
        let mut fresh = ranked.iter();
        let mut winners: Vec<Winner> = Vec::new();
        let mut seats: Vec<u32> = (1..=3).collect();
        for round in 1..=1 + u32::try_from(revoked.len()).unwrap() {
            if let Some(lost) = round.checked_sub(2).map(|at| revoked[at as usize]) {
                seats = lost.to_vec();
                for winner in &mut winners {
                    let holds = winner.revoked_in_round.is_none();
                    if holds && seats.contains(&winner.seat) {
                        winner.revoked_in_round = Some(round);
                    }
                }
            }
            for (seat, standing) in seats.iter().zip(&mut fresh) {
                winners.push(self.winner(*seat, round, *standing));
            }
        }
        winners.sort_by_key(|winner| (winner.seat, winner.round));
        self.document(winners, revoked)
    }

    fn winner(&self, seat: u32, round: u32, standing: Standing) -> Winner {
        let (prize_id, prize_rank) = if seat == 1 { (50, 1) } else { (60, 2) };
        Winner {
            seat,
            round,
            user_id: Id(standing.user_id.0),
            score: Score(standing.score.value()),
            prize_rank,
            prize_id: Id(prize_id),
            revoked_in_round: None,
            entry: self.opening(standing.user_id.0),
        }
    }

    fn document(&self, winners: Vec<Winner>, revoked: &[&[u32]]) -> Proof {
        let prizes: Vec<_> = (1..)
            .zip(PRIZES)
            .map(|(rank, (id, quantity))| {
                json!({ "rank": rank, "prizeId": id.to_string(), "quantity": quantity })
            })
            .collect();
        let rules = json!({ "activityId": "7", "scoreRuleVersion": 1, "prizes": prizes });
        let rules = rules.to_string();
        let hash = rules_hash(&rules);
        let tree = tree(&self.leaves());
        let count = self.entries.len() as u64;
        let redraw = |(round, seats): (u32, &&[u32])| Redraw {
            round,
            seats: seats.to_vec(),
        };
        let mut first_round = winners.iter().filter(|winner| winner.round == 1);
        Proof {
            format: PROOF_FORMAT.to_owned(),
            activity_id: Id(ID.0),
            commitment: Hex32(commitment(ID, &Seed::new(self.seed), &hash)),
            seed: Hex32(self.seed),
            rules,
            rules_hash: Hex32(hash),
            score_rule_version: 1,
            entries_count: count,
            entries_tree: Hex32(tree),
            entries_root: Hex32(entries_root(ID, count, &tree)),
            round: 1 + u32::try_from(revoked.len()).unwrap(),
            cutoff_score: first_round.next_back().map(|winner| winner.score),
            winners,
            redraws: (2..).zip(revoked).map(redraw).collect(),
        }
    }

    fn honest(&self, revoked: &[&[u32]]) -> Proof {
        self.proof_of(&self.ranked(), revoked)
    }

    fn entry(&self, user: u64, rank: Option<u32>) -> EntryProof {
        let tree = tree(&self.leaves());
        let count = self.entries.len() as u64;
        let Opening { index, salt, path } = self.opening(user);
        let (status, reason, eligibility) = self.entries[&user].as_words();
        let standing = Standing::of(&Seed::new(self.seed), UserId(user));
        EntryProof {
            format: ENTRY_FORMAT.to_owned(),
            activity_id: Id(ID.0),
            entries_root: Hex32(entries_root(ID, count, &tree)),
            entries_count: count,
            entry: Entry {
                user_id: Id(user),
                index,
                salt,
                status: status.to_owned(),
                reason: reason.map(str::to_owned),
                eligibility: eligibility.map(str::to_owned),
                path,
            },
            score: Score(standing.score.value()),
            rank,
        }
    }
}

fn node(left: Hash, right: Hash) -> Hash {
    let bytes = [&[1][..], &left, &right].concat();
    Sha256::digest(bytes).into()
}

fn tree(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => empty_tree(),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            node(tree(left), tree(right))
        }
    }
}

fn path(index: usize, leaves: &[Hash]) -> Vec<Hash> {
    if leaves.len() == 1 {
        return Vec::new();
    }
    let middle = leaves.len().next_power_of_two() / 2;
    let (left, right) = leaves.split_at(middle);
    let (mut path, sibling) = if index < middle {
        (path(index, left), right)
    } else {
        (path(index - middle, right), left)
    };
    path.push(tree(sibling));
    path
}

fn verified(proof: &Proof, entry: Option<&EntryProof>) -> Result<Verified, Fault> {
    let proof = serde_json::to_string(proof).unwrap();
    let entry = entry.map(|entry| serde_json::to_string(entry).unwrap());
    verify_proof(&proof, entry.as_deref())
}

#[track_caller]
fn refused(proof: &Proof, fault: ProofFault) {
    assert_eq!(verified(proof, None), Err(Fault::Proof(fault)));
}

fn seat_of(proof: &Proof, user: u64) -> Option<u32> {
    let mut winners = proof.winners.iter();
    let win = winners.find(|winner| winner.user_id.0 == user)?;
    Some(win.seat)
}

#[test]
fn honest_draws_verify_with_and_without_redraws_and_for_every_entrant() {
    let redraws: [&[&[u32]]; 5] = [
        &[],
        &[&[2]],
        &[&[2], &[2]],
        &[&[1, 3], &[1, 2], &[3]],
        &[&[1, 2, 3], &[1, 2, 3]],
    ];
    for count in 1..=9 {
        let draw = Draw::of(count);
        for revoked in redraws {
            if count < 3 && !revoked.is_empty() {
                continue;
            }
            // Only seats that are taken can be lost.
            let taken = |at: usize| 3 + revoked[..at].iter().map(|s| s.len() as u64).sum::<u64>();
            let kept = (0..revoked.len())
                .take_while(|at| count >= taken(*at))
                .count();
            let proof = draw.honest(&revoked[..kept]);
            for user in draw.entries.keys() {
                let entry = draw.entry(*user, seat_of(&proof, *user));
                let done = verified(&proof, Some(&entry));
                assert!(done.is_ok(), "{count} {revoked:?} {user}: {done:?}");
            }
        }
    }
    assert!(verified(&Draw::of(0).honest(&[]), None).is_ok());
}

#[test]
fn whoever_could_not_win_has_an_entry_that_verifies() {
    let mut draw = Draw::of(6);
    for (user, state) in [
        (2, EntryState::Joined(Eligibility::Absent)),
        (
            3,
            EntryState::Joined(Eligibility::Forfeited { is_finished: false }),
        ),
        (5, EntryState::Rejected(RejectReason::Cooldown)),
    ] {
        draw.entries.insert(user, state);
    }
    let proof = draw.honest(&[]);

    for user in [2, 3, 5] {
        let done = verified(&proof, Some(&draw.entry(user, None)));
        assert!(done.is_ok(), "{user}: {done:?}");
    }
}

#[test]
fn a_winner_that_was_not_an_eligible_entry_is_seen() {
    let mut draw = Draw::of(6);
    let favourite = draw.ranked()[0].user_id.0;
    let absent = EntryState::Joined(Eligibility::Absent);
    let ranked = draw.ranked();
    draw.entries.insert(favourite, absent);

    let proof = draw.proof_of(&ranked, &[]);

    refused(&proof, ProofFault::WinnerEntry { index: 0 });
}

#[test]
fn a_better_entry_that_was_passed_over_sees_it_by_its_own_entry() {
    let draw = Draw::of(6);
    let mut ranked = draw.ranked();
    let robbed = ranked.remove(1).user_id.0;
    let proof = draw.proof_of(&ranked, &[]);

    assert!(verified(&proof, None).is_ok());
    let fault = verified(&proof, Some(&draw.entry(robbed, None)));

    assert_eq!(fault, Err(Fault::Entry(EntryFault::PassedOver)));
    // A redraw that skips somebody, too.
    let mut ranked = draw.ranked();
    let robbed = ranked.remove(3).user_id.0;
    let proof = draw.proof_of(&ranked, &[&[1]]);
    let fault = verified(&proof, Some(&draw.entry(robbed, None)));
    assert_eq!(fault, Err(Fault::Entry(EntryFault::PassedOver)));
}

#[test]
fn a_seat_that_stayed_empty_beside_an_eligible_entry_is_seen_by_that_entry() {
    let draw = Draw::of(6);
    let ranked = draw.ranked();
    for (winners, revoked) in [(2, &[][..]), (0, &[]), (3, &[&[2][..]])] {
        let proof = draw.proof_of(&ranked[..winners], revoked);
        assert!(verified(&proof, None).is_ok());

        let left_out = draw.entry(ranked[5].user_id.0, None);
        let fault = verified(&proof, Some(&left_out));

        assert_eq!(fault, Err(Fault::Entry(EntryFault::EmptySeat)), "{winners}");
    }
}

#[test]
fn winners_that_did_not_get_their_seats_by_score_are_seen() {
    let draw = Draw::of(8);
    let mut ranked = draw.ranked();
    ranked.swap(1, 2);
    refused(
        &draw.proof_of(&ranked, &[]),
        ProofFault::ScoreOrder { index: 2 },
    );

    // Somebody is held back for the redraw.
    let mut ranked = draw.ranked();
    ranked.swap(2, 3);
    let fault = verified(&draw.proof_of(&ranked, &[&[1]]), None);
    assert!(
        matches!(fault, Err(Fault::Proof(ProofFault::ScoreOrder { .. }))),
        "{fault:?}"
    );
}

#[test]
fn seats_that_are_left_out_or_refilled_out_of_order_are_seen() {
    let draw = Draw::of(8);
    let honest = draw.honest(&[&[1, 3]]);

    // The second free seat is taken, the first is not.
    let mut proof = honest.clone();
    proof
        .winners
        .retain(|winner| (winner.seat, winner.round) != (1, 2));
    let index = proof.winners.len() - 1;
    refused(&proof, ProofFault::SeatSkipped { index });
    // Seat 2 of the draw is missing.
    let mut proof = draw.honest(&[]);
    proof.winners.remove(1);
    refused(&proof, ProofFault::SeatSkipped { index: 1 });
    // A seat that nobody lost has a second winner.
    let mut proof = honest;
    for winner in &mut proof.winners {
        if (winner.seat, winner.round) == (3, 2) {
            winner.seat = 2;
        }
    }
    let fault = verified(&proof, None);
    assert!(
        matches!(fault, Err(Fault::Proof(ProofFault::SeatSkipped { .. }))),
        "{fault:?}"
    );
}

#[test]
fn nobody_wins_once_nobody_was_left() {
    let draw = Draw::of(8);
    let ranked = draw.ranked();
    let mut proof = draw.proof_of(&ranked[..3], &[&[2], &[3]]);
    assert!(verified(&proof, None).is_ok());

    let late = draw.winner(3, 3, ranked[3]);
    proof.winners.push(late);

    refused(&proof, ProofFault::WonAfterTheLast { index: 3 });
}

#[test]
fn a_redraw_that_takes_nothing_back_and_a_user_with_two_wins_are_seen() {
    let draw = Draw::of(8);
    let mut proof = draw.honest(&[]);
    proof.round = 2;
    proof.redraws.push(Redraw {
        round: 2,
        seats: vec![],
    });
    refused(&proof, ProofFault::NobodyRevoked { index: 0 });

    let mut ranked = draw.ranked();
    ranked[1] = ranked[0];
    refused(
        &draw.proof_of(&ranked, &[]),
        ProofFault::UserTwice { index: 1 },
    );
}

#[test]
fn entries_out_of_order_are_seen() {
    let draw = Draw::of(8);
    let mut proof = draw.honest(&[]);
    let (lower, higher) = {
        let mut users: Vec<u64> = proof
            .winners
            .iter()
            .map(|winner| winner.user_id.0)
            .collect();
        users.sort_unstable();
        (users[0], users[2])
    };
    // The leaves of two winners change places, and root and paths are made to fit.
    let mut leaves = draw.leaves();
    let at = |user: u64| usize::try_from(user - 1).unwrap();
    leaves.swap(at(lower), at(higher));
    for winner in &mut proof.winners {
        let user = winner.user_id.0;
        let index = at(match user {
            user if user == lower => higher,
            user if user == higher => lower,
            user => user,
        });
        winner.entry.index = index as u64;
        winner.entry.path = path(index, &leaves).into_iter().map(Hex32).collect();
    }
    let tree = tree(&leaves);
    proof.entries_tree = Hex32(tree);
    proof.entries_root = Hex32(entries_root(ID, 8, &tree));

    let fault = verified(&proof, None);

    assert!(
        matches!(fault, Err(Fault::Proof(ProofFault::EntryOrder { .. }))),
        "{fault:?}"
    );
}

#[test]
fn an_unknown_format_or_field_is_refused() {
    let draw = Draw::of(4);
    let text = serde_json::to_string(&draw.honest(&[])).unwrap();
    for (changed, named) in [
        (text.replace("proof/v1", "proof/v2"), "format: "),
        (
            text.replace("\"round\":1", "\"round\":1,\"extra\":1"),
            "extra",
        ),
        (text.replace(",\"redraws\":[]", ""), "redraws"),
        (text.replace("\"cutoffScore\"", "\"cutoff\""), "cutoff"),
        (format!("{text} {{}}"), "trailing"),
        (
            text.replacen("\"seat\":1", "\"seat\":1,\"seat\":1", 1),
            "seat",
        ),
        ("[]".to_owned(), ""),
        (String::new(), ""),
    ] {
        assert_ne!(changed, text);
        let fault = verify_proof(&changed, None).unwrap_err().to_string();
        assert!(fault.contains(named), "{named}: {fault}");
    }
}

proptest! {
    #[test]
    fn random_draws_with_random_redraws_verify(
        seed in any::<[u8; 32]>(),
        states in prop::collection::vec(0..4_u8, 0..40),
        picks in prop::collection::vec(1..8_u8, 0..6),
    ) {
        let mut draw = Draw { seed, entries: BTreeMap::new() };
        for (user, state) in (1..).zip(states) {
            let state = match state {
                0 => EntryState::Joined(Eligibility::TasksUnfinished),
                1 => EntryState::Rejected(RejectReason::Blocked),
                _ => EntryState::ELIGIBLE,
            };
            draw.entries.insert(user * 3, state);
        }
        let mut left = draw.ranked().len();
        let mut held: HashSet<u32> = (1..=3).take(left.min(3)).collect();
        left -= held.len();
        let mut revoked: Vec<Vec<u32>> = Vec::new();
        for pick in picks {
            let mut seats: Vec<u32> =
                held.iter().copied().filter(|seat| pick >> (seat - 1) & 1 == 1).collect();
            seats.sort_unstable();
            if seats.is_empty() {
                continue;
            }
            let filled = seats.len().min(left);
            left -= filled;
            for seat in &seats[filled..] {
                held.remove(seat);
            }
            revoked.push(seats);
        }
        let revoked: Vec<&[u32]> = revoked.iter().map(Vec::as_slice).collect();

        let proof = draw.honest(&revoked);

        let done = verified(&proof, None);
        prop_assert!(done.is_ok(), "{:?}", done);
        for user in draw.entries.keys() {
            let entry = draw.entry(*user, seat_of(&proof, *user));
            let done = verified(&proof, Some(&entry));
            prop_assert!(done.is_ok(), "{}: {:?}", user, done);
        }
    }
}
