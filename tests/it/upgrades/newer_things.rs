//! What a process finds that only a newer version knows: it is kept, and nothing stands still.

use luckybag::infra::broker::Queue;
use serde_json::{Value, json};

use crate::harness::{Bag, BagSpec, World, eventually};

/// More than one batch of the outbox.
const ROWS: i64 = 150;

impl World {
    /// What a newer version owes, longer than anything else: rows of a kind, and with a body, that
    /// `entry` describes.
    async fn owe(&self, kind: &str, entry: &Value) {
        let values: Vec<String> = (0..ROWS)
            .map(|n| {
                format!(
                    "('{kind}:{}:{n}', '{kind}', '{entry}', NOW(3) - INTERVAL 1 DAY, NOW(3))",
                    entry["what"].as_str().unwrap_or_default(),
                )
            })
            .collect();
        self.execute(&format!(
            "INSERT INTO outbox (dedupe_key, kind, body, not_before, created_at) VALUES {}",
            values.join(", ")
        ))
        .await;
    }

    async fn owed(&self, condition: &str) -> i64 {
        let query = format!("SELECT COUNT(*) FROM outbox WHERE {condition}");
        self.number(&query).await
    }

    /// Opens a bag, lets people join, and waits for its draw.
    async fn plays_a_bag(&self, api: &crate::harness::Api) -> Bag {
        let bag = api.open_bag(&BagSpec::waiting()).await;
        api.join_all(&bag, 1..=20).await;
        self.draw_soon(&[bag]).await;
        self.all_drawn(&[bag]).await;
        self.assert_drawn_once(&bag).await;
        bag
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_a_newer_version_has_added_to_is_used_as_it_is() {
    let world = World::new().await;
    for statement in [
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'from the future', TRUE, 'x', 1)",
        "CREATE TABLE from_the_future (id BIGINT UNSIGNED NOT NULL PRIMARY KEY)",
        "ALTER TABLE activity ADD COLUMN from_the_future INT NULL",
        "ALTER TABLE participation ADD COLUMN from_the_future INT NOT NULL DEFAULT 7",
        "ALTER TABLE outbox ADD COLUMN from_the_future VARCHAR(8) NULL",
        "ALTER TABLE win_record ADD COLUMN from_the_future VARCHAR(8) NULL",
    ] {
        world.execute(statement).await;
    }

    let process = world.serve().await;

    let log = process.log_lines().concat();
    assert!(
        log.contains("the schema is newer than this version"),
        "{log}"
    );
    world.operate("migrate", &[]).await.printed();
    let api = world.api(&process).await;
    world.plays_a_bag(&api).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_newer_version_owes_is_left_to_it_and_holds_nothing_up() {
    let world = World::new().await;
    world
        .owe("mirror", &json!({ "entry": "mirror", "activityId": "7" }))
        .await;
    world
        .owe(
            "project",
            &json!({ "entry": "project", "what": "mirror", "activityId": "7" }),
        )
        .await;
    let event = json!({
        "entry": "publish", "id": "archived:7", "kind": "activity.archived", "schemaVersion": 1,
        "at": "2026-01-31T20:00:00.000Z", "data": { "activityId": "7" },
    });
    world.owe("publish", &event).await;
    let amqp = world.amqp().await;
    let process = world.serve().await;
    let exchange = world.topology().events_exchange();
    let (mut results, mut archived) = (
        amqp.listen(&exchange, "result.won").await,
        amqp.listen(&exchange, "activity.cancelled").await,
    );
    let api = world.api(&process).await;

    let bag = world.plays_a_bag(&api).await;

    assert_eq!(results.next().await["data"]["activityId"], json!(bag.id));
    eventually("everything else to be done", async || {
        match world.owed("1").await {
            owed if owed == 3 * ROWS => Ok(()),
            owed => Err(owed),
        }
    })
    .await;
    let untouched = world.owed("kind = 'mirror' AND attempts = 0").await;
    assert_eq!(untouched, ROWS, "rows of an unknown kind were taken up");
    // What a process can read, it sends: nothing of it was spoilt.
    world
        .execute(
            "UPDATE outbox SET body = REPLACE(body, 'activity.archived', 'activity.cancelled')",
        )
        .await;
    for _ in 0..ROWS {
        assert_eq!(archived.next().await["id"], "archived:7");
    }

    process.stop().await;
    amqp.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_a_newer_form_waits_aside_and_a_field_more_is_overlooked() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let queue = world.topology().queue_name(Queue::Stream(0));
    let dead = world.topology().queue_name(Queue::Dead);
    let join = |v: u32, kind: &str, user: u64| {
        json!({ "v": v, "kind": kind, "trace": "t", "joins": [{
            "activityId": bag.id, "userId": user.to_string(), "requestId": "r", "ticket": [1],
            "acceptedAt": "2026-01-31T20:00:00.000Z",
        }]})
        .to_string()
    };
    let are_set_aside = async || {
        eventually("two dead letters", async || {
            match amqp.look(&dead).await.waiting {
                2 => Ok(()),
                waiting => Err(waiting),
            }
        })
        .await;
    };

    for message in [
        join(2, "joins", 1),
        join(1, "tickets", 2),
        join(1, "joins", 3),
    ] {
        amqp.put(&queue, message.as_bytes()).await;
    }

    api.assert_settled(&bag, 3, ("joined", None)).await;
    are_set_aside().await;
    let listed = world.operate("dead list", &[]).await;
    assert!(
        listed.printed().contains("version 2 of the stream"),
        "{listed:?}"
    );
    let replayed = world.operate("dead replay", &[]).await;
    assert_eq!(replayed.printed(), "sent again: 2");
    are_set_aside().await;
    assert_eq!(world.participants(&bag, "joined").await, [3].into());

    process.stop().await;
    amqp.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activity_in_words_of_a_newer_version_waits_for_it_and_the_others_are_drawn() {
    const WAITS: &str = "SELECT COUNT(*) FROM activity \
         WHERE id = ID AND status IN ('open', 'drawing')";

    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bags = [8001, 8002, 8003].map(|room| BagSpec {
        room,
        ..BagSpec::waiting()
    });
    let bags = api.open_bags(&bags).await;
    let (unknown, known) = (bags[0], &bags[1..]);
    for bag in &bags {
        api.join_all(bag, 1..=9).await;
    }
    let rule = |word: &str| {
        format!(
            "UPDATE activity SET presence_rule = '{word}' WHERE id = {}",
            unknown.id
        )
    };
    world.execute(&rule("hover")).await;

    world.draw_soon(&bags).await;
    world.all_drawn(known).await;

    assert_eq!(world.number_of(unknown.id, WAITS).await, 1);
    world.execute(&rule("ignore")).await;
    world.all_drawn(&bags).await;
    world.assert_drawn_once(&unknown).await;
    process.stop().await;
    world.end().await;
}
