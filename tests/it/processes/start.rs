//! Servers that are away when the process starts, or go away later.

use serde_json::json;

use crate::{
    harness::{
        BagSpec, Process, Proxies, World, authority, eventually, luckybag, metric, metrics_page,
        named_down, readyz, through,
    },
    proxy::{Proxy, free_address},
};

#[tokio::test(flavor = "multi_thread")]
async fn it_starts_before_its_servers_and_is_ready_once_all_of_them_have_come() {
    let world = World::new().await;
    let (at_mysql, at_redis, at_rabbitmq) = (free_address(), free_address(), free_address());
    let process = world.spawn(&[
        ("MYSQL__URL", &through(&world.mysql_url, at_mysql)),
        ("REDIS__URL", &through(&world.redis_url, at_redis)),
        ("RABBITMQ__URL", &through(&world.rabbitmq_url, at_rabbitmq)),
    ]);
    let url = process.url().await;
    let api = world.api(&process).await;

    assert_alive(&url).await;
    let starting = json!({
        "status": "starting",
        "dependencies": { "mysql": "down", "redis": "down", "rabbitmq": "down" },
    });
    assert_eq!(readyz(&url).await, (503, starting));
    let early = api.get(&api.viewer(7), "/v1/activities/1").await;
    early.expect_problem(503, "unavailable");
    let mysql = Proxy::start_at(at_mysql, authority(&world.mysql_url)).await;
    named_down(&url, 503, &["redis", "rabbitmq"]).await;
    let redis = Proxy::start_at(at_redis, authority(&world.redis_url)).await;
    named_down(&url, 503, &["rabbitmq"]).await;
    let rabbitmq = Proxy::start_at(at_rabbitmq, authority(&world.rabbitmq_url)).await;

    process.ready().await;
    assert_takes_joins(&world, &process).await;
    process.stop().await;
    drop((mysql, redis, rabbitmq));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_that_is_away_at_the_start_is_named_and_waited_for() {
    let world = World::new().await;
    let mut starts = Vec::new();
    for away in ["mysql", "redis", "rabbitmq"] {
        let proxies = Proxies::of(&world).await;
        proxies.named(away).refuse();
        starts.push((away, world.spawn(&proxies.changes()), proxies));
    }

    for (away, process, proxies) in &starts {
        let url = process.url().await;
        let body = named_down(&url, 503, &[away]).await;
        assert_eq!(body["status"], "starting", "{body}");
        assert_alive(&url).await;

        proxies.named(away).resume();
        process.ready().await;
    }

    for (_, process, _) in starts {
        process.stop().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_later_degrades_the_process_until_it_is_back() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let process = world.serve_with(&proxies.changes()).await;
    let url = process.url().await;

    for (name, proxy) in proxies.by_name() {
        proxy.refuse();
        assert_degraded(&url, name).await;
        proxy.resume();
        assert_recovers(&url, name).await;
    }
    // Silent, which is worse than gone. RabbitMQ's silence shows after two heartbeats only.
    for (name, proxy) in [("mysql", &proxies.mysql), ("redis", &proxies.redis)] {
        proxy.stall();
        assert_degraded(&url, name).await;
        proxy.resume();
        assert_recovers(&url, name).await;
    }

    assert_takes_joins(&world, &process).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_start_at_once_on_an_empty_database_migrate_it_once() {
    let world = World::without_schema().await;

    let processes = [world.spawn(&[]), world.spawn(&[]), world.spawn(&[])];

    for process in &processes {
        process.ready().await;
    }
    let migrated = migrations(&world).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
    // The folder of the admin database's own is none of them.
    let files = std::fs::read_dir(folder).expect("migrations/");
    let names = files.map(|file| file.expect("a file").file_name());
    let files = names.filter(|name| name.to_string_lossy().ends_with(".sql"));
    assert_eq!(migrated.len(), files.count());
    for time in ["first", "second"] {
        let finished = luckybag(&["migrate"], world.variables());
        assert_eq!(finished.code, Some(0), "{time}: {}", finished.stderr);
        assert_eq!(migrations(&world).await, migrated, "{time}");
    }
    for process in processes {
        process.stop().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_alone_prepares_a_database_for_processes_that_must_not() {
    let world = World::without_schema().await;

    let unprepared = world.spawn(&[("MYSQL__MIGRATE", "false")]);
    let url = unprepared.url().await;
    named_down(&url, 503, &[]).await;
    let finished = luckybag(&["migrate"], world.variables());

    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
    unprepared.ready().await;
    unprepared.stop().await;
    world.end().await;
}

/// What sqlx noted of each migration: its version, its success and when it ran.
async fn migrations(world: &World) -> Vec<(i64, bool, String)> {
    use sea_orm::ConnectionTrait;

    let query = "SELECT version, success, CAST(installed_on AS CHAR) AS installed_on \
                 FROM _sqlx_migrations ORDER BY version";
    let rows = world
        .db
        .query_all_raw(luckybag::infra::mysql::sql(query, []))
        .await
        .expect(query);
    rows.iter()
        .map(|row| {
            (
                row.try_get("", "version").expect("version"),
                row.try_get("", "success").expect("success"),
                row.try_get("", "installed_on").expect("installed_on"),
            )
        })
        .collect()
}

async fn assert_alive(url: &str) {
    let answer = reqwest::get(format!("{url}/healthz"))
        .await
        .expect("/healthz");
    assert_eq!(answer.status(), 200);
}

/// `/readyz` keeps answering 200 meanwhile.
async fn assert_degraded(url: &str, name: &str) {
    let body = named_down(url, 200, &[name]).await;
    assert_eq!(body["status"], "degraded", "{body}");
    let page = metrics_page(url).await;
    let series = format!("luckybag_dependency_up{{name=\"{name}\"}}");
    assert_eq!(metric(&page, &series), Some(0.0), "{page}");
}

async fn assert_recovers(url: &str, name: &str) {
    let body = named_down(url, 200, &[]).await;
    assert_eq!(body["status"], "ready", "{body}");
    let page = metrics_page(url).await;
    let series = format!("luckybag_dependency_up{{name=\"{name}\"}}");
    assert_eq!(metric(&page, &series), Some(1.0), "{page}");
}

/// The first calls after an outage may still meet a connection that has not noticed its end.
async fn assert_takes_joins(world: &World, process: &Process) {
    let api = world.api(process).await;
    let bag = api
        .open_bag(&BagSpec {
            countdown_secs: 600,
            ..BagSpec::default()
        })
        .await;
    eventually("a join to be accepted", async || {
        let answer = api.post(&api.viewer(7), &bag.path("/join"), None).await;
        if answer.status == 202 {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
    let me = api.settled(&bag, 7).await;
    assert_eq!(me["participation"], "joined", "{me}");
}
