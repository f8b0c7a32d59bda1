//! Every order in which two or three events of one user can be committed and shown: by a consumer
//! that crashes at any step, or that was given up and goes on late; beside a rebuild and the draw.
//!
//! The rows are in memory and follow the service's own rule; the scripts are the service's own, in
//! a real Redis.

mod explore;
mod mysql;
mod redis;

use luckybag::{
    activity::PresenceRule,
    candidate::{Change, Filters, Join, UserRows},
};

use self::{
    explore::{Actor, Exploration, Op, SLOTS, Scenario},
    mysql::{Committed, TASK, USER, at, rules},
    redis::{Scripts, Shown},
};
use crate::harness::World;

const RULES: [PresenceRule; 3] = [
    PresenceRule::Ignore,
    PresenceRule::Pause,
    PresenceRule::Forfeit,
];

/// The slot of a rebuild; consumers use those before it.
const REBUILD: usize = SLOTS - 1;

fn change(kind: usize, ms: i64) -> Change {
    let at = at(ms);
    match kind {
        0 => Change::Join(Join {
            accepted_at: at,
            device_id: None,
            completed_tasks: vec![],
            request_id: "r".to_owned(),
            filters: Filters {
                is_denied: false,
                is_cooling_down: false,
                device_holder: None,
                is_invalid: false,
                is_trimming: false,
            },
        }),
        1 => Change::Entered { at },
        2 => Change::Left { at },
        _ => Change::TaskCompleted {
            task_id: TASK.to_owned(),
            at,
        },
    }
}

/// Events at one time, each later than the one before it, each earlier.
const PACES: [i64; 3] = [0, 1, -1];

/// All sequences of so many events with a join among them.
fn sequences(len: u32, paces: &[i64]) -> Vec<Vec<Change>> {
    let mut sequences = Vec::new();
    for number in 0..4_usize.pow(len) {
        let kinds: Vec<usize> = (0..len)
            .map(|place| number / 4_usize.pow(place) % 4)
            .collect();
        if !kinds.contains(&0) {
            continue;
        }
        for pace in paces {
            let timed = kinds.iter().zip(0_i64..);
            let changes = timed.map(|(kind, place)| change(*kind, 500 + pace * place));
            sequences.push(changes.collect());
        }
    }
    sequences
}

/// All sequences of two and of three events.
fn short_sequences() -> Vec<Vec<Change>> {
    [sequences(2, &PACES), sequences(3, &PACES)].concat()
}

/// Every way to cut events into batches, in their order.
fn batches(events: &[Change]) -> Vec<Vec<Vec<Change>>> {
    if events.is_empty() {
        return vec![vec![]];
    }
    let first_of = |len: usize| {
        let (first, rest) = events.split_at(len);
        let others = batches(rest).into_iter();
        others.map(move |mut batches| {
            batches.insert(0, first.to_vec());
            batches
        })
    };
    (1..=events.len()).flat_map(first_of).collect()
}

/// The steps of a consumer over one batch; the event and the ack that follow touch nothing here.
fn handle(batch: &[Change], slot: usize) -> Vec<Op> {
    let batch = batch.to_vec();
    vec![
        Op::Commit { batch, slot },
        Op::ShowPool { slot },
        Op::ShowState { slot },
    ]
}

fn handle_all(batches: &[Vec<Change>], first_slot: usize) -> Vec<Op> {
    let slots = first_slot..;
    let handled = batches.iter().zip(slots);
    handled
        .flat_map(|(batch, slot)| handle(batch, slot))
        .collect()
}

fn actor(ops: Vec<Op>) -> Actor {
    Actor {
        ops,
        is_reliable: true,
        begins_after: 0,
    }
}

fn unreliable(ops: Vec<Op>) -> Actor {
    Actor {
        is_reliable: false,
        ..actor(ops)
    }
}

fn rebuild() -> Actor {
    actor(vec![
        Op::Reset,
        Op::Scan { slot: REBUILD },
        Op::ShowPool { slot: REBUILD },
        Op::ShowState { slot: REBUILD },
    ])
}

/// A consumer crashes at some step of a batch, or goes on whenever it likes; whatever it had not
/// acked is delivered again to another one, in other batches.
fn taken_over(events: &[Change], presence_rule: PresenceRule) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for acked in 0..events.len() {
        let (done, unacked) = events.split_at(acked);
        for in_hand in 1..=unacked.len() {
            for again in batches(unacked) {
                scenarios.push(Scenario {
                    rules: rules_for(events, presence_rule),
                    before: handle_all(&one_by_one(done), 0),
                    actors: vec![
                        actor(handle_all(&again, 1)),
                        unreliable(handle(&unacked[..in_hand], 0)),
                    ],
                    is_awaited: true,
                });
            }
        }
    }
    scenarios
}

/// Redis does not answer in time: the consumer acks and goes on, what it sent arrives whenever it
/// does or never, and a rebuild is owed.
fn given_up(events: &[Change], presence_rule: PresenceRule) -> Vec<Scenario> {
    let of_batches = |batches: Vec<Vec<Change>>| {
        let mut ops = handle_all(&batches, 0);
        let sent = ops.drain(1..3).collect();
        let behind_commit = |actor: Actor| Actor {
            begins_after: 1,
            ..actor
        };
        Scenario {
            rules: rules_for(events, presence_rule),
            before: vec![],
            actors: vec![
                actor(ops),
                behind_commit(unreliable(sent)),
                behind_commit(rebuild()),
            ],
            is_awaited: true,
        }
    };
    batches(events).into_iter().map(of_batches).collect()
}

fn with(scenarios: Vec<Scenario>, other: &Actor) -> Vec<Scenario> {
    let with_other = |mut scenario: Scenario| {
        scenario.actors.push(other.clone());
        scenario
    };
    scenarios.into_iter().map(with_other).collect()
}

fn one_by_one(events: &[Change]) -> Vec<Vec<Change>> {
    events.iter().map(|event| vec![event.clone()]).collect()
}

/// An activity asks for a task where one is finished.
fn rules_for(events: &[Change], presence_rule: PresenceRule) -> luckybag::candidate::Rules {
    let is_task = |event: &Change| matches!(event, Change::TaskCompleted { .. });
    let tasks: &[&str] = if events.iter().any(is_task) {
        &[TASK]
    } else {
        &[]
    };
    rules(presence_rule, tasks)
}

/// What the rows have to say in the end: each event once, in the order of the stream.
fn in_order(scenario: &Scenario, events: &[Change]) -> UserRows {
    let mut rows = UserRows::default();
    for event in events {
        scenario.rules.apply(USER, &mut rows, event);
    }
    rows
}

/// Revisions count transactions, which differ.
fn without_revision(rows: &UserRows) -> UserRows {
    let mut rows = rows.clone();
    if let Some(participation) = &mut rows.participation {
        participation.revision = 0;
    }
    rows
}

/// The draw shuts the stream out once everything that was in it has been handled.
fn drained(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let behind_all = |mut scenario: Scenario| {
        scenario.actors.push(Actor {
            begins_after: scenario.actors[0].ops.len(),
            ..actor(vec![Op::Freeze])
        });
        scenario
    };
    scenarios.into_iter().map(behind_all).collect()
}

/// The draw has waited long enough and shuts the stream out at any moment. Redis may stay behind
/// then, which the draw notices by the sum; it is never wrong where it is level.
fn cut_off(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let with_freeze = with(scenarios, &actor(vec![Op::Freeze]));
    let unawaited = |scenario| Scenario {
        is_awaited: false,
        ..scenario
    };
    with_freeze.into_iter().map(unawaited).collect()
}

async fn explore(scenarios: &[Scenario], events: &[Change], scripts: &mut Scripts<'_>) -> usize {
    let mut moments = 0;
    for scenario in scenarios {
        let expected = without_revision(&in_order(scenario, events));
        let check_end = |end: &Committed, shown: &Shown| {
            assert_eq!(without_revision(&end.rows), expected, "{scenario:#?}");
            // What was given up after its commit may never be noted as done.
            let is_noted = shown.is_done || scenario.actors[1].begins_after > 0;
            assert!(is_noted, "{scenario:#?}");
        };
        moments += Exploration::of(scenario, scripts).run(check_end).await;
    }
    moments
}

#[expect(clippy::print_stdout, reason = "for who runs the test")]
fn tell(moments: usize, scripts: &Scripts<'_>) {
    let calls = scripts.call_count();
    println!("{moments} moments, {calls} different calls of Redis");
    assert!(moments > 10_000 && calls > 100, "{moments}, {calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_crashes_or_lags_at_any_step_leaves_the_pool_as_the_rows_say() {
    let world = World::new().await;
    let mut scripts = Scripts::of(&world);
    let mut moments = 0;
    for events in short_sequences() {
        for rule in RULES {
            let scenarios = taken_over(&events, rule);
            moments += explore(&scenarios, &events, &mut scripts).await;
        }
    }
    tell(moments, &scripts);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_draw_at_any_moment_finds_a_pool_that_is_as_the_rows_say_or_visibly_behind() {
    let world = World::new().await;
    let mut scripts = Scripts::of(&world);
    let mut moments = 0;
    for events in short_sequences() {
        for rule in RULES {
            let alone = taken_over(&events, rule);
            let scenarios = [drained(alone.clone()), cut_off(alone)].concat();
            moments += explore(&scenarios, &events, &mut scripts).await;
        }
    }
    tell(moments, &scripts);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_at_any_moment_leaves_the_pool_as_the_rows_say() {
    let world = World::new().await;
    let mut scripts = Scripts::of(&world);
    let mut moments = 0;
    // Where each event is later than the one before it, each changes something.
    let sequences = [sequences(2, &PACES), sequences(3, &[1])].concat();
    for events in sequences {
        let with_rebuild = with(taken_over(&events, PresenceRule::Pause), &rebuild());
        moments += explore(&with_rebuild, &events, &mut scripts).await;
    }
    tell(moments, &scripts);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_late_or_never_in_redis_is_set_right_by_the_rebuild_that_is_owed() {
    let world = World::new().await;
    let mut scripts = Scripts::of(&world);
    let mut moments = 0;
    for events in short_sequences() {
        for rule in RULES {
            let scenarios = given_up(&events, rule);
            moments += explore(&scenarios, &events, &mut scripts).await;
        }
    }
    tell(moments, &scripts);
    world.end().await;
}
