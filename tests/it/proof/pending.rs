//! Before there is a proof: nothing of it is told.

use fred::interfaces::KeysInterface;
use luckybag::infra::mysql::sql;
use sea_orm::ConnectionTrait;

use super::staying;
use crate::harness::{Api, Bag, BagSpec, World, eventually};

/// The copy of the detail, made again by whoever looks next: nobody who asks waits for it.
async fn copy_in_redis(world: &World, api: &Api, bag: &Bag) -> String {
    eventually("the copy in Redis", async || {
        let key = world.keys().activity(bag.id);
        let copy: Option<String> = world.redis.get(key).await.expect("an answer of Redis");
        api.drawn(bag).await;
        copy.ok_or("missing")
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proof_is_pending_until_it_is_published_and_the_seed_is_nowhere() {
    let world = World::new().await;
    // Nobody publishes: whoever draws dies right after it.
    let process = world
        .serve_with(&[
            ("LUCKYBAG_DIE_AT", "draw.committed"),
            ("LOG__FILTER", "info,luckybag=trace"),
        ])
        .await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&staying(8001)).await;
    let cancelled = api
        .open_bag(&BagSpec {
            room: 8002,
            ..BagSpec::waiting()
        })
        .await;
    api.post(&api.host_of(8002), &cancelled.path("/cancel"), None)
        .await
        .expect(200);
    let draft = api
        .draft(&BagSpec {
            room: 8003,
            ..BagSpec::waiting()
        })
        .await;
    api.join_all(&bag, 1..=5).await;
    for path in ["/proof", "/proof/me"] {
        let pending = api.get(&api.viewer(1), &bag.path(path)).await;
        pending.expect_problem(409, "proof_pending");
        let never = api.get(&api.viewer(1), &cancelled.path(path)).await;
        never.expect_problem(409, "activity_cancelled");
        for id in [draft.to_string(), "4711".to_owned()] {
            let unknown = api
                .get(&api.viewer(1), &format!("/v1/activities/{id}{path}"))
                .await;
            unknown.expect_problem(404, "activity_not_found");
        }
    }
    world.draw_soon(&[bag]).await;
    assert!(!process.exit_status().await.success());
    let log = process.log_lines().join("\n");

    let reader = world.serve_with(&[("SWEEPER__ENABLED", "false")]).await;
    let api = world.api(&reader).await;
    let detail = api.drawn(&bag).await;
    for path in ["/proof", "/proof/me"] {
        let pending = api.get(&api.viewer(1), &bag.path(path)).await;
        pending.expect_problem(409, "proof_pending");
    }
    let secrets = secrets(&world, bag.id.0).await;
    let copy = copy_in_redis(&world, &api, &bag).await;
    for secret in secrets {
        for text in [&detail.to_string(), &copy, &log] {
            assert!(!text.contains(&secret), "{secret} is in {text}");
        }
    }

    reader.stop().await;
    world.end().await;
}

/// Seed and leaf key, as somebody might print them.
async fn secrets(world: &World, id: u64) -> Vec<String> {
    let row = world
        .db
        .query_one_raw(sql(
            "SELECT LOWER(HEX(seed)) AS seed, LOWER(HEX(leaf_key)) AS leaf_key \
             FROM activity WHERE id = ?",
            [id.into()],
        ))
        .await
        .expect("MySQL answers")
        .expect("the activity exists");
    let mut secrets = Vec::new();
    for column in ["seed", "leaf_key"] {
        let text: String = row.try_get("", column).expect(column);
        let bytes = hex::decode(&text).expect("hex");
        let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
        secrets.extend([text.to_uppercase(), text, list.join(", "), list.join(",")]);
    }
    secrets
}
