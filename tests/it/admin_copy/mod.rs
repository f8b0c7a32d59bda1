//! The copy in the admin database: the same as MySQL says, late but complete, and in nobody's way.

mod following;
mod forgetting;
mod outages;

use luckybag::infra::mysql;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::{Api, Bag, BagSpec, World, eventually};

/// A world with a second, empty database on the same server.
struct Copied {
    world: World,
    admin: String,
    url: String,
}

impl Copied {
    async fn new() -> Self {
        let world = World::new().await;
        let admin = format!("{}_admin", world.namespace);
        world
            .execute(&format!("CREATE DATABASE {admin} CHARACTER SET utf8mb4"))
            .await;
        let url = world.mysql_url.replace(&world.namespace, &admin);
        Self { world, admin, url }
    }

    fn on(&self) -> (&str, &str) {
        ("ADMIN_DATABASE__URL", &self.url)
    }

    /// Rows of the service that the copy lacks or has otherwise, and rows that it has in excess.
    async fn differences(&self) -> i64 {
        let (own, admin) = (&self.world.namespace, &self.admin);
        let columns = |columns: &[&str]| {
            let same = columns
                .iter()
                .map(|column| format!("m.{column} <=> c.{column}"));
            same.collect::<Vec<_>>().join(" AND ")
        };
        let activity = columns(&ACTIVITY);
        let win = columns(&WIN);
        let query = format!(
            "SELECT (SELECT COUNT(*) FROM {own}.activity m LEFT JOIN {admin}.activity_copy c USING (id) \
             WHERE NOT ({activity} AND (LOWER(HEX(m.commitment)) <=> c.commitment))) \
             + (SELECT COUNT(*) FROM {own}.win_record m LEFT JOIN {admin}.win_record_copy c USING (id) \
             WHERE NOT ({win})) \
             + (SELECT COUNT(*) FROM {admin}.activity_copy WHERE id NOT IN (SELECT id FROM {own}.activity)) \
             + (SELECT COUNT(*) FROM {admin}.win_record_copy \
             WHERE id NOT IN (SELECT id FROM {own}.win_record))"
        );
        self.world.number(&query).await
    }

    /// Waits until nothing is owed, and asserts that the copy is exact.
    async fn assert_exact(&self) {
        self.world.nothing_owed().await;
        assert_eq!(self.differences().await, 0, "the copy differs");
    }

    async fn count(&self, table_and_condition: &str) -> i64 {
        let query = format!("SELECT COUNT(*) FROM {}.{table_and_condition}", self.admin);
        self.world.number(&query).await
    }

    /// How many copies wait.
    async fn waiting(&self) -> i64 {
        const WAITING: &str = "SELECT COUNT(*) FROM outbox WHERE kind = 'adminCopy'";
        self.world.number(WAITING).await
    }

    async fn end(self) {
        let drop = format!("DROP DATABASE {}", self.admin);
        self.world.execute(&drop).await;
        self.world.end().await;
    }
}

const ACTIVITY: [&str; 21] = [
    "version",
    "status",
    "status_reason",
    "room_id",
    "host_id",
    "title",
    "conditions",
    "winner_count",
    "presence_rule",
    "one_entry_per_device",
    "cooldown_secs",
    "start_at",
    "draw_at",
    "drawn_at",
    "joined_count",
    "eligible_count",
    "cutoff_score",
    "proof_published_at",
    "round",
    "created_at",
    "tasks",
];

const WIN: [&str; 13] = [
    "activity_id",
    "user_id",
    "seat",
    "round",
    "prize_id",
    "prize_rank",
    "score",
    "status",
    "fulfilment",
    "fulfilment_ref",
    "drawn_at",
    "revoked_round",
    "revoked_at",
];

/// Two seats with prizes that want quoting.
fn spec(room: u64) -> BagSpec {
    BagSpec {
        room,
        extra: json!({
            "title": "周五 \"bag\" 🎁",
            "conditions": "two\nlines",
            "tasks": [],
            "prizes": [
                { "name": "O'Phone", "kind": "physical", "quantity": 1 },
                { "name": "Mug", "kind": "physical", "quantity": 1 },
            ],
        }),
        ..BagSpec::waiting()
    }
}

/// Plays a bag with four entrants to the draw and to its proof.
async fn drawn_bag(world: &World, api: &Api, room: u64) -> Bag {
    let bag = api.open_bag(&spec(room)).await;
    api.join_all(&bag, room * 1_000..room * 1_000 + 4).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    published(world, &bag).await;
    bag
}

async fn published(world: &World, bag: &Bag) {
    const PENDING: &str =
        "SELECT COUNT(*) FROM activity WHERE id = ID AND proof_published_at IS NULL";
    eventually("the proof", async || {
        match world.number_of(bag.id, PENDING).await {
            0 => Ok(()),
            pending => Err(pending),
        }
    })
    .await;
}

async fn claim(api: &Api, win: u64, reference: &str) {
    let path = format!("/v1/win-records/{win}/fulfilment");
    let body: Value = json!({ "state": "claimed", "reference": reference });
    api.post(&api.service(), &path, Some(body))
        .await
        .expect(200);
}

/// Makes the tables as an operator does whose account of the service may not.
async fn make_tables(copied: &Copied) {
    let admin = mysql::connect_lazy(&mysql::MySqlOptions {
        url: &copied.url,
        max_connections: 1,
        acquire_timeout: std::time::Duration::from_secs(10),
    })
    .expect("a URL");
    let never = CancellationToken::new();
    let made = mysql::migrate_admin(&admin, &never).await;
    made.expect("the tables");
    admin.close().await.expect("closed");
}
