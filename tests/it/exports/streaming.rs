//! Files while they are on their way: bounded memory, broken ends, few at a time.

use std::fs;

use luckybag::{http::Role, kernel::UserId};
use reqwest::{Method, Response};

use crate::harness::{
    Api, Bag, BagSpec, Process, Proxies, World, eventually, metric, metrics_page,
};

/// A file of some 18 MB: more than all buffers between the service and its caller.
const CROWD: u32 = 200_000;

async fn crowded(world: &World, api: &Api) -> Bag {
    let bag = api.open_bag(&BagSpec::waiting()).await;
    world.crowd(&bag, CROWD).await;
    bag
}

impl Api {
    /// A file of which a little was taken.
    async fn begun(&self, bag: &Bag) -> Response {
        self.begun_by(&self.operator(), bag).await
    }

    async fn begun_by(&self, token: &str, bag: &Bag) -> Response {
        let path = bag.path("/participants.csv");
        let mut answer = self.ask_for(Method::GET, token, &path).await;
        assert_eq!(answer.status(), 200);
        let first = answer.chunk().await.expect("a chunk");
        assert!(!first.expect("bytes").is_empty());
        answer
    }
}

/// Takes the rest of a file: its length, or `None` when it broke off.
async fn rest_of(mut answer: Response) -> Option<usize> {
    let mut length = 0;
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) => length += chunk.len(),
            Ok(None) => return Some(length),
            Err(_) => return None,
        }
    }
}

/// Waits until the service has seen an export end like this.
async fn until_ended(process: &Process, outcome: &str) {
    let series = format!("luckybag_exports_total{{kind=\"participants\",outcome=\"{outcome}\"}}");
    eventually("the export to end", async || {
        let page = metrics_page(&process.url().await).await;
        metric(&page, &series).ok_or(page)
    })
    .await;
}

/// A line of /proc/<pid>/status, in kilobytes.
fn kilobytes(process: &Process, line: &str) -> u64 {
    let path = format!("/proc/{}/status", process.pid());
    let status = fs::read_to_string(path).expect("the process runs");
    let value = status.lines().find_map(|text| text.strip_prefix(line));
    let number = value
        .expect(line)
        .trim_start_matches(':')
        .split_whitespace()
        .next();
    number.expect("a number").parse().expect("digits")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_file_takes_little_memory_however_slowly_it_is_taken() {
    const BOUND_KB: u64 = 8_000;
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let small = api
        .open_bag(&BagSpec {
            room: 8002,
            ..BagSpec::waiting()
        })
        .await;
    world.crowd(&small, 5_000).await;
    let bag = crowded(&world, &api).await;
    // What an export needs at all is there before.
    api.export(&small, "participants").await;
    let before_kb = kilobytes(&process, "VmHWM");

    let path = bag.path("/participants.csv");
    let mut answer = api.ask_for(Method::GET, &api.operator(), &path).await;
    let mut rows = 0;
    while let Some(chunk) = answer.chunk().await.expect("a chunk") {
        rows += chunk.split(|byte| *byte == b'\n').count() - 1;
        tokio::task::yield_now().await;
    }

    let grown_kb = kilobytes(&process, "VmHWM") - before_kb;
    let with_head = usize::try_from(CROWD).expect("a size") + 1;
    assert_eq!(rows, with_head, "rows of the file");
    assert!(grown_kb < BOUND_KB, "{grown_kb} kB for a file of 18 MB");
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_breaks_off_when_mysql_dies_in_its_middle() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let process = world.serve_with(&proxies.changes()).await;
    let api = world.api(&process).await;
    let bag = crowded(&world, &api).await;

    let answer = api.begun(&bag).await;
    proxies.mysql.refuse();

    assert_eq!(rest_of(answer).await, None, "half a file looks whole");
    until_ended(&process, "failed").await;
    let asked = api
        .get(&api.operator(), &bag.path("/participants.csv"))
        .await;
    asked.expect_problem(503, "unavailable");

    proxies.mysql.resume();
    eventually("a whole file", async || {
        let path = bag.path("/participants.csv");
        let answer = api.ask_for(Method::GET, &api.operator(), &path).await;
        rest_of(answer).await.ok_or("broken off")
    })
    .await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_breaks_off_when_its_rows_are_removed_meanwhile() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = crowded(&world, &api).await;

    let answer = api.begun(&bag).await;
    let removed = "UPDATE activity SET participants_removed_at = NOW(3)";
    world.execute(removed).await;

    assert_eq!(rest_of(answer).await, None, "what was removed is missing");
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn few_files_are_made_at_a_time_one_for_a_user_and_one_that_is_left_makes_room() {
    let world = World::new().await;
    // Those who take nothing here are not cut off before they are needed.
    let patient = [
        ("SERVER__SEND_TIMEOUT_SECS", "50"),
        ("SERVER__SHUTDOWN_GRACE_SECS", "110"),
    ];
    let process = world.serve_with(&patient).await;
    let api = world.api(&process).await;
    let bag = crowded(&world, &api).await;
    let path = bag.path("/participants.csv");

    let one = api.begun(&bag).await;
    let own = api.get(&api.operator(), &path).await;
    own.expect_problem(503, "exports_busy");
    let host = api.host_of(bag.room);
    let two = api.begun_by(&host, &bag).await;
    let third = api.token(UserId(4), Role::Operator, &[]);
    let busy = api.get(&third, &path).await;
    assert_eq!(busy.header("retry-after"), "10");
    busy.expect_problem(503, "exports_busy");
    // No turn at MySQL is held for callers who take nothing.
    let stats = api.get(&api.operator(), &bag.path("/stats")).await;
    stats.expect(200);

    drop(one);
    until_ended(&process, "left").await;
    let three = api.begun(&bag).await;
    assert!(rest_of(two).await.is_some() && rest_of(three).await.is_some());
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_breaks_a_file_off_and_does_not_wait_for_its_end() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = crowded(&world, &api).await;

    let answer = api.begun(&bag).await;
    process.signal("TERM");

    assert_eq!(rest_of(answer).await, None, "half a file looks whole");
    let status = process.exit_status().await;
    assert!(status.success(), "{status}\n{}", process.log_tail());
    world.end().await;
}
