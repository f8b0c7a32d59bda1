//! What a process tells from its memory while the stores are slow, away or behind.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use fred::{interfaces::KeysInterface, types::Expiration};
use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};

use super::{
    Truth, joined_bag,
    line::{Line, Told},
    users_of,
};
use crate::{
    harness::{Api, Bag, BagSpec, Process, Proxies, World, eventually, nothing_happens_for},
    proxy::Proxy,
};

const JOINS: u64 = 12;

/// How many renewals in the background have ended without an answer.
fn not_renewed(process: &Process) -> usize {
    let lines = process.log_lines();
    let ended = lines
        .iter()
        .filter(|line| line.contains("a detail was not renewed"));
    ended.count()
}

/// Nobody waits for a server that says nothing: what is asked for all the time is told as it was.
#[tokio::test(flavor = "multi_thread")]
async fn with_stores_that_say_nothing_a_hot_result_is_told_from_memory_without_a_wait() {
    /// Much shorter than a look that nobody answers (three seconds and more), so that what is told has
    /// lapsed during most of it; long enough to be asked for in the last third, also on a busy machine.
    const LIFE: Duration = Duration::from_secs(2);
    /// One may slip in between the end of a renewal and its line in the log.
    const IN_A_ROW: u32 = 5;
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let life_ms = LIFE.as_millis().to_string();
    let mut changes = proxies.changes();
    changes.push(("ACTIVITY__DETAIL_MEMORY_MS", &life_ms));
    changes.push(("LOG__FILTER", "info,luckybag=debug"));
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    let bag = joined_bag(&world, &api, (1, 3), 1).await;
    let viewer = api.viewer(1);
    let ask = async || {
        let told = Line::to(&api).await.told(&bag, &viewer).await;
        assert_eq!(told.result, "notDrawn");
    };
    ask().await;

    proxies.redis.stall();
    proxies.mysql.stall();
    // Of the last look that has ended, as far as can be seen from here.
    let ended = Cell::new((0, Instant::now()));
    eventually("answers that are older than their life", async || {
        // All of these were told while a look was under way, so none of them has waited for it.
        for told in 0..IN_A_ROW {
            let asked_at = Instant::now();
            ask().await;
            let (looks, at) = ended.get();
            let now_ended = not_renewed(&process);
            if now_ended > looks {
                ended.set((now_ended, Instant::now()));
            }
            if now_ended > looks || asked_at < at + LIFE {
                return Err((told, now_ended));
            }
        }
        Ok(())
    })
    .await;
    eventually(
        "the look to end, which was nobody's who asked",
        async || {
            ask().await;
            let ended = not_renewed(&process);
            if ended > 0 { Ok(()) } else { Err(ended) }
        },
    )
    .await;

    proxies.redis.resume();
    proxies.mysql.resume();
    process.stop().await;
    world.end().await;
}

/// Joins that ask MySQL in vain, one look after another, keep nobody from asking Redis.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_mysql_hears_from_redis_that_a_bag_is_open() {
    const ARRIVALS: Duration = Duration::from_millis(100);
    let world = World::new().await;
    let opening = world.serve().await;
    let api = world.api(&opening).await;
    let proxies = Proxies::of(&world).await;
    let process = world.serve_with(&proxies.changes()).await;
    let cut_off = world.api(&process).await;
    let spec = BagSpec::waiting();
    let id = api.ready(&spec).await;
    let path = format!("/v1/activities/{id}/join");
    let join = async |user| cut_off.post(&cut_off.viewer(user), &path, None).await;
    join(1).await.expect_problem(409, "activity_not_open");

    proxies.mysql.stall();
    let mut users = 2..;
    let mut arrivals = tokio::time::interval(ARRIVALS);
    let mut joining = FuturesUnordered::new();
    let mut is_open = false;
    let crowd = async {
        loop {
            tokio::select! {
                _ = arrivals.tick() => joining.extend(users.next().map(join)),
                Some(answer) = joining.next() => {
                    if answer.status.as_u16() == 202 {
                        return;
                    }
                    if !is_open {
                        answer.expect_problem(503, "unavailable");
                        api.open(&spec, id).await;
                        is_open = true;
                    }
                }
            }
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(40), crowd).await;
    in_time.expect("a join that is accepted");

    proxies.mysql.resume();
    process.stop().await;
    opening.stop().await;
    world.end().await;
}

/// What a process has seen of the bag before it is cut off.
#[derive(Clone, Copy)]
enum Seen {
    Open,
    Nothing,
}

/// Waits until the process knows when the bag is drawn.
async fn until_known(api: &Api, bag: &Bag) {
    eventually("drawAt to be known", async || {
        let mut line = Line::to(api).await;
        match line.told(bag, &api.viewer(1)).await.next_poll_ms {
            // Of a draw that is further off than half a minute it is 15 s and more.
            told if told < 15_000 => Ok(()),
            told => Err(told),
        }
    })
    .await;
}

/// Everybody asks while the bag is drawn elsewhere, and some times after that.
async fn ask_until_drawn(world: &World, api: &Api, bag: &Bag, seen: Seen) {
    let users = users_of(bag, JOINS);
    let mut after = 0;
    while after < 3 {
        let is_drawn = world.is_drawn(bag).await;
        let answers = users.iter().map(async |user| {
            let mut line = Line::to(api).await;
            line.ask(bag, &api.viewer(*user)).await
        });
        for (status, body) in join_all(answers).await {
            let text = String::from_utf8_lossy(&body).into_owned();
            match seen {
                Seen::Nothing => assert_eq!(status, 503, "{text}"),
                Seen::Open if is_drawn => assert!(text.contains(r#""drawing""#), "{text}"),
                Seen::Open => {
                    let told = [r#""notDrawn""#, r#""drawing""#];
                    assert!(told.iter().any(|word| text.contains(word)), "{text}");
                }
            }
        }
        after += usize::from(is_drawn);
    }
}

/// Waits until everybody is told what is so.
async fn until_all_know(world: &World, api: &Api, bag: &Bag) {
    let truth = Truth::of(world, bag).await;
    for user in users_of(bag, JOINS) {
        eventually("the result to be known", async || {
            let mut line = Line::to(api).await;
            let (status, body) = line.ask(bag, &api.viewer(user)).await;
            let told = serde_json::from_slice::<Told>(&body);
            let told = told.map_err(|_| format!("{status}"))?;
            if !told.is_final() {
                return Err(told.result);
            }
            truth.assert_told(user, &told);
            Ok(())
        })
        .await;
    }
}

/// A process that is cut off from MySQL and Redis while the bag is drawn elsewhere.
async fn cut_off(outage: fn(&Proxy), seen: Seen) {
    let world = World::new().await;
    let drawing = world.serve().await;
    let api = world.api(&drawing).await;
    let bag = joined_bag(&world, &api, (1, 4), JOINS).await;
    let proxies = Proxies::of(&world).await;
    let mut changes = proxies.changes();
    changes.push(("SWEEPER__ENABLED", "false"));
    let process = world.serve_with(&changes).await;
    let cut_off = world.api(&process).await;
    match seen {
        Seen::Open => {
            // So far off that the outage begins before it also on a machine that is busy.
            world.draw_in(&bag, 12_000).await;
            until_known(&cut_off, &bag).await;
        }
        Seen::Nothing => world.draw_in(&bag, 4_000).await,
    }

    outage(&proxies.redis);
    outage(&proxies.mysql);
    ask_until_drawn(&world, &cut_off, &bag, seen).await;
    proxies.redis.resume();
    proxies.mysql.resume();

    until_all_know(&world, &cut_off, &bag).await;
    drawing.stop().await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_stores_tells_that_the_draw_runs_until_it_knows_more() {
    cut_off(Proxy::refuse, Seen::Open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_stores_fall_silent_tells_that_the_draw_runs_until_it_knows_more() {
    cut_off(Proxy::stall, Seen::Open).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_knows_nothing_and_has_no_stores_says_so_and_invents_no_result() {
    cut_off(Proxy::refuse, Seen::Nothing).await;
}

/// It knows that the bag is drawn, and cannot learn who won.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_cannot_read_the_winners_tells_nobody_that_it_lost() {
    let world = World::new().await;
    let drawing = world.serve().await;
    let api = world.api(&drawing).await;
    let bag = joined_bag(&world, &api, (1, 4), JOINS).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.nothing_owed().await;
    let proxies = Proxies::of(&world).await;
    let process = world.serve_with(&proxies.changes()).await;
    let cut_off = world.api(&process).await;
    cut_off.drawn(&bag).await;

    proxies.redis.refuse();
    proxies.mysql.refuse();
    let users = users_of(&bag, JOINS);
    let answers = users.iter().map(async |user| {
        let mut line = Line::to(&cut_off).await;
        line.ask(&bag, &cut_off.viewer(*user)).await
    });
    for (status, body) in join_all(answers).await {
        assert_eq!(status, 503, "{}", String::from_utf8_lossy(&body));
    }
    proxies.mysql.resume();

    until_all_know(&world, &cut_off, &bag).await;
    drawing.stop().await;
    process.stop().await;
    world.end().await;
}

/// Redis shows an older state than the process has told: a replica that was behind, or a projection
/// that has not come yet.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_in_redis_does_not_take_a_result_back() {
    let world = World::new().await;
    let process = world
        .serve_with(&[("ACTIVITY__DETAIL_MEMORY_MS", "50")])
        .await;
    let api = world.api(&process).await;
    let bag = joined_bag(&world, &api, (1, 4), JOINS).await;
    let key = world.keys().activity(bag.id);
    eventually("a copy while it is open", async || {
        let exists: bool = world.redis.exists(&key).await.expect("Redis");
        if exists { Ok(()) } else { Err("none") }
    })
    .await;
    let open: String = world.redis.get(&key).await.expect("a copy");
    assert!(open.contains(r#""open""#), "{open}");
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.nothing_owed().await;
    let viewer = api.viewer(users_of(&bag, 1)[0]);
    let mut line = Line::to(&api).await;
    eventually("the result", async || {
        let told = Line::to(&api).await.told(&bag, &viewer).await;
        if told.is_final() { Ok(()) } else { Err(told) }
    })
    .await;

    let an_hour = Some(Expiration::EX(3_600));
    let set = world
        .redis
        .set::<(), _, _>(&key, open, an_hour, None, false);
    set.await.expect("an old copy");
    let is_healed = async || {
        let copy: String = world.redis.get(&key).await.expect("a copy");
        copy.contains(r#""drawn""#)
    };
    let since = Instant::now();
    while !is_healed().await {
        let told = line.told(&bag, &viewer).await;
        assert!(told.is_final(), "{told:?}");
        assert!(since.elapsed() < Duration::from_secs(40), "never healed");
    }
    assert!(line.told(&bag, &viewer).await.is_final());

    process.stop().await;
    world.end().await;
}

/// What nobody has asked for lately is looked at again: not told as it was.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_told_long_ago_is_looked_at_before_it_is_told_again() {
    /// Long after the end of what the first process remembers.
    const LAPSED: Duration = Duration::from_millis(100);
    let world = World::new().await;
    let process = world
        .serve_with(&[("ACTIVITY__DETAIL_MEMORY_MS", "10")])
        .await;
    let other = world.serve().await;
    let (api, at_other) = (world.api(&process).await, world.api(&other).await);
    let bag = api.open_bag(&BagSpec::waiting()).await;
    for title in ["one", "two", "three"] {
        let path = bag.path("");
        // So that what was told last has lapsed: who asks shortly before that has it renewed.
        nothing_happens_for(LAPSED).await;
        api.get(&api.viewer(1), &path).await.expect(200);
        world
            .execute(&format!(
                "UPDATE activity SET title = '{title}', version = version + 1 WHERE id = {}",
                bag.id
            ))
            .await;
        let () = world
            .redis
            .del(world.keys().activity(bag.id))
            .await
            .expect("forgotten");
        nothing_happens_for(LAPSED).await;
        let shown = api.get(&api.viewer(1), &path).await.expect(200);
        assert_eq!(shown["title"], title, "{shown}");
        eventually("the other to know it too", async || {
            let shown = at_other.get(&at_other.viewer(1), &path).await.expect(200);
            if shown["title"] == title {
                Ok(())
            } else {
                Err(shown)
            }
        })
        .await;
    }

    process.stop().await;
    other.stop().await;
    world.end().await;
}
