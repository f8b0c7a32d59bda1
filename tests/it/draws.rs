//! Drawn once, and on time or late but drawn: whoever asks, whatever is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures_util::{StreamExt, future::join_all, stream};
use luckybag::{
    infra::broker::{DelayRung, Queue},
    kernel::{Clock, SystemClock, format_timestamp},
};
use serde_json::{Value, json};

use crate::harness::{Api, Bag, BagSpec, World, eventually, metric, metrics_page};

const NO_SWEEPER: (&str, &str) = ("SWEEPER__ENABLED", "false");
const NO_MESSAGES: (&str, &str) = ("DRAW__MESSAGES_ENABLED", "false");

/// Users of a room of their own, so that no win keeps anybody out elsewhere.
fn users_of(bag: &Bag, count: u64) -> impl Iterator<Item = u64> + use<> {
    let first = bag.room * 1_000;
    first..first + count
}

/// Asks each process in turn for the draw until it is done; answers what they said.
async fn ask_until_drawn(apis: &[Api], bag: &Bag) -> BTreeSet<String> {
    const EAGERNESS: Duration = Duration::from_millis(100);
    const PAUSE: Duration = Duration::from_millis(150);

    let early = (bag.draw_at - SystemClock.now()).to_std();
    tokio::time::sleep(early.unwrap_or_default().saturating_sub(EAGERNESS)).await;
    let mut answers = BTreeSet::new();
    for api in apis.iter().cycle() {
        let answer = api.post(&api.operator(), &bag.path("/draw"), None).await;
        let word = match answer.status.as_u16() {
            202 => "accepted".to_owned(),
            _ => answer.body["code"].as_str().unwrap_or_default().to_owned(),
        };
        answers.insert(word.clone());
        if word == "already_drawn" {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    answers
}

/// Removes the observers' marks of these draws, again and again.
async fn delete_locks(world: &World, bags: &[Bag]) {
    use fred::interfaces::KeysInterface;

    let locks = bags.iter().map(|bag| world.keys().draw_lock(bag.id));
    let locks: Vec<String> = locks.collect();
    loop {
        let _: i64 = world.redis.unlink(locks.clone()).await.expect("unlinked");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The ids of the events about each activity.
fn ids_by_activity(events: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in events {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        ids.entry(text(&event["data"]["activityId"]))
            .or_default()
            .insert(text(&event["id"]));
    }
    ids
}

/// How late a draw is depends on the machine, so it is shown and not asserted.
#[expect(clippy::print_stdout, reason = "for who runs the test")]
async fn tell_lateness(world: &World, count: &str) {
    let latest = "SELECT MAX(TIMESTAMPDIFF(MICROSECOND, draw_at, drawn_at)) DIV 1000 FROM activity";
    println!(
        "the latest of {count} came after {} ms",
        world.number(latest).await
    );
}

/// One piece of a prize that all bags share and two of their own.
fn sharing(room: u64, shared: &Value) -> BagSpec {
    BagSpec {
        room,
        countdown_secs: 15,
        extra: json!({ "prizes": [
            { "prizeId": shared["id"], "quantity": 1 },
            { "name": "Coupon", "kind": "virtual", "quantity": 2 },
        ]}),
        ..BagSpec::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_bags_are_drawn_once_each_by_three_processes_asked_in_three_ways() {
    const BAGS: u64 = 50;
    const JOINS: u64 = 5;
    let world = World::new().await;
    let eager = [("SWEEPER__INTERVAL_MS", "200")];
    let processes = join_all((0..3).map(|_| world.serve_with(&eager))).await;
    let apis = join_all(processes.iter().map(|process| world.api(process))).await;
    let amqp = world.amqp().await;
    let topology = world.topology();
    let mut drawn = amqp
        .listen(&topology.events_exchange(), "activity.drawn")
        .await;
    let shared = json!({ "name": "Phone", "kind": "physical", "stockTotal": BAGS + 10 });
    let shared = apis[0]
        .post(&apis[0].operator(), "/v1/prizes", Some(shared))
        .await
        .expect(201);

    let bags: Vec<Bag> = stream::iter(1..=BAGS)
        .map(async |room| {
            let api = &apis[usize::try_from(room).unwrap() % apis.len()];
            let bag = api.open_bag(&sharing(room, &shared)).await;
            api.join_all(&bag, users_of(&bag, JOINS)).await;
            bag
        })
        .buffered(8)
        .collect()
        .await;
    let asking = join_all(bags.iter().map(|bag| ask_until_drawn(&apis, bag)));
    let asking = tokio::time::timeout(Duration::from_mins(1), asking);
    let answers = tokio::select! {
        answers = asking => answers.expect("all are drawn in a minute"),
        () = delete_locks(&world, &bags) => unreachable!("it never ends"),
    };

    for (bag, answers) in bags.iter().zip(answers) {
        world.assert_drawn_once(bag).await;
        assert_eq!(world.entrants(bag.id).await.len(), 5, "a join was lost");
        assert_eq!(world.wins(bag.id).await.len(), 3);
        // A machine that has too much to do may say that, too.
        let known = ["accepted", "already_drawn", "not_due", "unavailable"];
        assert!(
            answers.iter().all(|word| known.contains(&word.as_str())),
            "{answers:?}"
        );
    }
    tell_lateness(&world, "fifty").await;
    let stock = "SELECT COUNT(*) FROM prize WHERE NOT is_private AND reserved = 0 AND issued = 50";
    assert_eq!(world.number(stock).await, 1, "the shared stock is off");
    world.nothing_owed().await;
    let ids = ids_by_activity(&drawn.until_now().await);
    assert_eq!(ids.len(), 50, "{ids:?}");
    assert!(ids.values().all(|ids| ids.len() == 1), "{ids:?}");

    amqp.close().await;
    for process in processes {
        process.stop().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_bags_that_are_due_together_are_drawn_by_one_process() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let specs: Vec<BagSpec> = (1..=20)
        .map(|room| BagSpec {
            room,
            ..BagSpec::waiting()
        })
        .collect();

    let bags = api.open_bags(&specs).await;
    join_all(bags.iter().map(|bag| api.join_all(bag, users_of(bag, 4)))).await;
    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;

    for bag in &bags {
        world.assert_drawn_once(bag).await;
        assert_eq!(world.wins(bag.id).await.len(), 3);
    }
    tell_lateness(&world, "twenty").await;
    // A draw is counted after its commit.
    eventually("all to be counted", async || {
        let page = metrics_page(&api.url).await;
        match metric(&page, "luckybag_draw_lateness_seconds_count") {
            Some(20.0) => Ok(()),
            _ => Err(page),
        }
    })
    .await;

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweeper_draws_where_there_are_no_delayed_messages() {
    let world = World::new().await;
    let process = world.serve_with(&[NO_MESSAGES]).await;
    let api = world.api(&process).await;

    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, users_of(&bag, 6)).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;

    world.assert_drawn_once(&bag).await;
    let armed = "SELECT COUNT(*) FROM activity WHERE is_armed";
    assert_eq!(world.number(armed).await, 0);

    process.stop().await;
    world.end().await;
}

/// These are more than the first two rungs of the ladder and less than the next: such a message
/// comes back more than once before its time.
#[tokio::test(flavor = "multi_thread")]
async fn messages_draw_where_there_is_no_sweeper() {
    let world = World::new().await;
    let process = world.serve_with(&[NO_SWEEPER]).await;
    let api = world.api(&process).await;
    let spec = |room, countdown_secs| BagSpec {
        room,
        countdown_secs,
        ..BagSpec::default()
    };

    let bags = api
        .open_bags(&[spec(1, 18), spec(2, 19), spec(3, 22)])
        .await;
    join_all(bags.iter().map(|bag| api.join_all(bag, users_of(bag, 6)))).await;
    world.all_drawn(&bags).await;

    for bag in &bags {
        world.assert_drawn_once(bag).await;
    }
    tell_lateness(&world, "three").await;

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_draws_where_there_is_neither_but_not_early_and_not_twice() {
    let world = World::new().await;
    let process = world.serve_with(&[NO_SWEEPER, NO_MESSAGES]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, users_of(&bag, 6)).await;
    let ask = async || api.post(&api.operator(), &bag.path("/draw"), None).await;

    ask().await.expect_problem(409, "not_due");
    world.draw_soon(&[bag]).await;
    eventually("the time of the draw", async || {
        let answer = ask().await;
        match answer.body["code"].as_str() {
            Some("not_due") => Err(answer),
            _ => Ok(answer.expect(202)),
        }
    })
    .await;
    world.all_drawn(&[bag]).await;
    ask().await.expect_problem(409, "already_drawn");

    world.assert_drawn_once(&bag).await;
    let drafted = api.draft(&BagSpec::default()).await;
    api.post(
        &api.operator(),
        &format!("/v1/activities/{drafted}/draw"),
        None,
    )
    .await
    .expect_problem(409, "not_due");

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seats_are_filled_by_score_and_what_nobody_wins_goes_back_to_the_stock() {
    const ENTRANTS: [u64; 6] = [0, 1, 2, 3, 4, 150];
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let phone = json!({ "name": "Phone", "kind": "physical", "stockTotal": 6 });
    let phone = api
        .post(&api.operator(), "/v1/prizes", Some(phone))
        .await
        .expect(201);
    let specs: Vec<BagSpec> = (1..)
        .zip(ENTRANTS)
        .map(|(room, _)| BagSpec {
            room,
            extra: json!({ "prizes": [
                { "prizeId": phone["id"], "quantity": 1 },
                { "name": "Mug", "kind": "physical", "quantity": 2 },
            ]}),
            ..BagSpec::waiting()
        })
        .collect();

    let bags = api.open_bags(&specs).await;
    for (bag, entrants) in bags.iter().zip(ENTRANTS) {
        api.join_all(bag, users_of(bag, entrants)).await;
    }
    world.draw_soon(&bags).await;
    world.all_drawn(&bags).await;

    for (bag, entrants) in bags.iter().zip(ENTRANTS) {
        world.assert_drawn_once(bag).await;
        let wins = world.wins(bag.id).await;
        let seats = usize::try_from(entrants.min(3)).unwrap();
        let ranks: Vec<u32> = wins.iter().map(|win| win.prize_rank).collect();
        assert_eq!(ranks, [1, 2, 2][..seats], "prizes go by rank");
        assert!(wins.is_sorted_by(|better, worse| better.score >= worse.score));
        let detail = api.drawn(bag).await;
        assert_eq!(detail["joinedCount"], entrants, "{detail}");
        assert_eq!(detail["eligibleCount"], entrants, "{detail}");
        let cutoff = wins.last().map(|worst| worst.score);
        // This test's reader of JSON may lose the last bit of a number.
        let shown = detail["cutoffScore"].as_f64();
        assert_eq!(shown.is_none(), cutoff.is_none(), "{detail}");
        let off_by = shown
            .zip(cutoff)
            .map_or(0.0, |(shown, cutoff)| shown - cutoff);
        assert!(off_by.abs() < 1e-12, "{detail}");
    }
    // Five of the six bags had somebody to win the phone.
    let stock = "SELECT COUNT(*) FROM prize WHERE NOT is_private AND reserved = 0 AND issued = 5";
    assert_eq!(world.number(stock).await, 1);

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_past_due_when_a_process_starts_is_drawn_then() {
    let world = World::new().await;
    let first = world.serve().await;
    let api = world.api(&first).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, users_of(&bag, 6)).await;
    first.stop().await;
    world.draw_soon(&[bag]).await;
    let past_due = "SELECT COUNT(*) FROM activity WHERE draw_at < NOW(3) AND status = 'open'";
    eventually("the time of the draw to pass", async || {
        match world.number(past_due).await {
            1 => Ok(()),
            other => Err(other),
        }
    })
    .await;

    let second = world.serve_with(&[NO_MESSAGES]).await;
    world.all_drawn(&[bag]).await;

    world.assert_drawn_once(&bag).await;
    assert_eq!(world.entrants(bag.id).await.len(), 6, "a join was lost");
    second.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_that_is_far_ahead_is_armed_when_it_comes_near_and_not_drawn_before() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let draw_at = SystemClock.now() + Duration::from_hours(25 * 24);
    let bag = api
        .open_bag(&BagSpec {
            extra: json!({ "drawAt": format_timestamp(draw_at) }),
            ..BagSpec::default()
        })
        .await;
    api.join_all(&bag, users_of(&bag, 6)).await;
    let armed = async |when: &str| {
        world
            .number(&format!(
                "SELECT COUNT(*) FROM activity WHERE is_armed AND {when}"
            ))
            .await
    };
    assert_eq!(armed("TRUE").await, 0, "25 days is too far");
    api.post(&api.operator(), &bag.path("/draw"), None)
        .await
        .expect_problem(409, "not_due");

    world
        .execute("UPDATE activity SET draw_at = NOW(3) + INTERVAL 3 HOUR")
        .await;
    eventually("the draw to be armed", async || {
        match armed("status = 'open'").await {
            1 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    let amqp = world.amqp().await;
    let rung = world
        .topology()
        .queue_name(Queue::Delay(DelayRung::OneHour));
    let sent = eventually("the message on the longest rung", async || {
        amqp.take(&rung).await.ok_or("nothing")
    })
    .await;
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!(sent["activityId"], bag.id.to_string(), "{sent}");
    let audited = "SELECT COUNT(*) FROM audit WHERE action = 'activity.arm'";
    assert_eq!(world.number(audited).await, 1);

    // Its message is lost by now; that it is due is enough.
    world
        .execute("UPDATE activity SET draw_at = NOW(3) + INTERVAL 1 SECOND")
        .await;
    world.all_drawn(&[bag]).await;
    world.assert_drawn_once(&bag).await;

    amqp.close().await;
    process.stop().await;
    world.end().await;
}
