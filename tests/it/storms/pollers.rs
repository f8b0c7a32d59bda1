//! People who poll across a draw, from whichever process answers, while something is wrong.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use luckybag::kernel::format_timestamp;

use super::{
    Truth, joined_bag,
    line::{Line, Told},
    users_of,
};
use crate::harness::{Api, Bag, Process, Proxies, World, eventually};

const POLLERS: u64 = 200;
const SEATS: u32 = 60;
/// Nobody waits as long as is advised: so that more is seen of the draw.
const PAUSE: Duration = Duration::from_millis(400);
/// Long enough for a busy machine; who hears no result for so long never does.
const PATIENCE: Duration = Duration::from_mins(3);
/// How often each asks again after the first final answer, which has to stay.
const AGAIN: usize = 4;

/// Two processes behind the same misbehaving servers, and a bag that everybody has joined.
struct Room {
    world: World,
    proxies: Proxies,
    processes: Vec<Process>,
    apis: Vec<Api>,
    bag: Bag,
    /// Who has heard something.
    listening: AtomicUsize,
}

impl Room {
    async fn new() -> Self {
        let world = World::new().await;
        let proxies = Proxies::of(&world).await;
        let changes = proxies.changes();
        let processes = join_all((0..2).map(|_| world.serve_with(&changes))).await;
        let apis = join_all(processes.iter().map(|process| world.api(process))).await;
        let bag = joined_bag(&world, &apis[0], (8001, SEATS), POLLERS).await;
        drop(changes);
        Self {
            world,
            proxies,
            processes,
            apis,
            bag,
            listening: AtomicUsize::new(0),
        }
    }

    /// One user's answers from both processes in turn, up to some after the first final one.
    async fn poll(&self, user: u64) -> Vec<Told> {
        let token = self.apis[0].viewer(user);
        let mut lines = join_all(self.apis.iter().map(Line::to)).await;
        let mut stages = vec![0; lines.len()];
        let mut finals: BTreeMap<String, usize> = BTreeMap::new();
        let mut heard = Vec::new();
        for turn in 0.. {
            let at = turn % lines.len();
            let told = lines[at].told(&self.bag, &token).await;
            if turn == 0 {
                self.listening.fetch_add(1, Ordering::SeqCst);
            }
            assert!(
                told.stage() >= stages[at],
                "{user} heard `{}` from a process that was further",
                told.result
            );
            stages[at] = told.stage();
            if told.is_final() {
                if finals.is_empty() {
                    let drawn = self.world.is_drawn(&self.bag).await;
                    assert!(drawn, "{user} heard `{}` before the commit", told.result);
                }
                *finals.entry(told.result.clone()).or_default() += 1;
                assert_eq!(finals.len(), 1, "{user} heard {finals:?}");
            }
            let pause = Duration::from_millis(told.next_poll_ms).min(PAUSE);
            heard.push(told);
            // From both of them.
            if stages.iter().all(|stage| *stage == 2) && finals.values().sum::<usize>() > AGAIN {
                break;
            }
            tokio::time::sleep(pause).await;
        }
        heard
    }

    /// Everybody polls while `meanwhile` makes the draw happen; it begins when all have heard
    /// something.
    async fn poll_across(&self, meanwhile: impl Future<Output = ()>) {
        let users = users_of(&self.bag, POLLERS);
        let polling = join_all(users.iter().map(|user| self.poll(*user)));
        let drawing = async {
            eventually("all to poll", async || {
                match self.listening.load(Ordering::SeqCst) as u64 {
                    POLLERS => Ok(()),
                    some => Err(some),
                }
            })
            .await;
            meanwhile.await;
        };
        let all = async { tokio::join!(polling, Box::pin(drawing)) };
        let (heard, ()) = tokio::time::timeout(PATIENCE, all)
            .await
            .expect("everybody hears a result");

        self.world.assert_drawn_once(&self.bag).await;
        let truth = Truth::of(&self.world, &self.bag).await;
        assert_eq!(truth.wins.len(), SEATS as usize);
        for (user, heard) in users.iter().zip(&heard) {
            assert_eq!(heard[0].result, "notDrawn", "{user}");
            truth.assert_told(*user, heard.last().expect("an answer"));
        }
    }

    async fn end(self) {
        self.proxies.redis.resume();
        for process in self.processes {
            process.stop().await;
        }
        self.world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn across_a_draw_nobody_hears_a_result_early_or_two_of_them() {
    let room = Room::new().await;

    room.poll_across(room.world.draw_in(&room.bag, 1_500)).await;

    room.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_redis_that_takes_two_seconds_nobody_hears_a_result_early_or_two_of_them() {
    let room = Room::new().await;

    room.poll_across(async {
        room.world.draw_in(&room.bag, 2_000).await;
        // Each way.
        room.proxies.redis.delay(Duration::from_secs(1));
    })
    .await;

    room.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_nobody_hears_a_result_early_or_two_of_them() {
    let room = Room::new().await;

    room.poll_across(async {
        room.world.draw_in(&room.bag, 1_500).await;
        room.proxies.redis.refuse();
    })
    .await;

    room.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_commit_fails_once_nobody_hears_a_result_early_or_two_of_them() {
    let room = Room::new().await;
    let world = &room.world;
    world
        .execute(
            "CREATE TRIGGER fail BEFORE INSERT ON win_record FOR EACH ROW \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not today'",
        )
        .await;

    room.poll_across(async {
        world.draw_in(&room.bag, 1_500).await;
        eventually("the commit to fail", async || {
            let failed = room.processes.iter().flat_map(Process::log_lines);
            let failed = failed.filter(|line| line.contains("not today")).count();
            if failed > 0 { Ok(()) } else { Err("not yet") }
        })
        .await;
        assert!(!world.is_drawn(&room.bag).await);
        world.execute("DROP TRIGGER fail").await;
    })
    .await;

    room.end().await;
}

/// A COMMIT that took place though nobody was told so.
#[tokio::test(flavor = "multi_thread")]
async fn when_the_answer_of_the_commit_is_lost_nobody_hears_a_result_early_or_two_of_them() {
    let room = Room::new().await;
    room.proxies
        .mysql
        .lose_answer("INSERT INTO win_record", "COMMIT");

    room.poll_across(room.world.draw_in(&room.bag, 1_500)).await;

    room.end().await;
}

/// Those who do as they are told come back shortly after the draw, one by one.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_draw_is_told_to_come_back_after_it_and_not_all_at_once() {
    const UNTIL_DRAW: Duration = Duration::from_secs(25);
    let room = Room::new().await;
    let set_after = Instant::now();
    room.world.draw_in(&room.bag, 25_000).await;
    let set_before = Instant::now();
    let token = room.apis[0].viewer(1);
    let mut line = Line::to(&room.apis[0]).await;
    eventually("drawAt to be known", async || {
        let shown = room.apis[0].get(&token, &room.bag.path("")).await;
        let draw_at = shown.expect(200)["drawAt"].clone();
        if draw_at == format_timestamp(room.bag.draw_at) {
            Err(draw_at)
        } else {
            Ok(())
        }
    })
    .await;

    let mut back = Vec::new();
    while back.len() < 200 {
        let asked_at = Instant::now();
        let told = line.told(&room.bag, &token).await;
        assert_eq!(told.result, "notDrawn");
        let pause = Duration::from_millis(told.next_poll_ms);
        let earliest = set_after + UNTIL_DRAW;
        assert!(Instant::now() + pause > earliest, "{pause:?}");
        let latest = set_before + UNTIL_DRAW + Duration::from_secs(2);
        assert!(asked_at + pause < latest, "{pause:?}");
        back.push(asked_at + pause - set_after);
    }
    let tenths: std::collections::BTreeSet<u128> =
        back.iter().map(|at| at.as_millis() / 100).collect();
    assert!(tenths.len() >= 8, "all at once: {tenths:?}");

    room.end().await;
}
