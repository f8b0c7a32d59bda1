//! Who takes part in the draws, and the groups of them of which none may be favoured.

use luckybag::{activity::ShardBy, infra::redis::Shard, kernel::UserId};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::fit::Cell;

/// How many take part.
pub(super) const SIZE: usize = 400;
const DECILES: usize = 10;

/// User ids of the three kinds that platforms make, in the order in which they joined.
pub(super) struct Crowd {
    pub(super) users: Vec<u64>,
    /// Of each of them, how many come before it as texts.
    pub(super) text_ranks: Vec<usize>,
}

/// Cells, and the cell of each user in the order of the crowd.
pub(super) struct Grouping {
    pub(super) name: &'static str,
    cells: usize,
    cell_of: Vec<usize>,
}

impl Crowd {
    pub(super) fn new() -> Self {
        let mut rng = StdRng::seed_from_u64(0x0dd5);
        // Accounts numbered one by one; ids by time, of which the low bits never vary; random ones.
        let numbered = (0..).map(|number| 20_000_001 + number);
        let by_time = (0..).map(|number: u64| (77_000_000_000 + number * 911) << 22);
        let random = std::iter::repeat_with(|| rng.random_range(1_u64 << 40..1 << 62));
        let mut users: Vec<u64> = numbered.take(150).collect();
        users.extend(by_time.take(150));
        users.extend(random.take(100));
        users.shuffle(&mut StdRng::seed_from_u64(0x0dd6));
        assert_eq!(users.len(), SIZE);
        let text_ranks = users.iter().map(|user| {
            let text = user.to_string();
            users
                .iter()
                .filter(|other| other.to_string() < text)
                .count()
        });
        Self {
            text_ranks: text_ranks.collect(),
            users,
        }
    }

    /// Everything by which a selection could favour somebody.
    pub(super) fn groupings(&self) -> Vec<Grouping> {
        let shard = |by: ShardBy| move |user: &u64| usize::from(by.shard_of(UserId(*user)).index());
        let kind = |user: &u64| match user {
            ..30_000_000 => 0,
            _ if user.trailing_zeros() >= 22 => 1,
            _ => 2,
        };
        let shards = usize::from(Shard::COUNT);
        vec![
            self.by_cell("shards by low bits", shards, shard(ShardBy::LowBits)),
            self.by_cell("shards, mixed", shards, shard(ShardBy::Mixed)),
            self.by_cell("kinds of ids", 3, kind),
            self.by_decile("deciles of ids", |user| user),
            self.by_decile("deciles of ids as text", |user| user.to_string()),
            self.by_decile("deciles of the order of joining", |user| {
                self.place_of(user)
            }),
            self.by_cell("users", SIZE, |user| self.place_of(*user)),
        ]
    }

    /// When somebody joined: 0 for the first.
    pub(super) fn place_of(&self, user: u64) -> usize {
        let is_it = |known: &u64| *known == user;
        self.users.iter().position(is_it).expect("one of the crowd")
    }

    fn by_cell(&self, name: &'static str, cells: usize, of: impl Fn(&u64) -> usize) -> Grouping {
        Grouping {
            name,
            cells,
            cell_of: self.users.iter().map(of).collect(),
        }
    }

    fn by_decile<K: Ord>(&self, name: &'static str, key: impl Fn(u64) -> K) -> Grouping {
        let mut sorted = self.users.clone();
        sorted.sort_by_key(|user| key(*user));
        let place = |user: &u64| sorted.iter().position(|known| known == user);
        self.by_cell(name, DECILES, |user| {
            place(user).expect("the same users") * DECILES / SIZE
        })
    }
}

impl Grouping {
    /// The cells with what the users in them won, given in the order of the crowd.
    pub(super) fn cells(&self, wins: &[u64]) -> Vec<Cell> {
        let nothing = Cell {
            entrants: 0,
            wins: 0,
        };
        let mut cells = vec![nothing; self.cells];
        for (cell, wins) in self.cell_of.iter().zip(wins) {
            cells[*cell].entrants += 1;
            cells[*cell].wins += wins;
        }
        cells
    }
}
