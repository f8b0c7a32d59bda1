//! Streams while servers are away.

use super::Stream;
use crate::harness::{BagSpec, Proxies, World, named_down};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_an_outage_of_redis_and_of_mysql() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let mut changes = proxies.changes();
    changes.push(("LIVE__HEARTBEAT_SECS", "1"));
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let mut stream = api.listen(&bag, 7).await;
    stream.next_named("participants").await;

    proxies.redis.refuse();
    named_down(&api.url, 200, &["redis"]).await;
    api.join_all(&bag, 101..=103).await;
    let is_three = |data: &serde_json::Value| data["count"] == 3;
    stream.next_where("participants", is_three).await;

    proxies.mysql.refuse();
    named_down(&api.url, 200, &["redis", "mysql"]).await;
    let before = stream.comments;
    stream.comments(before + 3).await;
    // Who comes now hears what is known.
    let mut late = Stream::open(&api, &api.viewer(8), &bag.path("/events")).await;
    assert_eq!(late.next().await.expect("the state").data["status"], "open");
    assert_eq!(late.next_named("participants").await.data["count"], 3);

    proxies.mysql.resume();
    proxies.redis.resume();
    named_down(&api.url, 200, &[]).await;
    world.draw_soon(&[bag]).await;
    for stream in [&mut stream, &mut late] {
        assert_eq!(stream.next_named("drawn").await.data["round"], 1);
    }

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draw_is_told_while_redis_answers_nothing() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let mut changes = proxies.changes();
    // Draws nothing itself.
    changes.push(("SWEEPER__ENABLED", "false"));
    changes.push(("DRAW__MESSAGES_ENABLED", "false"));
    let (process, drawing) = (world.serve_with(&changes).await, world.serve().await);
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 101..=103).await;
    let mut stream = api.listen(&bag, 7).await;
    stream.next_named("participants").await;

    proxies.redis.stall();
    world.draw_soon(&[bag]).await;

    assert_eq!(stream.next_named("drawn").await.data["round"], 1);
    proxies.redis.resume();
    process.stop().await;
    drawing.stop().await;
    world.end().await;
}
