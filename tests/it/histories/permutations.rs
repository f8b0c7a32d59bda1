//! Few events of one user, in every order, at equal and at different times: the service's rule and
//! the model say the same, and the order does not matter.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use luckybag::{
    activity::{PresenceRule, Seed},
    candidate::{self, Change, Filters, Rules, UserRows},
    kernel::{Timestamp, UserId},
};
use proptest::{prelude::*, test_runner::RngSeed};

use super::model::{self, Deed, Fate, Game, Join, Leaving, Step};

const USER: u64 = 7;
const DRAW_AT: i64 = 1_000;
const TASKS: [&str; 2] = ["follow", "share"];

fn at(ms: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(ms)
}

fn game(leaving: Leaving) -> Game {
    Game {
        draw_at: DRAW_AT,
        leaving,
        tasks: TASKS.map(str::to_owned).into(),
        one_entry_per_device: false,
        cooldown: 0,
        trusts_the_app: true,
    }
}

fn rules(leaving: Leaving) -> Rules {
    Rules {
        seed: Seed::new([3; 32]),
        draw_at: at(DRAW_AT),
        presence_rule: PresenceRule::parse(leaving.word()).expect("a rule"),
        tasks: TASKS.map(str::to_owned).into(),
        one_entry_per_device: false,
        trim_floor: 0.99,
    }
}

fn join(accepted_at: i64) -> Deed {
    Deed::Join(Join {
        accepted_at,
        device: None,
        finished: vec![],
        flaw: None,
    })
}

fn change_of(deed: &Deed) -> Change {
    match deed {
        Deed::Enter { at: ms } => Change::Entered { at: at(*ms) },
        Deed::Leave { at: ms } => Change::Left { at: at(*ms) },
        Deed::Task { name, at: ms } => Change::TaskCompleted {
            task_id: name.clone(),
            at: at(*ms),
        },
        Deed::Join(join) => Change::Join(candidate::Join {
            accepted_at: at(join.accepted_at),
            device_id: None,
            completed_tasks: join.finished.clone(),
            request_id: "r".to_owned(),
            filters: Filters {
                is_denied: false,
                is_cooling_down: false,
                device_holder: None,
                is_invalid: false,
                is_trimming: false,
            },
        }),
    }
}

/// What the service's rule makes of the deeds.
fn by_rule(rules: &Rules, deeds: &[&Deed]) -> Option<Fate> {
    let mut rows = UserRows::default();
    for deed in deeds {
        rules.apply(UserId(USER), &mut rows, &change_of(deed));
    }
    let (status, reason) = rows.participation.as_ref()?.verdict.as_words();
    Some(Fate {
        status,
        reason,
        eligibility: rules.eligibility(&rows).map(candidate::Eligibility::as_str),
    })
}

fn by_model(game: &Game, deeds: &[&Deed]) -> Option<Fate> {
    let steps: Vec<Step> = deeds
        .iter()
        .map(|deed| Step::Did(USER, (*deed).clone()))
        .collect();
    model::fates(game, &steps).remove(&USER)
}

/// Every order of the numbers below `len`.
fn orders(len: usize) -> Vec<Vec<usize>> {
    let Some(last) = len.checked_sub(1) else {
        return vec![vec![]];
    };
    let insert_last = |order: Vec<usize>| {
        (0..len).map(move |place| {
            let mut order = order.clone();
            order.insert(place, last);
            order
        })
    };
    orders(last).into_iter().flat_map(insert_last).collect()
}

/// Each event there is, at times around the join at 10 and the draw.
fn events() -> Vec<Deed> {
    let times = [9, 10, 11, DRAW_AT - 1, DRAW_AT, DRAW_AT + 1];
    let kinds = times.map(|at| {
        let [one, other] = TASKS.map(|task| Deed::Task {
            name: task.to_owned(),
            at,
        });
        [Deed::Enter { at }, Deed::Leave { at }, one, other]
    });
    kinds.into_iter().flatten().collect()
}

/// Every three events there are, some of them the same.
fn threes(events: &[Deed]) -> impl Iterator<Item = [&Deed; 3]> {
    let from = |first: usize| events.iter().enumerate().skip(first);
    from(0).flat_map(move |(first, one)| {
        from(first).flat_map(move |(second, two)| {
            let third = events[second..].iter();
            third.map(move |three| [one, two, three])
        })
    })
}

#[test]
fn three_events_and_a_join_give_the_same_in_every_order_under_every_rule() {
    let (events, orders) = (events(), orders(4));
    let mut seen = BTreeSet::new();
    for leaving in Leaving::ALL {
        let (game, rules) = (game(leaving), rules(leaving));
        for join in [10, DRAW_AT - 1, DRAW_AT].map(join) {
            for [one, two, three] in threes(&events) {
                let deeds = [one, two, three, &join];
                let expected = by_model(&game, &deeds);
                for order in &orders {
                    let told: Vec<&Deed> = order.iter().map(|i| deeds[*i]).collect();
                    assert_eq!(by_rule(&rules, &told), expected, "{leaving:?}: {told:?}");
                    assert_eq!(by_model(&game, &told), expected, "the model: {told:?}");
                }
                seen.extend(expected.map(|fate| (leaving, fate)));
            }
        }
    }
    // late; eligible or unfinished; and, unless leaving changes nothing, the ways of being absent.
    assert_eq!(seen.len(), 3 * 3 + 2 + 1, "{seen:?}");
}

#[test]
fn of_two_joins_the_first_that_is_handled_counts_wherever_the_events_come() {
    let (events, orders) = (events(), orders(4));
    for leaving in Leaving::ALL {
        let (game, rules) = (game(leaving), rules(leaving));
        for (first, second) in [(10, 11), (11, 10), (10, DRAW_AT), (DRAW_AT, 10)] {
            let joins = [join(first), join(second)];
            for one in &events {
                for two in &events {
                    let deeds = [&joins[0], &joins[1], one, two];
                    let alone = [
                        by_model(&game, &[&joins[0], one, two]),
                        by_model(&game, &[&joins[1], one, two]),
                    ];
                    for order in &orders {
                        let told: Vec<&Deed> = order.iter().map(|i| deeds[*i]).collect();
                        let winner = order.iter().find(|i| **i < 2).expect("a join");
                        let got = by_rule(&rules, &told);
                        assert_eq!(got, alone[*winner], "{leaving:?}: {told:?}");
                        assert_eq!(got, by_model(&game, &told), "{leaving:?}: {told:?}");
                    }
                }
            }
        }
    }
}

fn any_deed() -> impl Strategy<Value = Deed> {
    // Few milliseconds, so that many fall together.
    let time = prop_oneof![5..15_i64, 990..1_005_i64];
    (0..9_usize, time).prop_map(|(kind, at)| match kind {
        0..=2 => Deed::Leave { at },
        3..=5 => Deed::Enter { at },
        6 | 7 => Deed::Task {
            name: TASKS[kind - 6].to_owned(),
            at,
        },
        _ => join(at),
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        rng_seed: RngSeed::Fixed(3),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Long histories, with repetitions.
    #[test]
    fn the_rule_and_the_model_agree_on_histories_of_any_length(
        deeds in prop::collection::vec(any_deed(), 0..14),
        repeated in prop::collection::vec(0..14_usize, 0..6),
    ) {
        let mut told: Vec<&Deed> = deeds.iter().collect();
        told.extend(repeated.iter().filter_map(|index| deeds.get(*index)));
        for leaving in Leaving::ALL {
            let (game, rules) = (game(leaving), rules(leaving));
            prop_assert_eq!(by_rule(&rules, &told), by_model(&game, &told));
        }
    }
}
