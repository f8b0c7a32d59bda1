//! SIGTERM and SIGINT.

use std::time::{Duration, Instant};

use luckybag::{candidate::partition_of, kernel::UserId};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    harness::{
        Answer, Api, Bag, BagSpec, Proxies, World, eventually, metric, metrics_page, readyz,
        through,
    },
    proxy::free_address,
};

/// An activity whose draw is of no concern.
fn long_bag() -> BagSpec {
    BagSpec {
        countdown_secs: 600,
        ..BagSpec::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_process_answers_what_it_has_in_hand_and_says_it_is_not_ready() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let mut changes = proxies.changes();
    changes.extend([
        ("SERVER__OPS_BIND", "127.0.0.1:0"),
        ("RABBITMQ__CONFIRM_TIMEOUT_MS", "15000"),
    ]);
    let stopping = world.serve_with(&changes).await;
    let other = world.serve().await;
    let ops = stopping.health_url().await;
    let api = world.api(&stopping).await;
    let bag = api.open_bag(&long_bag()).await;
    let through_other = world.api(&other).await;
    outbox_is_empty(&world).await;

    proxies.rabbitmq.stall();
    let users = one_of_each_partition();
    let joining = joins_in_hand(&api, &bag, &users, &ops).await;
    stopping.signal("TERM");
    eventually("/readyz to say no", async || match readyz(&ops).await {
        (503, body) if body["status"] == "stopping" => Ok(()),
        other => Err(other),
    })
    .await;
    refuses_connections(&api.url).await;
    proxies.rabbitmq.resume();

    for join in joining {
        let answer = join.await.expect("the join ends");
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    assert_eq!(stopping.exit_status().await.code(), Some(0));
    assert_all_joined(&through_other, &bag, users).await;
    outbox_is_empty(&world).await;
    other.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_accepted_just_before_a_stop_are_settled_by_whoever_is_left_or_comes() {
    let world = World::new().await;
    let first = world.serve().await;
    let second = world.serve().await;
    let api = world.api(&first).await;
    let bag = api.open_bag(&long_bag()).await;

    api.join_all(&bag, 101..=300).await;
    first.signal("INT");
    assert_eq!(first.exit_status().await.code(), Some(0));
    let api = world.api(&second).await;
    assert_all_joined(&api, &bag, 101..=300).await;

    // Now nobody is left.
    api.join_all(&bag, 301..=500).await;
    second.signal("TERM");
    assert_eq!(second.exit_status().await.code(), Some(0));
    let third = world.serve().await;
    let api = world.api(&third).await;
    assert_all_joined(&api, &bag, 301..=500).await;

    outbox_is_empty(&world).await;
    third.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_every_server_is_away_ends_within_the_grace_time() {
    let world = World::new().await;
    let grace = Duration::from_secs(16);
    let grace_secs = grace.as_secs().to_string();
    let (gone, silent) = (Proxies::of(&world).await, Proxies::of(&world).await);
    let mut processes = Vec::new();
    for proxies in [&gone, &silent] {
        let mut changes = proxies.changes();
        changes.push(("SERVER__SHUTDOWN_GRACE_SECS", &grace_secs));
        changes.push(("SERVER__SEND_TIMEOUT_SECS", "3"));
        processes.push(world.serve_with(&changes).await);
    }
    let api = world.api(&processes[0]).await;
    let bag = api.open_bag(&long_bag()).await;
    api.join_all(&bag, 101..=120).await;

    for (_, proxy) in gone.by_name() {
        proxy.refuse();
    }
    for (_, proxy) in silent.by_name() {
        proxy.stall();
    }
    let began = Instant::now();
    for process in &processes {
        process.signal("TERM");
    }

    assert_eq!(processes[0].exit_status().await.code(), Some(0));
    assert!(began.elapsed() < grace, "{:?}", began.elapsed());
    // What a silent server has in hand cannot be finished, and the exit code may say so.
    processes[1].exit_status().await;
    assert!(began.elapsed() < grace + ALLOWANCE, "{:?}", began.elapsed());
    let again = world.serve().await;
    let api = world.api(&again).await;
    assert_all_joined(&api, &bag, 101..=120).await;
    again.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_it_waits_for_a_server_to_start_ends_at_once() {
    let world = World::new().await;
    let silent = Proxies::of(&world).await;
    for (_, proxy) in silent.by_name() {
        proxy.stall();
    }
    let nobody = free_address();
    let of = |index: usize| silent.changes()[index];
    let waiting = [
        world.spawn(&[("MYSQL__URL", &through(&world.mysql_url, nobody))]),
        world.spawn(&[of(0)]),
        world.spawn(&[("REDIS__URL", &through(&world.redis_url, nobody))]),
        world.spawn(&[("RABBITMQ__URL", &through(&world.rabbitmq_url, nobody))]),
        world.spawn(&[of(2)]),
    ];
    for process in &waiting {
        let url = process.url().await;
        assert_eq!(readyz(&url).await.0, 503);
    }

    let began = Instant::now();
    for process in &waiting {
        process.signal("TERM");
    }

    for process in &waiting {
        let status = process.exit_status().await;
        assert_eq!(status.code(), Some(0), "{}", process.log_tail());
    }
    // The grace time is 20 s.
    assert!(began.elapsed() < ALLOWANCE, "{:?}", began.elapsed());
    world.end().await;
}

/// What a busy machine may need to end some processes that have nothing to do.
const ALLOWANCE: Duration = Duration::from_secs(15);

/// Users whose joins do not wait behind each other.
fn one_of_each_partition() -> [u64; 2] {
    [0, 1].map(|partition| {
        (7001..=7100)
            .find(|user| partition_of(UserId(*user), 2) == partition)
            .expect("a user")
    })
}

type Joining = tokio::task::JoinHandle<Answer>;

/// Starts joins, and returns once the process at `ops` has sent them and awaits the confirms.
async fn joins_in_hand(api: &Api, bag: &Bag, users: &[u64], ops: &str) -> Vec<Joining> {
    let mut joining = Vec::new();
    for &user in users {
        let (api, path) = (api.clone(), bag.path("/join"));
        #[expect(clippy::disallowed_methods, reason = "awaited by the test")]
        joining.push(tokio::spawn(async move {
            api.post(&api.viewer(user), &path, None).await
        }));
        eventually("the join's message", async || {
            let page = metrics_page(ops).await;
            let messages = metric(&page, "luckybag_join_batch_size_count");
            if messages.is_some_and(|messages| messages.to_string() == joining.len().to_string()) {
                Ok(())
            } else {
                Err(messages)
            }
        })
        .await;
    }
    joining
}

async fn refuses_connections(url: &str) {
    let client = reqwest::Client::new();
    eventually("new connections to be refused", async || {
        match client.get(url).send().await {
            Err(error) if error.is_connect() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

async fn assert_all_joined(api: &Api, bag: &Bag, users: impl IntoIterator<Item = u64>) {
    for user in users {
        let me = api.settled(bag, user).await;
        assert_eq!(me["participation"], "joined", "{user}: {me}");
    }
}

async fn outbox_is_empty(world: &World) {
    eventually("the outbox to be empty", async || {
        match world.number("SELECT COUNT(*) FROM outbox").await {
            0 => Ok(()),
            rows => Err(rows),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_arrive_holds_neither_its_connection_nor_a_stop() {
    let world = World::new().await;
    let process = world
        .serve_with(&[("SERVER__CLIENT_BODY_TIMEOUT_MS", "1000")])
        .await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&long_bag()).await;

    let mut stalled = send_half_a_join(&api, &bag).await;
    let mut answer = Vec::new();
    stalled
        .read_to_end(&mut answer)
        .await
        .expect("the connection is closed");
    let another = send_half_a_join(&api, &bag).await;
    process.stop().await;

    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("body_timeout"), "{answer}");
    drop(another);
    world.end().await;
}

/// A join whose body never comes to its end.
async fn send_half_a_join(api: &Api, bag: &Bag) -> TcpStream {
    let address = api.url.strip_prefix("http://").expect("an HTTP URL");
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 60\r\n\r\n{{",
        bag.path("/join"),
        api.viewer(101),
    );
    stream
        .write_all(head.as_bytes())
        .await
        .expect("the head is sent");
    stream
}
