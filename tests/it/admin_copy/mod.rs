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
        let commitment = "(LOWER(HEX(m.commitment)) <=> c.commitment)";
        self.differences_of("activity", &ACTIVITY, commitment).await
            + self.differences_of("win_record", &WIN, "TRUE").await
    }

    /// The same of one table: rows that differ in one of these columns, or otherwise.
    async fn differences_of(&self, table: &str, columns: &[&str], otherwise_same: &str) -> i64 {
        let (own, admin) = (&self.world.namespace, &self.admin);
        let same = columns
            .iter()
            .map(|column| format!("m.{column} <=> c.{column} AND "));
        let same: String = same.collect();
        let query = format!(
            "SELECT (SELECT COUNT(*) FROM {own}.{table} m LEFT JOIN {admin}.{table}_copy c USING (id) \
             WHERE NOT ({same}{otherwise_same})) \
             + (SELECT COUNT(*) FROM {admin}.{table}_copy WHERE id NOT IN (SELECT id FROM {own}.{table}))"
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

    /// How many tables the copy has.
    async fn tables(&self) -> i64 {
        let of_copy = format!("table_schema = '{}'", self.admin);
        let query = format!("SELECT COUNT(*) FROM information_schema.tables WHERE {of_copy}");
        self.world.number(&query).await
    }

    /// How many copies wait.
    async fn waiting(&self) -> i64 {
        const WAITING: &str = "SELECT COUNT(*) FROM outbox WHERE kind = 'adminCopy'";
        self.world.number(WAITING).await
    }

    /// Waits until one connection to the copy is where this condition on its process says.
    async fn has_waiting(&self, condition: &str) {
        let waiting = format!(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}' AND {condition}",
            self.admin
        );
        eventually("a statement to wait", async || {
            match self.world.number(&waiting).await {
                1 => Ok(()),
                other => Err(other),
            }
        })
        .await;
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
    world.published(bag.id).await;
    bag
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
