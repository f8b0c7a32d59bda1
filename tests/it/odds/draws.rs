//! Thousands of draws over one crowd, and what was won in them.

use std::sync::LazyLock;

use luckybag::{
    activity::Seed,
    candidate::{BestOf, Standing},
    kernel::UserId,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    crowd::{Crowd, SIZE},
    fit::{self, Misfit},
};

/// How many draws.
pub(super) const DRAWS: usize = 2_000;
/// Seats of each draw.
pub(super) const SEATS: usize = 20;

/// One draw before anybody is selected.
pub(super) struct Draw {
    pub(super) seed: [u8; 32],
    /// Of the whole crowd, in its order.
    pub(super) standings: Vec<Standing>,
}

pub(super) static CROWD: LazyLock<Crowd> = LazyLock::new(Crowd::new);

/// The scores are what takes time, so they are computed once.
pub(super) static ALL: LazyLock<Vec<Draw>> = LazyLock::new(|| {
    let mut rng = StdRng::seed_from_u64(20_261_201);
    let seeds = std::iter::repeat_with(|| rng.random());
    seeds.take(DRAWS).map(Draw::new).collect()
});

impl Draw {
    fn new(seed: [u8; 32]) -> Self {
        let of = |user: &u64| Standing::of(&Seed::new(seed), UserId(*user));
        Self {
            seed,
            standings: CROWD.users.iter().map(of).collect(),
        }
    }

    /// What the rule selects among the first so many of the crowd, best first.
    pub(super) fn winners(&self, entrants: usize, seats: usize) -> Vec<Standing> {
        let mut best = BestOf::new(seats);
        for standing in &self.standings[..entrants] {
            best.push(*standing);
        }
        best.into_ranked()
    }
}

/// What was won, by user in the order of the crowd.
pub(super) struct Wins {
    first_seat: Vec<u64>,
    all_seats: Vec<u64>,
}

/// Draws everything with a selection that answers the places of the winners in the crowd, best
/// first.
pub(super) fn draw_all(mut select: impl FnMut(&Draw) -> Vec<usize>) -> Wins {
    let mut wins = Wins {
        first_seat: vec![0; SIZE],
        all_seats: vec![0; SIZE],
    };
    for draw in ALL.iter() {
        let winners = select(draw);
        assert_eq!(winners.len(), SEATS);
        wins.first_seat[winners[0]] += 1;
        for winner in winners {
            wins.all_seats[winner] += 1;
        }
    }
    wins
}

impl Wins {
    /// What does not look like chance: the name of the grouping, and how.
    pub(super) fn misfits(&self) -> Vec<(String, Misfit)> {
        let (draws, seats) = (DRAWS as u64, SEATS as u64);
        let mut misfits = Vec::new();
        for grouping in CROWD.groupings() {
            let all = grouping.cells(&self.all_seats);
            let first = grouping.cells(&self.first_seat);
            for (of, outcome) in [
                ("all seats", fit::chi_square(&all, draws, seats)),
                ("the first seat", fit::chi_square(&first, draws, 1)),
            ] {
                if let Err(misfit) = outcome {
                    misfits.push((format!("{of} over {}", grouping.name), misfit));
                }
            }
        }
        misfits
    }
}
