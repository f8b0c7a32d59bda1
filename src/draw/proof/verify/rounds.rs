//! Who sits where, round by round.

use std::{
    cmp::Ordering,
    collections::{BTreeSet, HashMap, HashSet},
    fmt,
};

use super::{ProofFault, opened::Winners, rules::Rules};
use crate::{
    candidate::Standing,
    draw::proof::document::{Proof, Redraw, Winner},
};

/// What became of the seats.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seats {
    pub(super) rounds: u32,
    total: u64,
    taken: usize,
    /// At some time nobody eligible was left for a seat.
    pub(super) is_short: bool,
    /// Of whoever won last; whoever has a better one must have won.
    pub(super) last: Option<Standing>,
}

impl fmt::Display for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} seats are taken", self.taken, self.total)
    }
}

/// A winner with its place in the document.
type Numbered<'a> = (usize, &'a Winner);

/// Holds the winners of all rounds against the rules of the draw and of redraws.
pub(super) fn check(proof: &Proof, rules: &Rules, winners: &Winners) -> Result<Seats, ProofFault> {
    check_numbers(proof, rules)?;
    let mut in_order: Vec<Numbered<'_>> = proof.winners.iter().enumerate().collect();
    in_order.sort_by_key(|(_, winner)| (winner.round, winner.seat));
    check_uniqueness(proof, &in_order)?;
    let revocations = revocations(proof);

    let first = of_round(&in_order, 1);
    check_seats(first, 1..)?;
    let mut is_short = (first.len() as u64) < rules.seats();
    for (index, redraw) in proof.redraws.iter().enumerate() {
        let fresh = of_round(&in_order, redraw.round);
        let lost = revocations.get(&redraw.round);
        let revoked = revoked_seats(lost.map_or(&[], Vec::as_slice), index, redraw)?;
        if let Some((index, _)) = fresh.first()
            && is_short
        {
            return Err(ProofFault::WonAfterTheLast { index: *index });
        }
        check_seats(fresh, revoked.iter().copied())?;
        is_short = is_short || fresh.len() < revoked.len();
    }

    let ranked = in_order
        .iter()
        .map(|(index, _)| (*index, winners.standings[*index]));
    check_ranks(&ranked.collect::<Vec<_>>())?;
    check_prizes(proof, rules)?;
    let lowest = first.last().map(|(_, winner)| winner.score);
    if proof.cutoff_score != lowest {
        return Err(ProofFault::CutoffScore);
    }
    let holds = |winner: &&Winner| winner.revoked_in_round.is_none();
    Ok(Seats {
        rounds: proof.round,
        total: rules.seats(),
        taken: proof.winners.iter().filter(holds).count(),
        is_short,
        last: in_order.last().map(|(index, _)| winners.standings[*index]),
    })
}

/// Every round and seat that is named exists.
fn check_numbers(proof: &Proof, rules: &Rules) -> Result<(), ProofFault> {
    let later_rounds = proof.round.checked_sub(1);
    if later_rounds.map(u64::from) != Some(proof.redraws.len() as u64) {
        return Err(ProofFault::Rounds {
            round: proof.round,
            redraws: proof.redraws.len(),
        });
    }
    for (index, (redraw, round)) in proof.redraws.iter().zip(2..).enumerate() {
        if redraw.round != round {
            return Err(ProofFault::RedrawRound { index });
        }
    }
    for (index, winner) in proof.winners.iter().enumerate() {
        let Winner { seat, round, .. } = *winner;
        let seats = rules.seats();
        if seat == 0 || u64::from(seat) > seats {
            return Err(ProofFault::UnknownSeat { index, seat, seats });
        }
        if round == 0 || round > proof.round {
            return Err(ProofFault::UnknownRound { index, round });
        }
        if let Some(revoked) = winner.revoked_in_round
            && (revoked <= round || revoked > proof.round)
        {
            let round = revoked;
            return Err(ProofFault::UnknownRevocation { index, round });
        }
    }
    Ok(())
}

fn check_uniqueness(proof: &Proof, in_order: &[Numbered<'_>]) -> Result<(), ProofFault> {
    for pair in in_order.windows(2) {
        if let [(_, before), (index, winner)] = pair
            && (before.round, before.seat) == (winner.round, winner.seat)
        {
            return Err(ProofFault::SeatTwice { index: *index });
        }
    }
    let mut users = HashSet::new();
    let repeated = proof
        .winners
        .iter()
        .position(|winner| !users.insert(winner.user_id));
    match repeated {
        Some(index) => Err(ProofFault::UserTwice { index }),
        None => Ok(()),
    }
}

/// The winners of one round, out of all of them by round and seat.
fn of_round<'a, 'b>(in_order: &'b [Numbered<'a>], round: u32) -> &'b [Numbered<'a>] {
    let start = in_order.partition_point(|(_, winner)| winner.round < round);
    let end = in_order.partition_point(|(_, winner)| winner.round <= round);
    in_order.get(start..end).unwrap_or_default()
}

/// Who lost a win in which round, in the order of the document.
fn revocations(proof: &Proof) -> HashMap<u32, Vec<Numbered<'_>>> {
    let mut revocations: HashMap<u32, Vec<Numbered<'_>>> = HashMap::new();
    for (index, winner) in proof.winners.iter().enumerate() {
        if let Some(round) = winner.revoked_in_round {
            revocations.entry(round).or_default().push((index, winner));
        }
    }
    revocations
}

/// The winners of a round sit on the first of its free seats, in their order.
fn check_seats(
    winners: &[Numbered<'_>],
    free: impl Iterator<Item = u32>,
) -> Result<(), ProofFault> {
    let mut free = free;
    for (index, winner) in winners {
        if free.next() != Some(winner.seat) {
            return Err(ProofFault::SeatSkipped { index: *index });
        }
    }
    Ok(())
}

/// The seats that a redraw freed, in ascending order, from those who lost them in it.
fn revoked_seats(
    lost: &[Numbered<'_>],
    index: usize,
    redraw: &Redraw,
) -> Result<Vec<u32>, ProofFault> {
    let listed: BTreeSet<u32> = redraw.seats.iter().copied().collect();
    let mut seats = Vec::new();
    for (index, winner) in lost {
        if !listed.contains(&winner.seat) {
            return Err(ProofFault::UnlistedRevocation { index: *index });
        }
        seats.push(winner.seat);
    }
    seats.sort_unstable();
    if seats != redraw.seats {
        return Err(ProofFault::RedrawSeats { index });
    }
    if seats.is_empty() {
        return Err(ProofFault::NobodyRevoked { index });
    }
    Ok(seats)
}

/// Whoever won later, or sits behind, has a lower place.
fn check_ranks(ranked: &[(usize, Standing)]) -> Result<(), ProofFault> {
    for pair in ranked.windows(2) {
        if let [(_, before), (index, standing)] = pair
            && before.rank(standing) != Ordering::Less
        {
            return Err(ProofFault::ScoreOrder { index: *index });
        }
    }
    Ok(())
}

fn check_prizes(proof: &Proof, rules: &Rules) -> Result<(), ProofFault> {
    for (index, winner) in proof.winners.iter().enumerate() {
        let Some(prize) = rules.prize_of(winner.seat) else {
            let (seat, seats) = (winner.seat, rules.seats());
            return Err(ProofFault::UnknownSeat { index, seat, seats });
        };
        if winner.prize_rank != prize.rank {
            let expected = prize.rank;
            return Err(ProofFault::PrizeRank { index, expected });
        }
        if winner.prize_id != prize.id {
            let expected = prize.id.0;
            return Err(ProofFault::PrizeId { index, expected });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        activity::Seed,
        draw::proof::document::{Hex32, Id, Opening, PROOF_FORMAT, Score},
        kernel::UserId,
    };

    const ROUNDS: u32 = 100_000;

    /// One seat that everybody has had, each for a round, under rules with as many prizes.
    fn forged() -> (Proof, Rules, Winners) {
        let seed = Seed::new([9; 32]);
        let mut standings: Vec<Standing> = (1..=u64::from(ROUNDS))
            .map(|user| Standing::of(&seed, UserId(user)))
            .collect();
        standings.sort_by(Standing::rank);
        let winner = |(round, standing): (u32, &Standing)| Winner {
            seat: 1,
            round,
            user_id: Id(standing.user_id.0),
            score: Score(standing.score.value()),
            prize_rank: ROUNDS + 1,
            prize_id: Id(1),
            revoked_in_round: (round < ROUNDS).then_some(round + 1),
            entry: Opening {
                index: 0,
                salt: Hex32([0; 32]),
                path: Vec::new(),
            },
        };
        // All but the last are for nobody.
        let prizes: Vec<_> = (1..=ROUNDS + 1)
            .map(|rank| json!({ "rank": rank, "prizeId": "1", "quantity": rank / (ROUNDS + 1) }))
            .collect();
        let rules = json!({ "activityId": "7", "scoreRuleVersion": 1, "prizes": prizes });
        let rules = rules.to_string();
        let proof = Proof {
            format: PROOF_FORMAT.to_owned(),
            activity_id: Id(7),
            commitment: Hex32([0; 32]),
            seed: Hex32([9; 32]),
            rules: rules.clone(),
            rules_hash: Hex32([0; 32]),
            score_rule_version: 1,
            entries_count: 1,
            entries_tree: Hex32([0; 32]),
            entries_root: Hex32([0; 32]),
            round: ROUNDS,
            cutoff_score: standings.first().map(|first| Score(first.score.value())),
            winners: (1..).zip(&standings).map(winner).collect(),
            redraws: (2..=ROUNDS)
                .map(|round| Redraw {
                    round,
                    seats: vec![1],
                })
                .collect(),
        };
        let rules = Rules::parse(&rules).expect("rules");
        (proof, rules, Winners { standings })
    }

    #[test]
    fn a_huge_file_is_checked_in_no_more_steps_than_it_has_lines() {
        let (proof, rules, winners) = forged();

        let seats = check(&proof, &rules, &winners).expect("it holds");

        assert_eq!((seats.rounds, seats.taken), (ROUNDS, 1));
    }
}
