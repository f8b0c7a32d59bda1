//! What keeps `luckybag serve` from starting, and how it says so.

use std::net::TcpListener;

use crate::harness::{Process, World, readyz};

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_partitions_than_the_installation_has_is_refused() {
    let world = World::new().await;
    world.serve().await.stop().await;

    let error = refusal(world.spawn(&[("STREAM__PARTITIONS", "3")]), 1).await;

    assert!(error.contains("stream.partitions is 3"), "{error}");
    assert!(error.contains("this installation has 2"), "{error}");
    // The refused start has changed nothing.
    world.serve().await.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_signing_secret_is_refused_by_the_name_of_its_variable() {
    let world = World::new().await;

    let error = refusal(world.spawn(&[("AUTH__SIGNING_SECRET", "")]), 2).await;

    assert!(error.contains("LUCKYBAG__AUTH__SIGNING_SECRET"), "{error}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_refused_by_its_name() {
    let world = World::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();

    for key in ["SERVER__BIND", "SERVER__OPS_BIND"] {
        let error = refusal(world.spawn(&[(key, &address)]), 1).await;

        assert!(
            error.contains(&format!("cannot listen on {address}: ")),
            "{key}: {error}"
        );
        assert!(error.contains("in use"), "{key}: {error}");
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_another_version_has_changed_is_refused_and_not_waited_for() {
    let world = World::new().await;
    world
        .execute("UPDATE _sqlx_migrations SET checksum = 'x' WHERE version = 1")
        .await;

    let error = refusal(world.spawn(&[]), 1).await;

    assert!(error.contains("schema"), "{error}");
    assert!(error.contains("migration 1 "), "{error}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_shows_as_a_server_that_is_away_with_the_reason_in_the_log() {
    let world = World::new().await;
    let url = world.mysql_url.replace("root@", "nobody:hunter2@");

    let process = world.spawn(&[("MYSQL__URL", &url)]);

    let address = process.url().await;
    crate::harness::eventually("the reason in the log", async || {
        let lines = process.log_lines();
        if lines.iter().any(|line| line.contains("Access denied")) {
            Ok(())
        } else {
            Err(lines)
        }
    })
    .await;
    assert_eq!(readyz(&address).await.1["dependencies"]["mysql"], "down");
    assert!(!process.log_lines().concat().contains("hunter2"));
    process.stop().await;
    world.end().await;
}

/// The last line of a process that has to end by itself with `code`.
async fn refusal(process: Process, code: i32) -> String {
    let status = process.exit_status().await;
    assert_eq!(status.code(), Some(code), "{}", process.log_tail());
    process.log_lines().pop().expect("an error")
}
