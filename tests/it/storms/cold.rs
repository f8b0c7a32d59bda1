//! A crowd that asks for the result of a draw from two processes that know nothing yet.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Instant,
};

use futures_util::future::join_all;
use sea_orm::{ConnectionTrait, TransactionTrait};

use super::{
    Truth, joined_bag,
    line::{Line, Told},
    reads, users_of,
};
use crate::harness::{Api, Bag, World, eventually};

const SEATS: u32 = 200;
const JOINS: u64 = 350;
/// Those who joined, and some who did not.
const ASKING: u64 = 500;
const READS: u64 = 50_000;
/// Of them while the commit is held.
const BEFORE: u64 = 4_000;
const LINES: usize = 64;

/// What the crowd shares.
struct Storm<'w> {
    world: &'w World,
    bag: Bag,
    tokens: Vec<(u64, String)>,
    /// Reads that were answered.
    answered: AtomicU64,
    /// Answers that said that the draw runs.
    drawing: AtomicU64,
    /// Whether the draw may have been committed.
    is_released: AtomicBool,
}

impl Storm<'_> {
    fn new<'w>(world: &'w World, api: &Api, bag: Bag) -> Storm<'w> {
        let users = users_of(&bag, ASKING);
        Storm {
            world,
            bag,
            tokens: users
                .iter()
                .map(|user| (*user, api.viewer(*user)))
                .collect(),
            answered: AtomicU64::new(0),
            drawing: AtomicU64::new(0),
            is_released: AtomicBool::new(false),
        }
    }

    /// Asks on one connection as one user after the other until the crowd has asked enough; answers
    /// the last final answer that each user got here.
    async fn read(&self, api: &Api, first: usize) -> Vec<(u64, Told)> {
        let mut line = Line::to(api).await;
        let mut finals = Vec::new();
        let mut stage = 0;
        for number in first.. {
            let (user, token) = &self.tokens[number % self.tokens.len()];
            let told = line.told(&self.bag, token).await;
            self.note(&told);
            assert!(told.stage() >= stage, "{} after stage {stage}", told.result);
            if told.is_final() {
                if stage < 2 {
                    let drawn = self.world.is_drawn(&self.bag).await;
                    assert!(drawn, "`{}` before the commit", told.result);
                }
                finals.push((*user, told.clone()));
            }
            stage = told.stage();
            if self.answered.fetch_add(1, Ordering::SeqCst) + 1 >= READS && stage == 2 {
                break;
            }
        }
        finals
    }

    /// The commit is held until it is released, so a final answer before that was made up.
    fn note(&self, told: &Told) {
        let may_be_drawn = self.is_released.load(Ordering::SeqCst);
        assert!(
            may_be_drawn || !told.is_final(),
            "before the commit: {told:?}"
        );
        if told.result == "drawing" {
            self.drawing.fetch_add(1, Ordering::SeqCst);
        }
        assert!((500..=90_000).contains(&told.next_poll_ms), "{told:?}");
    }

    /// Holds the commit until that many have heard that the draw runs.
    async fn hold_the_commit(&self) {
        let held = self.world.db.begin().await.expect("a connection");
        held.execute_unprepared("SELECT * FROM prize FOR UPDATE")
            .await
            .expect("the prizes are locked");
        self.world.draw_in(&self.bag, 1_000).await;
        eventually("a crowd to hear that the draw runs", async || {
            // The server would roll a transaction back that says nothing for long.
            let kept = held.execute_unprepared("DO 0").await;
            kept.expect("the prizes are still locked");
            match self.drawing.load(Ordering::SeqCst) {
                BEFORE.. => Ok(()),
                heard => Err(heard),
            }
        })
        .await;
        self.is_released.store(true, Ordering::SeqCst);
        held.rollback().await.expect("the prizes are free");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_crowd_of_50_000_at_the_draw_costs_mysql_a_handful_of_reads() {
    let world = World::new().await;
    let earlier = world.serve().await;
    let api = world.api(&earlier).await;
    let bag = joined_bag(&world, &api, (8001, SEATS), JOINS).await;
    earlier.stop().await;
    world.forget_redis().await;
    let processes = join_all((0..2).map(|_| world.serve())).await;
    let apis = join_all(processes.iter().map(|process| world.api(process))).await;
    let storm = Storm::new(&world, &apis[0], bag);

    let started_at = Instant::now();
    let crowd = (0..LINES).map(|line| storm.read(&apis[line % 2], line * 7));
    let (finals, ()) = tokio::join!(join_all(crowd), storm.hold_the_commit());
    let seconds = started_at.elapsed().as_secs();

    world.assert_drawn_once(&bag).await;
    let truth = Truth::of(&world, &bag).await;
    assert_eq!(truth.wins.len(), SEATS as usize);
    for (user, told) in finals.iter().flatten() {
        truth.assert_told(*user, told);
    }
    assert!(storm.answered.load(Ordering::SeqCst) >= READS);
    let mut from_memory = 0;
    for process in &processes {
        // While the draw runs Redis keeps the detail for two seconds at a time, and on a machine that is
        // busy it may be too slow; apart from that it takes few, however large the crowd.
        let details = reads(process, "detail", "mysql").await;
        assert!(details <= 5 + 2 * seconds, "{details} reads in {seconds} s");
        let lists = reads(process, "winners", "mysql").await;
        assert!(lists <= 1, "{lists} reads of the winners");
        from_memory += reads(process, "detail", "memory").await;
    }
    assert!(from_memory >= READS * 9 / 10, "{from_memory} from memory");

    for process in processes {
        process.stop().await;
    }
    world.end().await;
}
