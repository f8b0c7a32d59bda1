//! Random histories of users, told to the service and to a reference model: both must come to the
//! same end, whatever the order in which the service hears of things.

mod features;
mod model;
mod permutations;
mod plan;
mod stream;
mod verdict;
mod wave;

use rand::{SeedableRng, rngs::StdRng};

use self::{
    features::KINDS,
    plan::{Planner, When, population},
    verdict::Seen,
    wave::Stage,
};
use crate::harness::{Amqp, Process, World};

/// What every test must have seen beside the kinds of histories.
const OUTCOMES: [&str; 20] = [
    "ignore: joined eligible",
    "ignore: joined tasksUnfinished",
    "pause: joined eligible",
    "pause: joined absent",
    "pause: joined tasksUnfinished",
    "pause: joined absentAndTasksUnfinished",
    "forfeit: joined eligible",
    "forfeit: joined forfeited",
    "forfeit: joined tasksUnfinished",
    "pause: rejected blocked",
    "pause: rejected cooldown",
    "pause: rejected duplicateDevice",
    "pause: rejected invalid",
    "pause: late closed",
    "forfeit: late closed",
    "joins through the API",
    "denied after the join",
    "trimmed",
    "a trimmed winner",
    "a device that two partitions contest",
];

/// What all that is seen is counted beside.
const HISTORY: &str = "a user's history";

#[expect(clippy::print_stdout, reason = "for who runs the test")]
fn assert_seen_everything(seen: &Seen) {
    println!("{seen:#?}");
    let count = |what: &str| seen.get(what).copied().unwrap_or(0);
    for what in KINDS.iter().chain(&OUTCOMES) {
        assert!(count(what) >= 3, "only {} times: {what}", count(what));
    }
    assert!(count(HISTORY) >= 1_000, "{} histories", count(HISTORY));
}

fn add(seen: &mut Seen, more: Seen) {
    for (what, count) in more {
        *seen.entry(what).or_default() += count;
    }
}

#[expect(clippy::print_stdout, reason = "for who repeats the test")]
fn seeded(seed: u64) -> StdRng {
    println!("histories from seed {seed}");
    StdRng::seed_from_u64(seed)
}

async fn end(world: World, amqp: Amqp, process: Process) {
    process.stop().await;
    world.assert_drained(&amqp).await;
    amqp.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_hundreds_of_bags_end_as_the_model_says_wave_after_wave() {
    const SEED: u64 = 20_260_101;
    let mut rng = seeded(SEED);
    let world = World::new().await;
    let amqp = world.amqp().await;
    let process = world
        .serve_with(&[("JOIN__TRUST_COMPLETED_TASKS", "true")])
        .await;
    let api = world.api(&process).await;
    let stage = Stage {
        world: &world,
        amqp: &amqp,
        api: &api,
        trusts_the_app: true,
    };
    // Few enough for the winners of the first wave to be there in the second one.
    let population = population(800);
    let mut seen = Seen::new();
    for _ in 0..2 {
        let planner = &mut Planner {
            rng: &mut rng,
            population: &population,
        };
        let wave = stage.open(planner, 120).await;
        tokio::join!(
            stage.fill(&wave),
            stage.join(&wave.plans, &wave.bags, When::Meanwhile)
        );
        stage.assert_before_draw(&wave).await;
        stage.drawn(&wave).await;
        add(&mut seen, stage.compare(&wave).await);
        stage.ask_around(&wave).await;
    }
    assert_seen_everything(&seen);
    end(world, amqp, process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_from_before_the_draw_ends_as_the_model_says() {
    const SEED: u64 = 20_260_102;
    let mut rng = seeded(SEED);
    let world = World::new().await;
    let amqp = world.amqp().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let stage = |api| Stage {
        world: &world,
        amqp: &amqp,
        api,
        trusts_the_app: false,
    };
    let population = population(2_500);
    let planner = &mut Planner {
        rng: &mut rng,
        population: &population,
    };
    let wave = stage(&api).open(planner, 160).await;
    stage(&api)
        .join(&wave.plans, &wave.bags, When::Meanwhile)
        .await;
    // Nobody listens while all of it happens, and then the draw is due at once.
    process.stop().await;
    stage(&api).fill(&wave).await;
    world.until(wave.draw_at).await;

    let process = world.serve().await;
    let api = world.api(&process).await;
    stage(&api).drawn(&wave).await;

    let seen = stage(&api).compare(&wave).await;
    stage(&api).ask_around(&wave).await;
    assert_seen_everything(&seen);
    end(world, amqp, process).await;
}
