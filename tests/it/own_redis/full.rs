//! A Redis server whose memory is full: it reads, and refuses to write.

use crate::harness::{BagSpec, RedisServer, World, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_refuses_to_write_does_not_keep_an_older_detail() {
    let world = World::new().await;
    let redis = RedisServer::start().await;
    let url = redis.url();
    let process = world.serve_with(&[("REDIS__URL", &url)]).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let key = world.keys().activity(bag.id);
    eventually("a copy of the open bag", async || {
        let copy = redis.run(&["GET", &key]).await.concat();
        if copy.contains(r#""open""#) {
            Ok(())
        } else {
            Err(copy)
        }
    })
    .await;

    redis.run(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let cancelled = api.post(&api.operator(), &bag.path("/cancel"), None).await;
    cancelled.expect(200);
    eventually("the older copy to be gone", async || {
        let copy = redis.run(&["GET", &key]).await.concat();
        if copy.is_empty() { Ok(()) } else { Err(copy) }
    })
    .await;

    let other = world.serve_with(&[("REDIS__URL", &url)]).await;
    let at_other = world.api(&other).await;
    let shown = at_other.get(&at_other.viewer(1), &bag.path("")).await;
    assert_eq!(shown.expect(200)["status"], "cancelled");
    process.stop().await;
    other.stop().await;
    world.end().await;
}
