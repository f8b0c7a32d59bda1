//! The numbers on the metrics page are those of what happened.

use std::collections::{BTreeMap, BTreeSet};

use fred::interfaces::SortedSetsInterface;
use luckybag::infra::redis::Shard;
use sea_orm::{ConnectionTrait, TransactionTrait};

use super::files::{dashboard_exprs, declared_names, metrics_in};
use crate::harness::{
    Api, Bag, BagSpec, Process, Proxies, World, eventually, metric, metrics_page, presence,
};

/// Only told by what this run does not do: failures, other features, and what never comes by itself.
const NOT_IN_A_QUIET_RUN: [&str; 21] = [
    "luckybag_admin_copy_age_seconds",
    "luckybag_cache_reads_total",
    "luckybag_db_retries_total",
    "luckybag_dead_lettered_total",
    "luckybag_events_dropped_total",
    "luckybag_exports_total",
    "luckybag_ingress_refused_total",
    "luckybag_jwks_keys",
    "luckybag_jwks_refreshes_total",
    "luckybag_live_refused_total",
    "luckybag_live_streams",
    "luckybag_messages_held",
    "luckybag_mysql_turns_waiting",
    "luckybag_projections_skipped_total",
    "luckybag_rate_limited_total",
    "luckybag_reconnects_total",
    "luckybag_redraws_total",
    "luckybag_rows_expired_total",
    "luckybag_seats_revoked_total",
    "luckybag_stream_late_total",
    "luckybag_sweeper_repairs_total",
];

/// The sum of all series of a metric.
fn sum(page: &str, name: &str) -> f64 {
    let series = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let is_it = rest.starts_with(' ') || rest.starts_with('{');
        is_it.then(|| line.rsplit_once(' ').expect("a value").1)
    });
    series
        .map(|value| value.parse::<f64>().expect("a number"))
        .sum()
}

/// The values of a metric by one label.
fn by_label(page: &str, name: &str, label: &str) -> BTreeMap<String, f64> {
    let start = format!("{name}{{{label}=\"");
    page.lines()
        .filter_map(|line| line.strip_prefix(&start)?.split_once("\"} "))
        .map(|(value, number)| (value.to_owned(), number.parse().expect("a number")))
        .collect()
}

async fn play(world: &World, api: &Api) {
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 101..=110).await;
    // Once more, which is accepted and changes nothing.
    api.join_all(&bag, 101..=103).await;
    let enter = presence(&bag, 101, "enter", world.now().await);
    api.report("presence", &[enter]).await;
    let stats = bag.path("/stats");
    api.get(&api.operator(), &stats).await.expect(200);
    api.get("no token", &stats).await.expect(401);
    world.draw_soon(&[bag]).await;
    api.drawn(&bag).await;
    api.post(&api.viewer(111), &bag.path("/join"), None)
        .await
        .expect_problem(409, "activity_closed");
}

/// What is wrong with the page of a process that has done all it was asked.
fn unsettled(page: &str) -> Result<(), String> {
    let accepted = sum(page, "luckybag_joins_accepted_total");
    let settled = by_label(page, "luckybag_joins_settled_total", "outcome");
    let differs = |value: f64, expected: f64| (value - expected).abs() > f64::EPSILON;
    if differs(accepted, 13.0) || differs(settled.values().sum(), 13.0) {
        return Err(format!("{accepted} accepted, {settled:?}"));
    }
    let draws = sum(page, "luckybag_draws_total");
    let lateness = metric(page, "luckybag_draw_lateness_seconds_count");
    if differs(draws, 1.0) || lateness != Some(1.0) {
        return Err(format!(
            "{draws} draws, {lateness:?} of them with a lateness"
        ));
    }
    for name in [
        "luckybag_outbox_rows",
        "luckybag_outbox_age_seconds",
        "luckybag_queue_messages",
        "luckybag_stream_lag_seconds",
        "luckybag_join_queue_length",
        "luckybag_draws_overdue",
        "luckybag_results_wrong",
        "luckybag_stock_wrong_prizes",
        "luckybag_pool_drift_shards",
        "luckybag_proofs_unpublished",
        "luckybag_draws_failed_total",
        "luckybag_drains_cut_short_total",
    ] {
        let value = sum(page, name);
        if value != 0.0 {
            return Err(format!("{name} is {value}"));
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_bag_shows_every_metric_of_the_dashboard_and_ends_with_nothing_owed() {
    let world = World::new().await;
    // Looks come by the sweep: 60 of them are a long time at one a second.
    let process = world.serve_with(&[("SWEEPER__INTERVAL_MS", "100")]).await;
    let api = world.api(&process).await;

    play(&world, &api).await;

    let expected: BTreeSet<String> = dashboard_exprs()
        .iter()
        .flat_map(|expr| metrics_in(expr))
        .filter(|name| !NOT_IN_A_QUIET_RUN.contains(&name.as_str()))
        .filter(|name| name != "luckybag_spans_exported_total")
        .collect();
    let page = eventually("everything to be told and settled", async || {
        let page = metrics_page(&api.url).await;
        let shown: BTreeSet<String> = page.lines().flat_map(metrics_of_series).collect();
        let missing: Vec<_> = expected.difference(&shown).collect();
        if !missing.is_empty() {
            return Err(format!("{missing:?} are missing"));
        }
        unsettled(&page).map(|()| page)
    })
    .await;

    let settled = by_label(&page, "luckybag_joins_settled_total", "outcome");
    assert_eq!(settled.get("joined"), Some(&10.0));
    assert_eq!(settled.get("repeated"), Some(&3.0));
    let queues = by_label(&page, "luckybag_queue_messages", "queue");
    assert_eq!(queues.len(), world.topology().queues().len(), "{queues:?}");
    assert!(queues.contains_key("stream.1") && queues.contains_key("dead"));
    assert!(sum(&page, "luckybag_outbox_done_total") > 0.0);
    let version = format!(
        "luckybag_build_info{{version=\"{}\"}}",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(metric(&page, &version), Some(1.0));
    let known = declared_names();
    for name in NOT_IN_A_QUIET_RUN {
        assert!(known.contains(name), "{name}");
    }

    process.stop().await;
    world.end().await;
}

fn metrics_of_series(line: &str) -> BTreeSet<String> {
    if line.starts_with('#') {
        return BTreeSet::new();
    }
    metrics_in(line.split(['{', ' ']).next().unwrap_or_default())
}

/// Waits until a metric has this value.
async fn shows(api: &Api, name: &str, expected: f64) {
    let what = format!("{name} to be {expected}");
    eventually(&what, async || {
        match sum(&metrics_page(&api.url).await, name) {
            value if (value - expected).abs() < f64::EPSILON => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

/// Waits until a metric has some value above zero.
async fn shows_some(api: &Api, name: &str) {
    eventually(&format!("{name} to be above zero"), async || {
        match sum(&metrics_page(&api.url).await, name) {
            value if value > 0.0 => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_pool_shows_until_it_is_rebuilt() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 1..=20).await;
    for user in 1..=20 {
        api.settled(&bag, user).await;
    }
    eventually("the pool to be filled", async || {
        world.check_pool(&bag).await
    })
    .await;

    let pool = world.keys().candidate(bag.id, Shard::of(3));
    let gone: i64 = world.redis.zrem(&pool, "3").await.expect("Redis answers");
    assert_eq!(gone, 1);

    for shards in [1.0, 0.0] {
        shows(&api, "luckybag_pool_drift_shards", shards).await;
    }
    world.check_pool(&bag).await.expect("the pool is rebuilt");

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wins_and_stock_that_do_not_add_up_show_until_they_are_set_right() {
    let world = World::new().await;
    let process = world.serve_with(&[("SWEEPER__INTERVAL_MS", "20")]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 101..=110).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;

    for (name, wrong, right) in [
        (
            "luckybag_results_wrong",
            "UPDATE activity SET eligible_count = eligible_count - 9",
            "UPDATE activity SET eligible_count = eligible_count + 9",
        ),
        (
            "luckybag_stock_wrong_prizes",
            "UPDATE prize SET reserved = reserved + 1",
            "UPDATE prize SET reserved = reserved - 1",
        ),
    ] {
        shows(&api, name, 0.0).await;
        world.execute(wrong).await;
        shows(&api, name, 1.0).await;
        world.execute(right).await;
        shows(&api, name, 0.0).await;
    }

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_that_cannot_be_committed_is_overdue_and_then_late() {
    let world = World::new().await;
    let process = world.serve_with(&[("SWEEPER__INTERVAL_MS", "50")]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, [101]).await;
    api.settled(&bag, 101).await;

    let held = world.db.begin().await.expect("a transaction");
    let lock = held.execute_unprepared("SELECT * FROM prize FOR UPDATE");
    lock.await.expect("the locks");
    world
        .execute("UPDATE activity SET draw_at = NOW(3) - INTERVAL 40 SECOND")
        .await;
    let overdue = "luckybag_draws_overdue";
    eventually("the draw to be overdue", async || {
        // A transaction that says nothing for 20 s is ended.
        held.execute_unprepared("SELECT 1")
            .await
            .expect("the locks");
        match sum(&metrics_page(&api.url).await, overdue) {
            1.0 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    shows(&api, "luckybag_draws_late_total", 0.0).await;
    held.rollback().await.expect("a rollback");

    shows(&api, "luckybag_draws_late_total", 1.0).await;
    shows(&api, overdue, 0.0).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_that_fails_is_counted_and_tried_again() {
    let world = World::new().await;
    let process = world.serve_with(&[("SWEEPER__INTERVAL_MS", "50")]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, [101]).await;
    api.settled(&bag, 101).await;

    world
        .execute("RENAME TABLE win_record TO win_record_away")
        .await;
    world.draw_soon(&[bag]).await;
    shows_some(&api, "luckybag_draws_failed_total").await;
    world
        .execute("RENAME TABLE win_record_away TO win_record")
        .await;

    world.all_drawn(&[bag]).await;
    world.assert_drawn_once(&bag).await;
    process.stop().await;
    world.end().await;
}

/// A process that reads the stream and sleeps, another one that draws as `changes` say and waits for
/// it, and the bag that it draws.
async fn drain_that_does_not_end(
    world: &World,
    changes: &[(&str, &str)],
) -> (Process, Process, Bag) {
    // The first one to come reads the stream.
    let reader = world.serve_reader(&[]).await;
    let drawer = world.serve_with(changes).await;
    let api = world.api(&drawer).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, [101]).await;
    api.settled(&bag, 101).await;
    reader.signal("STOP");
    world.draw_soon(&[bag]).await;
    (reader, drawer, bag)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_lost_is_counted() {
    let world = World::new().await;
    let (reader, drawer, bag) =
        drain_that_does_not_end(&world, &[("DRAW__LEASE_RENEW_SECS", "1")]).await;
    let api = world.api(&drawer).await;
    eventually("the claim", async || {
        let claimed = "SELECT COUNT(*) FROM activity WHERE draw_token > 0";
        match world.number(claimed).await {
            0 => Err("not claimed"),
            _ => Ok(()),
        }
    })
    .await;
    shows(&api, "luckybag_draw_leases_lost_total", 0.0).await;
    world
        .execute(
            "UPDATE activity SET draw_token = draw_token + 1, \
             lease_until = NOW(3) + INTERVAL 1 HOUR",
        )
        .await;

    shows(&api, "luckybag_draw_leases_lost_total", 1.0).await;

    reader.signal("CONT");
    world
        .execute("UPDATE activity SET lease_until = NOW(3)")
        .await;
    world.all_drawn(&[bag]).await;
    world.assert_drawn_once(&bag).await;
    drawer.stop().await;
    reader.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_is_cut_short_is_counted() {
    let world = World::new().await;
    let (reader, drawer, bag) =
        drain_that_does_not_end(&world, &[("DRAW__DRAIN_LIMIT_SECS", "1")]).await;
    let api = world.api(&drawer).await;

    shows(&api, "luckybag_drains_cut_short_total", 1.0).await;

    world.all_drawn(&[bag]).await;
    reader.signal("CONT");
    world.assert_drawn_once(&bag).await;
    drawer.stop().await;
    reader.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_while_mysql_is_away_shows_until_it_is_back() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let process = world.serve_with(&proxies.changes()).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, [101]).await;
    api.settled(&bag, 101).await;

    proxies.mysql.refuse();
    api.join_all(&bag, [102]).await;
    shows(&api, "luckybag_messages_held", 1.0).await;
    shows(&api, "luckybag_dependency_up", 2.0).await;
    shows_some(&api, "luckybag_stream_lag_seconds").await;
    proxies.mysql.resume();

    shows(&api, "luckybag_messages_held", 0.0).await;
    shows(&api, "luckybag_stream_lag_seconds", 0.0).await;
    shows(&api, "luckybag_dependency_up", 3.0).await;
    let reconnects = r#"luckybag_reconnects_total{server="mysql"}"#;
    eventually("the reconnect to be counted", async || {
        match metric(&metrics_page(&api.url).await, reconnects) {
            Some(count) if count >= 1.0 => Ok(()),
            other => Err(other),
        }
    })
    .await;
    process.stop().await;
    world.end().await;
}

/// Nobody takes the last figure for the present one.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_know_is_told_as_unknown() {
    const FROM_MYSQL: [&str; 5] = [
        "luckybag_draws_overdue",
        "luckybag_proofs_unpublished",
        "luckybag_results_wrong",
        "luckybag_stock_wrong_prizes",
        POOL_DRIFT,
    ];
    const POOL_DRIFT: &str = "luckybag_pool_drift_shards";
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let mut changes = proxies.changes();
    // Looks come by the sweep: 60 of them are a long time at one a second.
    changes.push(("SWEEPER__INTERVAL_MS", "50"));
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    api.open_bag(&BagSpec::waiting()).await;

    for (server, names) in [
        (&proxies.mysql, FROM_MYSQL.as_slice()),
        (&proxies.redis, &[POOL_DRIFT]),
    ] {
        for name in names {
            shows(&api, name, 0.0).await;
        }
        server.refuse();
        for name in names {
            eventually(&format!("{name} to be unknown"), async || {
                match metric(&metrics_page(&api.url).await, name) {
                    Some(value) if value.is_nan() => Ok(()),
                    other => Err(other),
                }
            })
            .await;
        }
        server.resume();
    }
    shows(&api, POOL_DRIFT, 0.0).await;

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_a_queue_is_counted() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let name = world
        .topology()
        .queue_name(luckybag::infra::broker::Queue::Presence);

    amqp.put(&name, b"no message of ours").await;

    let dead = r#"luckybag_queue_messages{queue="dead"}"#;
    let page = eventually("the dead letter to be counted", async || {
        let page = metrics_page(&api.url).await;
        match metric(&page, dead) {
            Some(1.0) => Ok(page),
            other => Err(other),
        }
    })
    .await;
    let counted = metric(&page, r#"luckybag_dead_lettered_total{queue="presence"}"#);
    assert_eq!(counted, Some(1.0), "{page}");

    process.stop().await;
    amqp.close().await;
    world.end().await;
}
