//! Many who listen, and many who join.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, future::join_all, stream};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use super::{Event, Stream};
use crate::harness::{Api, Bag, BagSpec, World};

#[tokio::test(flavor = "multi_thread")]
async fn participants_are_counted_at_most_twice_a_second() {
    const ALONE: u64 = 40;
    const JOINS: u64 = 400;
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let started = Instant::now();
    let mut stream = api.listen(&bag, 7).await;

    let mut counts = counts_up_to(&mut stream, 0).await;
    for first in (0..ALONE).step_by(10) {
        api.join_all(&bag, 101 + first..111 + first).await;
        counts.extend(counts_up_to(&mut stream, first + 10).await);
    }
    let (crowd, ()) = tokio::join!(
        counts_up_to(&mut stream, ALONE + JOINS),
        join_slowly(&api, &bag, JOINS)
    );
    counts.extend(crowd);

    // One more than half seconds lie between them.
    let most = started.elapsed().as_millis() / 500 + 1;
    let told = u128::try_from(counts.len()).expect("a count");
    assert!(told <= most, "{told} counts instead of {most}");
    let numbers: Vec<u64> = counts.iter().map(count).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");

    process.stop().await;
    world.end().await;
}

fn count(event: &Event) -> u64 {
    event.data["count"].as_u64().expect("a count")
}

async fn counts_up_to(stream: &mut Stream, last: u64) -> Vec<Event> {
    let mut counts = Vec::new();
    loop {
        let event = stream.next_named("participants").await;
        let is_last = count(&event) == last;
        counts.push(event);
        if is_last {
            return counts;
        }
    }
}

/// Joins in the time of several counts, a few at once.
async fn join_slowly(api: &Api, bag: &Bag, joins: u64) {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    for first in (0..joins).step_by(10) {
        ticks.tick().await;
        api.join_all(bag, 1_001 + first..1_011 + first).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_of_a_crowd_hears_of_the_draw_exactly_once() {
    const LISTENERS: u64 = 1_000;
    allow_many_connections();
    let world = World::new().await;
    let process = world.serve_with(&[("LIVE__LINGER_SECS", "5")]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 101..=110).await;
    let (token, path) = (api.service(), bag.path("/events"));
    let streams: Vec<Stream> = stream::iter(0..LISTENERS)
        .map(|_| Stream::open(&api, &token, &path))
        .buffer_unordered(32)
        .collect()
        .await;

    world.draw_soon(&[bag]).await;
    let heard = join_all(streams.into_iter().map(to_the_end)).await;

    let mut advices = BTreeSet::new();
    let mut retries = BTreeSet::new();
    for (retry_ms, events) in &heard {
        retries.insert(retry_ms);
        let drawn: Vec<&Value> = events
            .iter()
            .filter(|event| event.name == "drawn")
            .map(|event| &event.data)
            .collect();
        assert_eq!(drawn.len(), 1, "{events:?}");
        assert_eq!(drawn[0]["round"], 1);
        advices.insert(drawn[0]["nextPollMs"].as_u64().expect("an advice"));
        assert_eq!(events.last().expect("an end").name, "end");
    }
    // 1,000 of 2,001 milliseconds, by chance: about 787 different ones.
    assert!(advices.len() > 500, "{} different advices", advices.len());
    assert!(retries.len() > 500, "{} different pauses", retries.len());
    process.stop().await;
    world.end().await;
}

/// As many open files as this process may have: often 1,024, unless it asks for more.
fn allow_many_connections() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit");
}

/// When a client is to come again, and everything that it heard.
async fn to_the_end(mut stream: Stream) -> (u64, Vec<Event>) {
    let events = stream.rest().await;
    (stream.retry_ms.expect("an advice"), events)
}
