//! The rule itself: scores, and the winners that they make.

use std::collections::HashMap;

use super::{
    crowd::SIZE,
    draws::{ALL, CROWD, SEATS, draw_all},
    fit::kolmogorov_smirnov,
};

#[test]
fn nobody_is_favoured_by_shard_id_or_time_of_joining() {
    let places: HashMap<u64, usize> = CROWD.users.iter().copied().zip(0..).collect();

    let wins = draw_all(|draw| {
        let winners = draw.winners(SIZE, SEATS);
        winners.iter().map(|best| places[&best.user_id.0]).collect()
    });

    assert_eq!(wins.misfits(), []);
}

#[test]
fn scores_are_uniform() {
    let all = ALL.iter().flat_map(|draw| &draw.standings);
    let scores: Vec<f64> = all.map(|standing| standing.score.value()).collect();
    assert!(scores.iter().all(|score| (0.0..1.0).contains(score)));

    assert_eq!(kolmogorov_smirnov(scores), Ok(()));
}

/// A user's scores over all draws, as those of one draw, have no pattern of their own.
#[test]
fn the_scores_of_one_user_are_uniform_and_so_are_those_of_one_draw() {
    let of_user = |place: usize| {
        ALL.iter()
            .map(move |draw| draw.standings[place].score.value())
    };
    // One limit is passed by chance in a thousand cases: in none of ten, and of ten.
    for place in (0..SIZE).step_by(SIZE / 10) {
        let outcome = kolmogorov_smirnov(of_user(place).collect());
        assert_eq!(outcome, Ok(()), "user {}", CROWD.users[place]);
    }
    for (number, draw) in ALL.iter().enumerate().step_by(ALL.len() / 10) {
        let scores = draw.standings.iter().map(|best| best.score.value());
        let outcome = kolmogorov_smirnov(scores.collect());
        assert_eq!(outcome, Ok(()), "draw {number}");
    }
}
