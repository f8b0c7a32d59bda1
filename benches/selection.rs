//! How fast the pure rules are: `cargo bench --bench selection`.
//!
//! The exact draw computes one standing for each eligible participant and keeps the best N, so a
//! million of them is what the largest rooms cost.

use divan::{Bencher, black_box, counter::ItemsCount};
use luckybag::{
    activity::Seed,
    candidate::{BestOf, Standing},
    kernel::UserId,
};

fn main() {
    divan::main();
}

const SEED: Seed = Seed::new([7; 32]);

#[divan::bench(args = [100_000, 1_000_000], sample_count = 5)]
fn standings(bencher: Bencher<'_, '_>, users: u64) {
    bencher.counter(ItemsCount::new(users)).bench(|| {
        for user in 1..=users {
            black_box(Standing::of(&SEED, UserId(user)));
        }
    });
}

#[divan::bench(args = [10, 1_000, 10_000], sample_count = 5)]
fn best_of_a_million(bencher: Bencher<'_, '_>, winners: usize) {
    bencher.counter(ItemsCount::new(1_000_000_u64)).bench(|| {
        let mut best = BestOf::new(winners);
        for user in 1..=1_000_000 {
            best.push(Standing::of(&SEED, UserId(user)));
        }
        black_box(best.into_ranked())
    });
}
