//! What a redraw does: the pure part, and the answer that every repeat gets.

use std::collections::{BTreeMap, HashSet};

use crate::{
    activity::ActivityPrize,
    candidate::Standing,
    kernel::{self, ActivityId, PrizeId, Timestamp, UserId, WinRecordId},
    winners::{WinRecord, WinStatus},
};

/// One round: whose win was taken back, who took the seats, which stayed empty.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Redraw {
    pub(super) activity_id: ActivityId,
    pub(super) round: u32,
    /// By seat, like all of these.
    pub(super) revoked: Vec<WinRecord>,
    pub(super) replaced: Vec<WinRecord>,
    pub(super) empty_seats: Vec<u32>,
}

/// A round that is over, and the prizes of its activity: all that an answer tells.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Redrawn {
    pub(super) redraw: Redraw,
    pub(super) prizes: Vec<ActivityPrize>,
}

impl Redraw {
    /// A new round: `picked`, best first, take the seats of the wins to be revoked, by seat.
    pub(super) fn new(
        (activity_id, round): (ActivityId, u32),
        to_revoke: Vec<WinRecord>,
        picked: &[Standing],
        (now, first_low_bits): (Timestamp, u32),
    ) -> Self {
        let low_bits = (0..).map(|offset: u32| first_low_bits.wrapping_add(offset));
        let replaced: Vec<WinRecord> = to_revoke
            .iter()
            .zip(picked)
            .zip(low_bits)
            .map(|((win, standing), low_bits)| WinRecord {
                id: WinRecordId(kernel::time_ordered_id(now, low_bits)),
                user_id: standing.user_id,
                round,
                score: standing.score.value(),
                status: WinStatus::Won,
                drawn_at: now,
                revoked_round: None,
                ..win.clone()
            })
            .collect();
        let empty = to_revoke.iter().skip(replaced.len());
        let empty_seats = empty.map(|win| win.seat).collect();
        let revoke = |win| WinRecord {
            status: WinStatus::Revoked,
            revoked_round: Some(round),
            ..win
        };
        Self {
            activity_id,
            round,
            revoked: to_revoke.into_iter().map(revoke).collect(),
            replaced,
            empty_seats,
        }
    }

    /// A round that is over, from all wins of the activity by seat and round.
    pub(super) fn of_round(activity_id: ActivityId, round: u32, wins: &[WinRecord]) -> Self {
        let of_round = wins.iter().filter(|win| win.round == round);
        // Whoever took a seat may have lost it again since; this is about how it was taken.
        let replaced: Vec<WinRecord> = of_round
            .map(|win| WinRecord {
                status: WinStatus::Won,
                revoked_round: None,
                ..win.clone()
            })
            .collect();
        let taken: HashSet<u32> = replaced.iter().map(|win| win.seat).collect();
        let revoked = wins.iter().filter(|win| win.revoked_round == Some(round));
        let revoked: Vec<WinRecord> = revoked.cloned().collect();
        let seats = revoked.iter().map(|win| win.seat);
        Self {
            activity_id,
            round,
            empty_seats: seats.filter(|seat| !taken.contains(seat)).collect(),
            revoked,
            replaced,
        }
    }

    /// How many pieces of which prize nobody holds any more.
    pub(super) fn freed_pieces(&self) -> BTreeMap<PrizeId, u32> {
        let mut pieces = BTreeMap::new();
        let is_empty = |win: &&WinRecord| self.empty_seats.contains(&win.seat);
        for win in self.revoked.iter().filter(is_empty) {
            *pieces.entry(win.prize_id).or_default() += 1;
        }
        pieces
    }
}

/// The eligible who had never won when the scan began, best first. The rows are frozen, so what it
/// says stays true; only the head of it may win meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct Reserve {
    pub(super) ranked: Vec<Standing>,
    /// There is nobody behind them.
    pub(super) is_complete: bool,
}

impl Reserve {
    /// The best `count` who still have never won; `None` when this reserve is too short to tell.
    pub(super) fn best(&self, count: usize, ever_won: &HashSet<UserId>) -> Option<Vec<Standing>> {
        let fresh = self.ranked.iter();
        let fresh = fresh.filter(|standing| !ever_won.contains(&standing.user_id));
        let best: Vec<Standing> = fresh.take(count).copied().collect();
        (best.len() == count || self.is_complete).then_some(best)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::activity::Seed;

    pub(in crate::draw::redraw) fn win(id: u64, seat: u32, round: u32) -> WinRecord {
        WinRecord {
            id: WinRecordId(id),
            activity_id: ActivityId(7),
            user_id: UserId(id),
            seat,
            round,
            prize_id: PrizeId(u64::from(seat % 2)),
            prize_rank: 1 + seat % 2,
            score: 0.5,
            status: WinStatus::Won,
            drawn_at: Timestamp::UNIX_EPOCH,
            revoked_round: None,
        }
    }

    fn ranked(users: impl Iterator<Item = u64>) -> Vec<Standing> {
        let seed = Seed::new([7; 32]);
        let mut standings: Vec<_> = users
            .map(|user| Standing::of(&seed, UserId(user)))
            .collect();
        standings.sort_by(Standing::rank);
        standings
    }

    fn redraw(seats: std::ops::RangeInclusive<u32>, picked: &[Standing]) -> Redraw {
        let to_revoke = seats.map(|seat| win(seat.into(), seat, 1)).collect();
        let at = (Timestamp::UNIX_EPOCH, 5);
        Redraw::new((ActivityId(7), 2), to_revoke, picked, at)
    }

    #[test]
    fn the_best_take_the_seats_and_their_prizes_in_ascending_order() {
        let picked = ranked(100..102);

        let redraw = redraw(1..=3, &picked);

        let taken: Vec<_> = redraw
            .replaced
            .iter()
            .map(|win| (win.seat, win.user_id, win.prize_rank, win.round, win.status))
            .collect();
        assert_eq!(
            taken,
            [
                (1, picked[0].user_id, 2, 2, WinStatus::Won),
                (2, picked[1].user_id, 1, 2, WinStatus::Won),
            ]
        );
        assert_eq!(redraw.empty_seats, [3]);
        assert_eq!(redraw.freed_pieces(), BTreeMap::from([(PrizeId(1), 1)]));
        let revoked = redraw.revoked.iter();
        assert!(revoked.clone().all(|win| win.revoked_round == Some(2)));
        assert_eq!(revoked.map(|win| win.seat).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_round_reads_the_same_from_the_records_later() {
        for count in 0..4 {
            let redraw = redraw(2..=4, &ranked(100..100 + count));
            let mut wins = vec![win(1, 1, 1)];
            wins.extend(redraw.revoked.iter().cloned());
            wins.extend(redraw.replaced.iter().map(|win| WinRecord {
                status: WinStatus::Revoked,
                revoked_round: Some(3),
                ..win.clone()
            }));
            wins.push(win(99, 4, 3));
            wins.sort_by_key(|win| (win.seat, win.round));

            assert_eq!(Redraw::of_round(ActivityId(7), 2, &wins), redraw);
        }
    }

    proptest! {
        #[test]
        fn a_reserve_gives_what_a_new_scan_would_or_nothing(
            entrants in 0..60_u64,
            reserved in 0..60_usize,
            won_before in 0..10_usize,
            won_meanwhile in 0..30_usize,
            count in 1..20_usize,
        ) {
            let all = ranked(1..=entrants);
            let users = |standings: &[Standing]| -> HashSet<UserId> {
                standings.iter().map(|standing| standing.user_id).collect()
            };
            let fresh: Vec<Standing> = all.iter().skip(won_before).copied().collect();
            let reserve = Reserve {
                ranked: fresh.iter().take(reserved).copied().collect(),
                is_complete: fresh.len() < reserved,
            };
            let now_won = (won_before + won_meanwhile).min(all.len());

            let best = reserve.best(count, &users(&all[..now_won]));

            let scanned: Vec<Standing> =
                all[now_won..].iter().take(count).copied().collect();
            if let Some(best) = best {
                prop_assert_eq!(best, scanned);
            } else {
                prop_assert!(!reserve.is_complete && won_meanwhile + count > reserved);
            }
        }
    }
}
