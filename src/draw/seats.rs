//! Who gets which seat and which prize: by rank, in the order of scores.

use std::collections::BTreeMap;

use crate::{
    activity::ActivityPrize,
    candidate::Standing,
    kernel::{PrizeId, UserId},
};

/// One seat with its winner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seat {
    /// 1 for the best score.
    pub(super) number: u32,
    pub(super) user_id: UserId,
    pub(super) score: f64,
    pub(super) prize_id: PrizeId,
    pub(super) prize_rank: u32,
}

/// Gives the best prizes to the best scores, each prize as often as there are pieces of it.
///
/// `ranked` is best first; whoever comes after the last piece gets none.
pub(super) fn assign(prizes: &[ActivityPrize], ranked: &[Standing]) -> Vec<Seat> {
    let mut by_rank: Vec<&ActivityPrize> = prizes.iter().collect();
    by_rank.sort_by_key(|prize| prize.rank);
    let pieces = by_rank
        .into_iter()
        .flat_map(|prize| (0..prize.quantity).map(move |_| prize));
    (1..)
        .zip(pieces)
        .zip(ranked)
        .map(|((number, prize), standing)| Seat {
            number,
            user_id: standing.user_id,
            score: standing.score.value(),
            prize_id: prize.prize_id,
            prize_rank: prize.rank,
        })
        .collect()
}

/// What the draw does to each prize's stock: everything reserved is freed, what was won is issued.
pub(super) fn stock_changes(prizes: &[ActivityPrize], seats: &[Seat]) -> Vec<(PrizeId, u32, u32)> {
    let mut changes: BTreeMap<PrizeId, (u32, u32)> = BTreeMap::new();
    for prize in prizes {
        changes.entry(prize.prize_id).or_default().0 += prize.quantity;
    }
    for seat in seats {
        changes.entry(seat.prize_id).or_default().1 += 1;
    }
    changes
        .into_iter()
        .map(|(prize_id, (reserved, issued))| (prize_id, reserved, issued))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{PrizeKind, Seed};

    fn prize(rank: u32, id: u64, quantity: u32) -> ActivityPrize {
        ActivityPrize {
            rank,
            prize_id: PrizeId(id),
            name: format!("prize {id}"),
            kind: PrizeKind::Virtual,
            image: None,
            quantity,
        }
    }

    fn ranked(count: u64) -> Vec<Standing> {
        let seed = Seed::new([7; 32]);
        let mut standings: Vec<_> = (1..=count)
            .map(|user| Standing::of(&seed, UserId(user)))
            .collect();
        standings.sort_by(Standing::rank);
        standings
    }

    #[test]
    fn the_best_scores_get_the_best_prizes() {
        let prizes = [prize(2, 50, 2), prize(1, 90, 1)];
        let ranked = ranked(10);

        let seats = assign(&prizes, &ranked);

        let won: Vec<_> = seats
            .iter()
            .map(|seat| (seat.number, seat.prize_id.0, seat.prize_rank))
            .collect();
        assert_eq!(won, [(1, 90, 1), (2, 50, 2), (3, 50, 2)]);
        let winners: Vec<_> = seats.iter().map(|seat| seat.user_id).collect();
        let best: Vec<_> = ranked.iter().take(3).map(|best| best.user_id).collect();
        assert_eq!(winners, best);
    }

    #[test]
    fn unwon_pieces_go_back_to_the_stock() {
        let prizes = [prize(1, 90, 1), prize(2, 50, 2), prize(3, 90, 4)];

        let seats = assign(&prizes, &ranked(2));

        assert_eq!(
            stock_changes(&prizes, &seats),
            [(PrizeId(50), 2, 1), (PrizeId(90), 5, 1)]
        );
        assert_eq!(
            stock_changes(&prizes, &[]),
            [(PrizeId(50), 2, 0), (PrizeId(90), 5, 0)]
        );
    }
}
