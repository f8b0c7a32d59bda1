//! While the admin database is away, nothing else is.

use std::time::Duration;

use luckybag::infra::outbox::EventKind;
use sea_orm::{ConnectionTrait, TransactionTrait};
use serde_json::json;

use super::{Copied, drawn_bag};
use crate::{
    harness::{
        authority, eventually, keep_alive, metric, metrics_page, nothing_happens_for, through,
    },
    proxy::Proxy,
};

/// What the proxy does to every connection.
type Harm = fn(&Proxy);

async fn a_bag_runs_without(harm: Harm) {
    let copied = Copied::new().await;
    let world = &copied.world;
    let proxy = Proxy::start(authority(&copied.url)).await;
    let url = through(&copied.url, proxy.addr());
    harm(&proxy);
    let process = world.serve_with(&[("ADMIN_DATABASE__URL", &url)]).await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let exchange = format!("{}.events", world.namespace);
    let mut events = amqp
        .listen(&exchange, EventKind::ActivityDrawn.as_str())
        .await;

    let bag = drawn_bag(world, &api, 8001).await;
    world.assert_drawn_once(&bag).await;
    let told = events.next().await;
    assert_eq!(told["data"]["activityId"], bag.id.to_string());
    eventually("all but the copies to be done", async || {
        const OTHERS: &str = "SELECT COUNT(*) FROM outbox WHERE kind <> 'adminCopy'";
        match world.number(OTHERS).await {
            0 => Ok(()),
            others => Err(others),
        }
    })
    .await;
    assert!(copied.waiting().await >= 3, "the copies wait");
    eventually("the metric to tell", async || {
        let page = metrics_page(&process.url().await).await;
        let age = metric(&page, "luckybag_admin_copy_age_seconds");
        let up = metric(&page, "luckybag_dependency_up{name=\"admin_database\"}");
        if age > Some(0.0) && up == Some(0.0) {
            Ok(())
        } else {
            Err((age, up))
        }
    })
    .await;

    proxy.resume();
    copied.assert_exact().await;
    assert_eq!(copied.count("win_record_copy").await, 2);
    amqp.close().await;
    process.stop().await;
    copied.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bag_runs_while_the_admin_database_refuses_and_is_copied_later() {
    a_bag_runs_without(Proxy::refuse).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bag_runs_while_the_admin_database_says_nothing_and_is_copied_later() {
    a_bag_runs_without(Proxy::stall).await;
}

/// It was there, and falls silent in the middle: a stop does not wait for it either.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_the_admin_database() {
    let copied = Copied::new().await;
    let world = &copied.world;
    let proxy = Proxy::start(authority(&copied.url)).await;
    let url = through(&copied.url, proxy.addr());
    let process = world.serve_with(&[("ADMIN_DATABASE__URL", &url)]).await;
    let api = world.api(&process).await;
    let draft = api.draft(&super::spec(8001)).await;
    copied.assert_exact().await;

    // A lock of somebody else keeps a copy under way until the server says nothing any more.
    let holdup = world.db.begin().await.expect("MySQL answers");
    let admin = &copied.admin;
    let lock = format!("SELECT id FROM {admin}.activity_copy WHERE id = {draft} FOR UPDATE");
    holdup.execute_unprepared(&lock).await.expect("locked");
    let (path, title) = (format!("/v1/activities/{draft}"), json!({ "title": "new" }));
    let renamed = api.patch(&api.host_of(8001), &path, title).await;
    renamed.expect(200);
    copied
        .has_waiting("info LIKE 'INSERT INTO activity_copy%'")
        .await;
    proxy.stall();
    holdup.rollback().await.expect("unlocked");
    process.stop().await;

    assert_eq!(copied.waiting().await, 1, "it is kept for the next process");
    proxy.resume();
    let process = world.serve_with(&[("ADMIN_DATABASE__URL", &url)]).await;
    // A claim of the process that was stopped has to run out.
    let claims = "UPDATE outbox SET not_before = NOW(3)";
    world.execute(claims).await;
    copied.assert_exact().await;
    process.stop().await;
    copied.end().await;
}

/// Somebody removes the tables, or the whole database, under a running process.
#[tokio::test(flavor = "multi_thread")]
async fn tables_that_were_removed_are_made_again_and_filled() {
    let copied = Copied::new().await;
    let world = &copied.world;
    let process = world.serve_with(&[copied.on()]).await;
    let api = world.api(&process).await;
    api.draft(&super::spec(8001)).await;
    copied.assert_exact().await;

    let admin = &copied.admin;
    let tables = format!(
        "DROP TABLE {admin}.activity_copy, {admin}.win_record_copy, {admin}._sqlx_migrations"
    );
    let database = format!("DROP DATABASE {admin}; CREATE DATABASE {admin} CHARACTER SET utf8mb4");
    for removal in [tables, database] {
        for statement in removal.split("; ") {
            world.execute(statement).await;
        }
        world.operate("copy-all", &[copied.on()]).await.printed();
        api.draft(&super::spec(8001)).await;
        copied.assert_exact().await;
    }

    process.stop().await;
    copied.end().await;
}

/// A lock of somebody else holds up the first migration when the stop is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_tables_that_are_being_made() {
    let copied = Copied::new().await;
    let (world, admin) = (&copied.world, &copied.admin);
    super::make_tables(&copied).await;
    world
        .execute(&format!("DROP TABLE {admin}.win_record_copy"))
        .await;
    world
        .execute(&format!(
            "DELETE FROM {admin}._sqlx_migrations WHERE version = 2"
        ))
        .await;
    let holdup = world.db.begin().await.expect("MySQL answers");
    let lock = format!("LOCK TABLES {admin}._sqlx_migrations READ");
    holdup.execute_unprepared(&lock).await.expect("locked");
    let stopping = async {
        let process = world.serve_with(&[copied.on()]).await;
        copied.has_waiting("state LIKE 'Waiting for table%'").await;

        process.signal("TERM");
        eventually("the stop to begin", async || {
            let lines = process.log_lines();
            let has_begun = lines.iter().any(|line| line.contains("\"stopping\""));
            has_begun.then_some(()).ok_or_else(|| process.log_tail())
        })
        .await;
        // A caller's statement would have given up by then.
        nothing_happens_for(Duration::from_secs(4)).await;
        process
    };
    let process = tokio::select! {
        process = stopping => process,
        () = keep_alive(&holdup) => unreachable!("it never ends"),
    };
    holdup
        .execute_unprepared("UNLOCK TABLES")
        .await
        .expect("unlocked");
    drop(holdup);

    let status = process.exit_status().await;
    assert_eq!(status.code(), Some(0), "{}", process.log_tail());
    assert_eq!(
        copied.count("win_record_copy").await,
        0,
        "the table is there"
    );
    let cut_off = "_sqlx_migrations WHERE success = 0";
    assert_eq!(copied.count(cut_off).await, 0);
    copied.end().await;
}
