//! The stream's consumer with its servers, and what the tests ask of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::TimeDelta;
use luckybag::{
    activity::{self, Activity, Seed},
    candidate::{
        CandidateDeps, CandidateService, Eligibility, JoinRequest, PresenceEvent, PresenceKind,
        Selection, SelectionPath, Standing, StreamConsumer, StreamMessage, Verdict as JoinVerdict,
    },
    infra::{
        broker::{Broker, BrokerOptions, Delivery, OrderedHandler, Verdict},
        mysql::{self, DatabaseClock, MySqlOptions, sql},
        redis::{Keys, Redis, RedisOptions},
    },
    kernel::{ActivityId, RoomId, Supervisor, Timestamp, UserId},
    settings::Settings,
    telemetry::TraceContext,
};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::harness::CONFIRM_TIMEOUT;

pub(super) const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const BAG: ActivityId = ActivityId(77);
pub(super) const ROOM: RoomId = RoomId(8);
pub(super) const SEED: [u8; 32] = [9; 32];

/// The stream's consumer with its servers, in a database and a namespace of its own.
pub(super) struct Rig {
    pub(super) name: String,
    pub(super) db: DatabaseConnection,
    pub(super) redis: Redis,
    pub(super) broker: Broker,
    pub(super) candidates: CandidateService,
    pub(super) consumer: StreamConsumer,
    pub(super) stop: CancellationToken,
    pub(super) supervisor: Supervisor,
    pub(super) opened_at: Timestamp,
    /// All 8 turns of those who read MySQL.
    pub(super) mysql_reads: Arc<Semaphore>,
}

/// What a test changes about the bag; the rest is the same for all.
pub(super) struct Bag {
    pub(super) presence_rule: &'static str,
    pub(super) tasks: &'static str,
    pub(super) one_entry_per_device: bool,
    pub(super) trim_after: u64,
    pub(super) trim_floor: f64,
}

impl Default for Bag {
    fn default() -> Self {
        Self {
            presence_rule: "pause",
            tasks: "[]",
            one_entry_per_device: false,
            trim_after: 700_000,
            trim_floor: 0.99,
        }
    }
}

pub(super) fn env(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: eval \"$(scripts/services env)\""))
}

impl Rig {
    pub(super) async fn start(bag: Bag) -> Self {
        Self::with(bag, &env("LUCKYBAG__REDIS__URL")).await
    }

    pub(super) async fn with(bag: Bag, redis_url: &str) -> Self {
        let name = format!("admit_{}", uuid::Uuid::now_v7().simple());
        let settings = Settings::load().unwrap();
        let db = own_database(&name).await;
        let redis = connect_redis(redis_url, &name);
        let broker = Broker::new(BrokerOptions {
            url: env("LUCKYBAG__RABBITMQ__URL"),
            namespace: name.clone(),
            partitions: 1,
            confirm_timeout: CONFIRM_TIMEOUT,
        });
        let clock = Arc::new(DatabaseClock::new(db.clone()));
        clock.sample().await.unwrap();
        let mysql_reads = Arc::new(Semaphore::new(8));
        let candidates = service(&settings, &db, &redis, &broker, &clock, &mysql_reads);
        let supervisor = Supervisor::default();
        let (running, stop) = (broker.clone(), supervisor.stop_token());
        supervisor.spawn("broker", async move { running.run(stop).await });
        broker.wait_connected().await;
        let stop = CancellationToken::new();
        let rig = Self {
            name,
            db,
            redis,
            broker,
            consumer: StreamConsumer::new(candidates.clone(), 0, stop.clone()),
            candidates,
            stop,
            supervisor,
            opened_at: clock.now().await.unwrap().at,
            mysql_reads,
        };
        rig.given(bag).await;
        rig
    }

    pub(super) async fn given(&self, bag: Bag) {
        self.run(
            "INSERT INTO activity (id, kind, room_id, host_id, title, winner_count, tasks, \
             presence_rule, one_entry_per_device, shard_by, cooldown_secs, trim_after, trim_floor, \
             status, start_at, draw_at, draw_token, seed, commitment, rules, created_at, updated_at) \
             VALUES (?, 'luckyBag', ?, 9, 'a bag', 5, ?, ?, ?, 'lowBits', 10800, ?, ?, 'open', \
             NOW(3), NOW(3) + INTERVAL 1 HOUR, 2, ?, ?, '{}', NOW(3), NOW(3))",
            vec![
                BAG.into(),
                ROOM.into(),
                bag.tasks.into(),
                bag.presence_rule.into(),
                bag.one_entry_per_device.into(),
                bag.trim_after.into(),
                bag.trim_floor.into(),
                SEED.to_vec().into(),
                SEED.to_vec().into(),
            ],
        )
        .await;
    }

    /// Users 1 and 2 are denied, 3 elsewhere only; 4 has won an hour ago.
    pub(super) async fn given_what_filters_know(&self) {
        let deny = "INSERT INTO deny_list (scope, user_id, created_by, created_at) VALUES (?, ?, 1, NOW(3))";
        self.run(deny, vec![0_u64.into(), 1_u64.into()]).await;
        self.run(deny, vec![BAG.into(), 2_u64.into()]).await;
        self.run(deny, vec![78_u64.into(), 3_u64.into()]).await;
        self.run(
            "INSERT INTO win_record (id, activity_id, user_id, seat, round, prize_id, prize_rank, \
             score, status, fulfilment, drawn_at) VALUES (1, 5, 4, 1, 1, 1, 1, 0.5, 'won', 'pending', \
             NOW(3) - INTERVAL 1 HOUR)",
            vec![],
        )
        .await;
    }

    pub(super) async fn run(&self, text: &str, values: Vec<sea_orm::Value>) {
        self.db.execute_raw(sql(text, values)).await.unwrap();
    }

    pub(super) async fn count(&self, text: &str) -> i64 {
        let row = self.db.query_one_raw(sql(text, [])).await.unwrap().unwrap();
        row.try_get_by_index(0).unwrap()
    }

    pub(super) async fn set_status(&self, status: &'static str) {
        self.run("UPDATE activity SET status = ?", vec![status.into()])
            .await;
    }

    pub(super) fn keys(&self) -> Keys {
        Keys::new(&self.name)
    }

    pub(super) fn at(&self, ms: i64) -> Timestamp {
        self.opened_at + TimeDelta::milliseconds(ms)
    }

    pub(super) fn join(&self, user: u64) -> JoinRequest {
        JoinRequest {
            activity_id: BAG,
            user_id: UserId(user),
            device_id: Some(format!("phone-{user}")),
            completed_tasks: Vec::new(),
            accepted_at: self.at(10),
            request_id: format!("r-{user}"),
        }
    }

    pub(super) fn joins(&self, users: impl IntoIterator<Item = u64>) -> StreamMessage {
        StreamMessage::Joins {
            joins: users.into_iter().map(|user| self.join(user)).collect(),
        }
    }

    pub(super) fn presence(&self, user: u64, kind: PresenceKind, ms: i64) -> PresenceEvent {
        PresenceEvent {
            room_id: ROOM,
            user_id: UserId(user),
            kind,
            occurred_at: self.at(ms),
        }
    }

    pub(super) async fn handle(&self, messages: Vec<StreamMessage>) -> Vec<Verdict> {
        let deliveries = messages.into_iter().map(first_delivery).collect();
        self.consumer.handle(deliveries).await.unwrap()
    }

    pub(super) async fn activity(&self) -> Activity {
        activity::find(&self.db, BAG).await.unwrap().unwrap()
    }

    pub(super) async fn select(&self, count: u32) -> Selection {
        let activity = self.activity().await;
        self.candidates.select(&activity, count).await.unwrap()
    }

    pub(super) async fn select_exact(&self, count: u32) -> Selection {
        let activity = self.activity().await;
        self.candidates
            .select_exact(&activity, count)
            .await
            .unwrap()
    }

    pub(super) async fn verdict(&self, user: u64) -> JoinVerdict {
        let state = self.candidates.participant(BAG, UserId(user)).await;
        state.unwrap().expect("a participation").verdict
    }

    pub(super) async fn eligibility(&self, user: u64) -> Option<Eligibility> {
        let state = self.candidates.participant(BAG, UserId(user)).await;
        state.unwrap().expect("a participation").eligibility
    }

    /// Both paths give the same, and the one that is asked for was taken.
    pub(super) async fn assert_selects(&self, path: SelectionPath) {
        for count in [1, 7, 1_000] {
            let selected = self.select(count).await;
            let exact = self.select_exact(count).await;
            assert_eq!(selected.path, path, "{count}");
            assert_eq!(selected.ranked, exact.ranked, "{count}");
            assert_eq!(selected.joined_count, exact.joined_count);
            assert_eq!(selected.eligible_count, exact.eligible_count);
        }
    }

    /// `pool_count` says what the rows say.
    pub(super) async fn assert_counts_add_up(&self) {
        for (column, condition) in [
            ("pooled", "status = 'joined' AND NOT is_trimmed"),
            ("trimmed", "is_trimmed"),
            ("blocked", "reason = 'blocked'"),
            ("cooldown", "reason = 'cooldown'"),
            ("duplicate_device", "reason = 'duplicateDevice'"),
            ("invalid", "reason = 'invalid'"),
            ("late", "status = 'late'"),
        ] {
            let counted =
                format!("SELECT CAST(COALESCE(SUM({column}), 0) AS SIGNED) FROM pool_count");
            let rows = format!("SELECT COUNT(*) FROM participation WHERE {condition}");
            assert_eq!(
                self.count(&counted).await,
                self.count(&rows).await,
                "{column}"
            );
        }
        let counted = "SELECT CAST(COALESCE(SUM(revision_sum), 0) AS SIGNED) FROM pool_count";
        let rows = "SELECT CAST(COALESCE(SUM(revision), 0) AS SIGNED) FROM participation \
                    WHERE status = 'joined' AND NOT is_trimmed";
        assert_eq!(self.count(counted).await, self.count(rows).await);
    }

    pub(super) async fn dead_letters(&self) -> Vec<(String, serde_json::Value)> {
        let letters = self.broker.dead_letters(100).await.unwrap();
        letters
            .into_iter()
            .map(|letter| {
                let body = serde_json::from_slice(&letter.body).unwrap_or_default();
                (letter.reason.unwrap_or_default(), body)
            })
            .collect()
    }

    pub(super) async fn end(self) {
        assert!(self.supervisor.shut_down(PATIENCE).await, "tasks hang");
        let drop = format!("DROP DATABASE {}", self.name);
        self.db.execute_unprepared(&drop).await.unwrap();
    }
}

pub(super) fn service(
    settings: &Settings,
    db: &DatabaseConnection,
    redis: &Redis,
    broker: &Broker,
    clock: &Arc<DatabaseClock>,
    mysql_reads: &Arc<Semaphore>,
) -> CandidateService {
    CandidateService::new(CandidateDeps {
        db: db.clone(),
        redis: redis.clone(),
        broker: broker.clone(),
        clock: Arc::clone(clock),
        settings: settings.candidate.clone(),
        join: settings.join.clone(),
        partitions: 1,
        mysql_reads: Arc::clone(mysql_reads),
    })
}

pub(super) fn connect_redis(url: &str, namespace: &str) -> Redis {
    Redis::connect(&RedisOptions {
        url,
        pool_size: 2,
        // A busy machine must not look like a silent Redis.
        command_timeout: Duration::from_secs(5),
        namespace,
    })
    .unwrap()
}

pub(super) async fn own_database(name: &str) -> DatabaseConnection {
    let url = env("LUCKYBAG__MYSQL__URL");
    let options = |url| MySqlOptions {
        url,
        max_connections: 8,
        acquire_timeout: PATIENCE,
    };
    let server = mysql::connect_lazy(&options(&url)).unwrap();
    let create = format!("CREATE DATABASE {name}");
    server.execute_unprepared(&create).await.unwrap();
    let (base, _) = url.rsplit_once('/').unwrap();
    let db = mysql::connect_lazy(&options(&format!("{base}/{name}"))).unwrap();
    mysql::migrate(&db).await.unwrap();
    db
}

pub(super) fn first_delivery(message: StreamMessage) -> Delivery {
    let sent = message.into_outgoing(0, uuid::Uuid::now_v7().to_string());
    Delivery {
        body: sent.body,
        redelivered: false,
        message_id: Some(sent.message_id),
        kind: Some(sent.kind.to_owned()),
        trace: TraceContext::default(),
    }
}

pub(super) fn again(delivery: &Delivery) -> Delivery {
    Delivery {
        redelivered: true,
        ..delivery.clone()
    }
}

/// Who has to be where among `users`: the reference, computed here.
pub(super) fn ranked(users: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let seed = Seed::new(SEED);
    let mut all: Vec<_> = users
        .into_iter()
        .map(|user| Standing::of(&seed, UserId(user)))
        .collect();
    all.sort_by(Standing::rank);
    all.iter().map(|standing| standing.user_id.0).collect()
}

pub(super) fn users(selection: &Selection) -> Vec<u64> {
    let ids = selection.ranked.iter().map(|standing| standing.user_id.0);
    ids.collect()
}

pub(super) async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let started_at = Instant::now();
    while !condition().await {
        assert!(started_at.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
