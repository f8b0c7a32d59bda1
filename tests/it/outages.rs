//! Joining while one of the three servers is away, or answers nothing.

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use fred::interfaces::KeysInterface;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    harness::{Answer, Api, Bag, BagSpec, Process, World, eventually},
    proxy::Proxy,
};

/// A process that reaches one of its servers through a proxy.
struct Behind {
    world: World,
    proxy: Proxy,
    process: Process,
    api: Api,
}

impl Behind {
    /// `setting` holds the address of the server.
    async fn new(setting: &str, url: impl Fn(&World) -> String) -> Self {
        Self::with(setting, url, &[]).await
    }

    /// The same with other settings besides.
    async fn with(setting: &str, url: impl Fn(&World) -> String, changes: &[(&str, &str)]) -> Self {
        let world = World::new().await;
        let url = url(&world);
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let (login, rest) = match rest.split_once('@') {
            Some((login, rest)) => (format!("{login}@"), rest),
            None => (String::new(), rest),
        };
        let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
        let proxy = Proxy::start(server).await;
        let through = format!("{scheme}://{login}{}/{path}", proxy.addr());
        let changes = [&[(setting, through.as_str())], changes].concat();
        let process = world.serve_with(&changes).await;
        let api = world.api(&process).await;
        Self {
            world,
            proxy,
            process,
            api,
        }
    }

    async fn long_bag(&self, room: u64) -> Bag {
        let spec = BagSpec {
            room,
            countdown_secs: 600,
            ..BagSpec::default()
        };
        self.api.open_bag(&spec).await
    }

    /// Waits until `/readyz` says that the dependency is `state`; it stays 200 all the time.
    async fn shows(&self, dependency: &str, state: &str) {
        let url = format!("{}/readyz", self.api.url);
        eventually("readiness", async || {
            let answer = self.api.http.get(&url).send().await.expect("an answer");
            assert_eq!(answer.status().as_u16(), 200);
            let body = answer.bytes().await.expect("a body");
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            let whole = if state == "up" { "ready" } else { "degraded" };
            let expected = json!([whole, state]);
            if json!([body["status"], body["dependencies"][dependency]]) == expected {
                Ok(())
            } else {
                Err(body)
            }
        })
        .await;
    }

    async fn admitted(&self, bag: &Bag, users: impl IntoIterator<Item = u64>) {
        let expected: BTreeSet<u64> = users.into_iter().collect();
        eventually("the joins to be admitted", async || {
            let joined = self.world.participants(bag, "joined").await;
            if joined == expected {
                Ok(())
            } else {
                Err(joined)
            }
        })
        .await;
    }

    async fn revised_once(&self) {
        let changed = "SELECT COUNT(*) FROM participation WHERE revision <> 1";
        assert_eq!(self.world.number(changed).await, 0);
    }

    async fn pool_is_right(&self, bag: &Bag) {
        eventually("the pool", async || self.world.check_pool(bag).await).await;
    }

    async fn end(self) {
        let amqp = self.world.amqp().await;
        self.process.stop().await;
        self.world.assert_drained(&amqp).await;
        amqp.close().await;
        self.world.end().await;
    }
}

impl Api {
    /// Repeats joins until all of them are accepted.
    async fn taken_at_last(&self, bag: &Bag, users: RangeInclusive<u64>) {
        eventually("joins to be taken", async || {
            let answers = self.try_join_all(bag, users.clone()).await;
            let refused = answers
                .values()
                .find(|answer| answer.status.as_u16() != 202);
            refused.cloned().map_or(Ok(()), Err)
        })
        .await;
    }
}

fn rabbitmq(world: &World) -> String {
    world.rabbitmq_url.clone()
}

fn assert_try_later(answer: Answer, codes: &[&str]) {
    let retry_after: u64 = answer.header("retry-after").parse().expect("seconds");
    let body = answer.expect(503);
    let code = body["code"].as_str().expect("a code");
    assert!(codes.contains(&code), "{body}");
    assert!((1..=10).contains(&retry_after), "{retry_after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_broker_a_join_is_told_to_try_later_and_nothing_is_lost() {
    // So long that it shows whether somebody has waited for a confirm.
    let patient = [("RABBITMQ__CONFIRM_TIMEOUT_MS", "12000")];
    let behind = Behind::with("RABBITMQ__URL", rabbitmq, &patient).await;
    let (api, proxy) = (&behind.api, &behind.proxy);
    let bag = behind.long_bag(1).await;
    api.join_all(&bag, 1..=10).await;
    behind.admitted(&bag, 1..=10).await;

    proxy.refuse();
    let asked_at = Instant::now();
    let refused = api.try_join(&bag, 11, None).await;
    let waited = asked_at.elapsed();
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    assert_try_later(refused, &["join_unavailable", "join_outcome_unknown"]);
    behind.shows("rabbitmq", "down").await;
    let asked_at = Instant::now();
    let refused = api.try_join(&bag, 11, None).await;
    let waited = asked_at.elapsed();
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    assert_try_later(refused, &["join_unavailable"]);
    // What needs no broker goes on.
    api.assert_settled(&bag, 1, ("joined", None)).await;

    proxy.resume();
    behind.shows("rabbitmq", "up").await;
    eventually("joins to be taken again", async || {
        let answer = api.try_join(&bag, 11, None).await;
        if answer.status.as_u16() == 202 {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
    api.join_all(&bag, 12..=20).await;
    behind.admitted(&bag, 1..=20).await;
    behind.revised_once().await;
    behind.pool_is_right(&bag).await;
    behind.end().await;
}

/// It takes what it is given, and says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_broker_is_silent_a_join_is_told_to_try_later_and_nothing_is_lost() {
    let impatient = [("RABBITMQ__CONFIRM_TIMEOUT_MS", "2000")];
    let behind = Behind::with("RABBITMQ__URL", rabbitmq, &impatient).await;
    let (api, proxy) = (&behind.api, &behind.proxy);
    let bag = behind.long_bag(1).await;
    api.taken_at_last(&bag, 1..=20).await;
    behind.admitted(&bag, 1..=20).await;

    proxy.stall();
    let asked_at = Instant::now();
    let answers = api.try_join_all(&bag, 21..=40).await;
    let waited = asked_at.elapsed();
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    for answer in answers.into_values() {
        assert_try_later(answer, &["join_unavailable", "join_outcome_unknown"]);
    }
    proxy.resume();
    api.taken_at_last(&bag, 21..=40).await;

    behind.admitted(&bag, 1..=40).await;
    behind.revised_once().await;
    behind.pool_is_right(&bag).await;
    behind.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_joins_are_admitted_and_drawn_and_the_pool_is_repaired_later() {
    let behind = Behind::new("REDIS__URL", |world| world.redis_url.clone()).await;
    let (api, proxy) = (&behind.api, &behind.proxy);
    let bag = behind.long_bag(1).await;
    api.join_all(&bag, 1..=10).await;
    behind.admitted(&bag, 1..=10).await;
    let drawn = api
        .open_bag(&BagSpec {
            room: 2,
            ..BagSpec::waiting()
        })
        .await;
    api.join_all(&drawn, 1..=10).await;

    proxy.refuse();
    behind.shows("redis", "down").await;
    api.join_all(&bag, 11..=20).await;
    api.join_all(&drawn, 11..=20).await;
    for bag in [&bag, &drawn] {
        api.assert_settled(bag, 20, ("joined", None)).await;
        api.assert_settled(bag, 1, ("joined", None)).await;
    }
    behind.admitted(&bag, 1..=20).await;
    behind.world.draw_alone_soon(&drawn).await;
    let detail = api.drawn(&drawn).await;
    assert_eq!(detail["participants"], 20, "{detail}");
    behind.world.assert_drawn_once(&drawn).await;
    assert_eq!(api.winners(&drawn).await.len(), 3);
    proxy.resume();
    behind.shows("redis", "up").await;
    behind.pool_is_right(&bag).await;

    proxy.stall();
    let asked_at = Instant::now();
    api.join_all(&bag, 21..=30).await;
    api.assert_settled(&bag, 30, ("joined", None)).await;
    api.assert_settled(&bag, 1, ("joined", None)).await;
    let waited = asked_at.elapsed();
    assert!(waited < Duration::from_secs(15), "{waited:?}");
    behind.admitted(&bag, 1..=30).await;
    behind.shows("redis", "down").await;
    proxy.resume();
    behind.shows("redis", "up").await;
    behind.pool_is_right(&bag).await;
    let (token, path) = (api.operator(), bag.path(""));
    eventually("the count that is shown", async || {
        let detail = api.get(&token, &path).await.expect(200);
        if detail["participants"] == 30 {
            Ok(())
        } else {
            Err(detail)
        }
    })
    .await;
    behind.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_mysql_joins_of_a_known_activity_are_taken_and_admitted_later() {
    let behind = Behind::new("MYSQL__URL", |world| world.mysql_url.clone()).await;
    let (api, proxy) = (&behind.api, &behind.proxy);
    let bag = behind.long_bag(1).await;
    let redis = &behind.world.redis;
    let hot_copy = redis.keys().activity(bag.id);
    api.join_all(&bag, 1..=10).await;
    behind.admitted(&bag, 1..=10).await;

    for (outage, users) in [
        (Proxy::refuse as fn(&Proxy), 11..=20),
        (Proxy::stall, 21..=30),
    ] {
        outage(proxy);
        api.join_all(&bag, users.clone()).await;
        behind.shows("mysql", "down").await;
        // What Redis shows is not needed either: this process knows the activity.
        let () = redis.del(&hot_copy).await.expect("Redis answers");
        api.join_all(&bag, users.clone()).await;
        let admitted = behind.world.participants(&bag, "joined").await;
        assert!(!admitted.contains(users.end()), "{admitted:?}");
        let path = bag.path("/me");
        let me = api.get(&api.viewer(*users.end()), &path).await;
        assert!(
            me.status.as_u16() == 503 || me.body["participation"] == "processing",
            "{me:?}"
        );
        proxy.resume();
        behind.shows("mysql", "up").await;
        behind.admitted(&bag, 1..=*users.end()).await;
        api.assert_settled(&bag, *users.end(), ("joined", None))
            .await;
    }

    behind.pool_is_right(&bag).await;
    behind.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_a_silent_mysql_for_the_same_room_fails_with_the_others() {
    let behind = Behind::new("MYSQL__URL", |world| world.mysql_url.clone()).await;
    let api = &behind.api;
    let path = "/v1/rooms/2/activities";
    behind.proxy.stall();

    // One after the other they would wait for longer than any client does.
    let viewers: Vec<String> = (1..=20).map(|user| api.viewer(user)).collect();
    let asked = viewers.iter().map(|viewer| api.get(viewer, path));
    for answer in join_all(asked).await {
        answer.expect_problem(503, "unavailable");
    }

    behind.proxy.resume();
    eventually("the room to be read", async || {
        let answer = api.get(&viewers[0], path).await;
        if answer.status == 200 {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
    behind.end().await;
}
