//! The tests can fail: each of these selections is a little unfair, and they say so.

use luckybag::{activity::ShardBy, candidate::Standing, kernel::UserId};

use super::{
    crowd::SIZE,
    draws::{ALL, CROWD, DRAWS, Draw, SEATS, Wins, draw_all},
    fit::{Misfit, float, kolmogorov_smirnov},
};

/// Selects by a number that is made of each standing, and where these are equal by the text of the
/// user id, as Redis does from behind: the greater one first.
fn draw_by(number: impl Fn(usize, &Standing) -> f64) -> Wins {
    draw_all(|draw: &Draw| {
        let numbers: Vec<f64> = (0..)
            .zip(&draw.standings)
            .map(|(place, standing)| number(place, standing))
            .collect();
        let better = |a: &usize, b: &usize| {
            let texts = &CROWD.text_ranks;
            numbers[*b]
                .total_cmp(&numbers[*a])
                .then_with(|| texts[*b].cmp(&texts[*a]))
        };
        let mut ranked: Vec<usize> = (0..SIZE).collect();
        ranked.select_nth_unstable_by(SEATS - 1, better);
        ranked.truncate(SEATS);
        ranked.sort_by(better);
        ranked
    })
}

fn assert_uneven(wins: &Wins, test: &str) {
    let misfits = wins.misfits();
    let found = misfits.iter().find(|(name, _)| name == test);
    assert!(
        matches!(found, Some((_, Misfit::Uneven(..)))),
        "{test} does not say so: {misfits:?}"
    );
}

#[test]
fn the_same_selection_in_other_words_is_fair() {
    let wins = draw_by(|_, standing| standing.score.value());

    assert_eq!(wins.misfits(), []);
}

/// Six digits at 700,000 entrants: 0.7 of them to a score. The crowd is smaller, so its scores are
/// cut more.
#[test]
fn scores_cut_to_few_digits_with_ties_by_member_text_are_noticed() {
    let entrants_per_score = 700_000.0 / 1e6;
    let scores = float(SIZE as u64) / entrants_per_score;

    let wins = draw_by(|_, standing| (standing.score.value() * scores).floor());

    assert_uneven(&wins, "the first seat over deciles of ids as text");
}

#[test]
fn a_shard_with_a_fifth_more_chance_is_noticed() {
    for (by, test) in [
        (ShardBy::LowBits, "all seats over shards by low bits"),
        (ShardBy::Mixed, "all seats over shards, mixed"),
    ] {
        let wins = draw_by(|_, standing| {
            let score = standing.score.value();
            match by.shard_of(standing.user_id).index() {
                5 => score.powf(1.0 / 1.2),
                _ => score,
            }
        });

        assert_uneven(&wins, test);
    }
}

#[test]
fn a_tenth_more_chance_for_early_joins_is_noticed() {
    let wins = draw_by(|place, standing| {
        let score = standing.score.value();
        if place < SIZE / 2 {
            score.powf(1.0 / 1.1)
        } else {
            score
        }
    });

    assert_uneven(&wins, "all seats over deciles of the order of joining");
}

#[test]
fn a_tenth_more_chance_for_old_accounts_is_noticed() {
    let mut sorted = CROWD.users.clone();
    sorted.sort_unstable();
    let middle = UserId(sorted[SIZE / 2]);
    let wins = draw_by(|_, standing| {
        let score = standing.score.value();
        if standing.user_id < middle {
            score.powf(1.0 / 1.1)
        } else {
            score
        }
    });

    assert_uneven(&wins, "all seats over deciles of ids");
}

#[test]
fn taking_turns_is_no_chance_either() {
    let mut next = 0;
    let wins = draw_all(|_| {
        let turn = (next..next + SEATS).map(|place| place % SIZE).collect();
        next += SEATS;
        turn
    });

    let misfits = wins.misfits();
    let too_even = |test: &str| {
        let found = misfits.iter().find(|(name, _)| name == test);
        matches!(found, Some((_, Misfit::TooEven(..))))
    };
    assert!(too_even("all seats over users"), "{misfits:?}");
    assert!(too_even("all seats over deciles of ids"), "{misfits:?}");
    assert_eq!(DRAWS * SEATS % SIZE, 0, "everybody had as many turns");
}

#[test]
fn scores_that_are_bent_by_a_hundredth_are_noticed() {
    let all = ALL.iter().flat_map(|draw| &draw.standings);
    let bent = all.map(|standing| standing.score.value().powf(1.01));

    let outcome = kolmogorov_smirnov(bent.collect());

    assert!(matches!(outcome, Err(Misfit::Uneven(..))), "{outcome:?}");
}
