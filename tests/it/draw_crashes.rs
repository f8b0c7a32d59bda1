//! A drawer that dies, or falls silent, at each step: the others finish, and nothing is done twice.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::join_all;
use sea_orm::{ConnectionTrait, TransactionTrait};
use serde_json::Value;

use crate::harness::{Api, Bag, BagSpec, Process, World, eventually, nothing_happens_for};

/// Leases are short, so that the tests are.
const SHORT_LEASE: [(&str, &str); 2] = [("DRAW__LEASE_SECS", "2"), ("DRAW__LEASE_RENEW_SECS", "1")];
/// The sweeper is then the only one that begins a draw.
const NO_MESSAGES: (&str, &str) = ("DRAW__MESSAGES_ENABLED", "false");

fn with_short_lease<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    SHORT_LEASE.iter().chain(more).copied().collect()
}

fn users_of(bag: &Bag) -> impl Iterator<Item = u64> + use<> {
    let first = bag.room * 1_000;
    first..first + 8
}

/// Waits until this many joins are committed: nobody holds a lock for them any more.
async fn settled(world: &World, joins: i64) {
    eventually("the joins to be settled", async || {
        match world.number("SELECT COUNT(*) FROM participation").await {
            count if count == joins => Ok(()),
            count => Err(count),
        }
    })
    .await;
}

/// Three bags that become due at the same time, with joins that have been settled.
async fn three_bags(world: &World, api: &Api) -> Vec<Bag> {
    let specs: Vec<BagSpec> = (1..=3)
        .map(|room| BagSpec {
            room,
            ..BagSpec::waiting()
        })
        .collect();
    let bags = api.open_bags(&specs).await;
    join_all(bags.iter().map(|bag| api.join_all(bag, users_of(bag)))).await;
    settled(world, 24).await;
    bags
}

async fn until(world: &World, what: &str, query: &str) {
    eventually(what, async || match world.number(query).await {
        0 => Err("not yet"),
        _ => Ok(()),
    })
    .await;
}

/// Who was told what: winners and others, whatever was repeated.
fn told(events: &[Value]) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let user = |value: &Value| value.as_str().expect("a user id").parse().expect("digits");
    let of_kind = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let winners = of_kind("result.won").map(|event| user(&event["data"]["userId"]));
    let others = of_kind("result.not_won").flat_map(|event| {
        let users = event["data"]["userIds"].as_array().expect("user ids");
        users.iter().map(user).collect::<Vec<_>>()
    });
    (winners.collect(), others.collect())
}

/// A process dies at `step`, in the middle of three draws; one that was there all the time goes on.
async fn somebody_else_finishes_what_died_at(step: &str) {
    let world = World::new().await;
    // The victim reads the stream: its drain ends although the other one is stopped.
    let victim = world
        .serve_reader(&with_short_lease(&[("LUCKYBAG_DIE_AT", step)]))
        .await;
    let other = world.serve_with(&with_short_lease(&[NO_MESSAGES])).await;
    let amqp = world.amqp().await;
    let exchange = world.topology().events_exchange();
    let mut drawn = amqp.listen(&exchange, "activity.drawn").await;
    let mut results = amqp.listen(&exchange, "result.*").await;
    let api = world.api(&victim).await;
    let bags = three_bags(&world, &api).await;
    // The other one must not be the first to see that they are due.
    other.signal("STOP");
    world.draw_soon(&bags).await;

    let status = victim.exit_status().await;
    assert!(!status.success(), "it did not die at {step}");
    other.signal("CONT");
    world.all_drawn(&bags).await;
    // What the victim had claimed of the outbox would rest for a minute and no longer. If the other one
    // is at work on a row it tells it again, as it may.
    let beyond = "SELECT COUNT(*) FROM outbox WHERE not_before > NOW(3) + INTERVAL 60 SECOND";
    assert_eq!(world.number(beyond).await, 0, "claimed for too long");
    let claims = "UPDATE outbox SET not_before = NOW(3)";
    world.execute(claims).await;

    for bag in &bags {
        world.assert_drawn_once(bag).await;
        assert_eq!(world.entrants(bag.id).await.len(), 8);
    }
    world.nothing_owed().await;
    assert_everybody_sees_it(&world, &world.api(&other).await, &bags).await;
    let ids: BTreeSet<String> = drawn
        .until_now()
        .await
        .iter()
        .map(|event| event["id"].to_string())
        .collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
    let (winners, others) = told(&results.until_now().await);
    let mut won = BTreeSet::new();
    for bag in &bags {
        won.extend(world.wins(bag.id).await.iter().map(|win| win.user_id));
    }
    let lost = bags
        .iter()
        .flat_map(users_of)
        .filter(|user| !won.contains(user));
    assert_eq!(others, lost.collect());
    assert_eq!(winners, won);

    amqp.close().await;
    other.stop().await;
    world.end().await;
}

/// The results over HTTP and in Redis are those of the committed draw.
async fn assert_everybody_sees_it(world: &World, api: &Api, bags: &[Bag]) {
    use fred::interfaces::HashesInterface;

    for bag in bags {
        let wins = world.wins(bag.id).await;
        let seats: Vec<u64> = wins.iter().map(|win| win.user_id).collect();
        api.drawn(bag).await;
        assert_eq!(api.winners(bag).await, seats);
        let listed: u64 = world
            .redis
            .hlen(world.keys().win_list(bag.id))
            .await
            .expect("a list");
        assert_eq!(listed, 1 + wins.len() as u64, "rows and the mark");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_finishes_after_a_death_behind_the_claim() {
    somebody_else_finishes_what_died_at("draw.claimed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_finishes_after_a_death_behind_the_freeze() {
    somebody_else_finishes_what_died_at("draw.frozen").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_finishes_after_a_death_in_the_transaction() {
    somebody_else_finishes_what_died_at("draw.in_transaction").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_tells_the_results_after_a_death_behind_the_commit() {
    somebody_else_finishes_what_died_at("draw.committed").await;
}

/// Everything that a draw writes.
async fn written(world: &World, bag: &Bag) -> Vec<i64> {
    const ROWS: [&str; 6] = [
        "SELECT COUNT(*) FROM win_record WHERE activity_id = ID",
        "SELECT CAST(SUM(id) AS SIGNED) FROM win_record WHERE activity_id = ID",
        "SELECT COUNT(*) FROM audit WHERE activity_id = ID",
        "SELECT CAST(version AS SIGNED) FROM activity WHERE id = ID",
        "SELECT CAST(draw_token AS SIGNED) FROM activity WHERE id = ID",
        "SELECT CAST(SUM(reserved * 1000 + issued) AS SIGNED) FROM prize",
    ];
    let mut numbers = Vec::new();
    for query in ROWS {
        numbers.push(world.number_of(bag.id, query).await);
    }
    numbers
}

/// Wakes a drawer that slept through its lease, after another one has drawn: it changes nothing.
async fn a_late_riser_writes_nothing(world: &World, riser: &Process, bag: &Bag) {
    world.all_drawn(&[*bag]).await;
    world.assert_drawn_once(bag).await;
    // The proof comes after the draw, and writes too.
    world.published(bag.id).await;
    world.nothing_owed().await;
    let before = written(world, bag).await;

    riser.signal("CONT");
    riser.ready().await;
    world.api(riser).await.drawn(bag).await;
    nothing_happens_for(Duration::from_secs(1)).await;

    assert_eq!(written(world, bag).await, before, "the late riser wrote");
    world.assert_drawn_once(bag).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drawer_that_slept_through_its_lease_in_the_drain_writes_nothing() {
    let world = World::new().await;
    // The first one reads the stream: while it sleeps, no drain of the other comes to an end.
    let other = world.serve_reader(&with_short_lease(&[NO_MESSAGES])).await;
    let sleeper = world.serve_with(&SHORT_LEASE).await;
    let api = world.api(&sleeper).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, users_of(&bag)).await;
    settled(&world, 8).await;
    other.signal("STOP");
    world.draw_soon(&[bag]).await;
    until(
        &world,
        "the claim",
        "SELECT COUNT(*) FROM activity WHERE draw_token >= 1 AND status = 'open'",
    )
    .await;
    sleeper.signal("STOP");
    other.signal("CONT");

    a_late_riser_writes_nothing(&world, &sleeper, &bag).await;

    assert_eq!(world.entrants(bag.id).await.len(), 8);
    sleeper.stop().await;
    other.stop().await;
    world.end().await;
}

/// Stops a drawer where the result is fixed and nothing is selected yet.
const PAUSE_BEHIND_THE_FREEZE: (&str, &str) = ("LUCKYBAG_PAUSE_AT", "draw.frozen");

/// Lets a draw run until its drawer pauses behind the freeze.
async fn run_to_the_freeze(world: &World, drawer: &Process) {
    world.draw_soon(&[]).await;
    until(
        world,
        "the freeze",
        "SELECT COUNT(*) FROM activity WHERE status = 'drawing'",
    )
    .await;
    drawer.paused().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drawer_that_slept_through_its_lease_behind_the_freeze_writes_nothing() {
    let world = World::new().await;
    let sleeper = world
        .serve_with(&with_short_lease(&[PAUSE_BEHIND_THE_FREEZE]))
        .await;
    let api = world.api(&sleeper).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, users_of(&bag)).await;
    settled(&world, 8).await;
    run_to_the_freeze(&world, &sleeper).await;
    let other = world.serve_with(&with_short_lease(&[NO_MESSAGES])).await;

    a_late_riser_writes_nothing(&world, &sleeper, &bag).await;

    sleeper.stop().await;
    other.stop().await;
    world.end().await;
}

/// The last moment at which a claim can be lost: everything is selected, nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_drawer_whose_claim_is_taken_over_before_it_commits_writes_nothing() {
    use fred::interfaces::KeysInterface;

    let world = World::new().await;
    let process = world
        .serve_with(&[
            ("DRAW__LEASE_SECS", "60"),
            ("DRAW__LEASE_RENEW_SECS", "25"),
            PAUSE_BEHIND_THE_FREEZE,
        ])
        .await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, users_of(&bag)).await;
    settled(&world, 8).await;
    run_to_the_freeze(&world, &process).await;

    let other = world.db.begin().await.unwrap();
    other
        .execute_unprepared("SELECT * FROM activity FOR UPDATE")
        .await
        .unwrap();
    process.signal("CONT");
    until(
        &world,
        "the drawer to wait for the activity",
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() \
         AND info LIKE 'UPDATE activity SET status = ''drawn''%'",
    )
    .await;
    let mark = async || -> Option<String> {
        let mark = world.keys().draw_lock(bag.id);
        world.redis.get(mark).await.unwrap()
    };
    eventually("the drawer's mark", async || mark().await.ok_or("none")).await;
    // Nobody draws before we have seen that the drawer wrote nothing, however busy the machine is.
    other
        .execute_unprepared(
            "UPDATE activity SET draw_token = draw_token + 1, \
             lease_until = NOW(3) + INTERVAL 15 SECOND",
        )
        .await
        .unwrap();
    other.commit().await.unwrap();
    eventually("the drawer to leave", async || {
        mark().await.map_or(Ok(()), Err)
    })
    .await;

    let written = "SELECT (SELECT COUNT(*) FROM win_record) \
         + (SELECT COUNT(*) FROM activity WHERE status <> 'drawing') \
         + (SELECT COUNT(*) FROM audit WHERE action = 'activity.draw')";
    assert_eq!(world.number(written).await, 0);
    world.all_drawn(&[bag]).await;
    world.assert_drawn_once(&bag).await;
    let claims = "SELECT CAST(draw_token AS SIGNED) FROM activity";
    assert_eq!(world.number(claims).await, 3, "drawn in a claim of its own");

    process.stop().await;
    world.end().await;
}

/// MySQL itself ends the silent transaction, so this takes as long as its patience.
#[tokio::test(flavor = "multi_thread")]
async fn a_drawer_that_falls_silent_in_its_transaction_holds_the_draw_up_but_not_for_ever() {
    let world = World::new().await;
    let sleeper = world.serve_with(&SHORT_LEASE).await;
    let api = world.api(&sleeper).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, users_of(&bag)).await;
    settled(&world, 8).await;

    // The transaction comes to the prizes after it has locked the activity.
    let held = world.db.begin().await.unwrap();
    held.execute_unprepared("SELECT * FROM prize FOR UPDATE")
        .await
        .unwrap();
    world.draw_soon(&[bag]).await;
    until(
        &world,
        "the drawer to wait for the prizes",
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() \
         AND info LIKE 'UPDATE prize%'",
    )
    .await;
    sleeper.signal("STOP");
    held.rollback().await.unwrap();
    let other = world.serve_with(&with_short_lease(&[NO_MESSAGES])).await;

    a_late_riser_writes_nothing(&world, &sleeper, &bag).await;

    sleeper.stop().await;
    other.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_stopped_in_the_drain_gives_the_draw_back_at_once() {
    let world = World::new().await;
    // The first one reads the stream: while it sleeps, no drain of the other comes to an end. Leases
    // are the usual ones: nobody could wait for their end.
    let other = world.serve_reader(&[NO_MESSAGES]).await;
    let leaving = world.serve().await;
    let api = world.api(&leaving).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, users_of(&bag)).await;
    settled(&world, 8).await;
    other.signal("STOP");
    world.draw_soon(&[bag]).await;
    until(
        &world,
        "the claim",
        "SELECT COUNT(*) FROM activity WHERE draw_token >= 1 AND status = 'open'",
    )
    .await;

    leaving.stop().await;

    let held = "SELECT COUNT(*) FROM activity WHERE lease_until IS NOT NULL OR status <> 'open'";
    assert_eq!(world.number(held).await, 0, "it is still held");
    other.signal("CONT");
    world.all_drawn(&[bag]).await;
    world.assert_drawn_once(&bag).await;
    assert_eq!(world.entrants(bag.id).await.len(), 8);

    other.stop().await;
    world.end().await;
}
