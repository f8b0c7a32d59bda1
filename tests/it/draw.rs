//! What draws, results and notifications promise, against real servers.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::TimeDelta;
use fred::{
    interfaces::{HashesInterface, KeysInterface},
    types::Expiration,
};
use futures_util::{StreamExt, future::join_all};
use luckybag::{
    activity::{self, ActivityDeps, ActivityService, Seed, drawing},
    candidate::{
        CandidateDeps, CandidateService, JoinRequest, Standing, StreamConsumer, StreamMessage,
        partition_of,
    },
    draw::{DrawConsumer, DrawDeps, DrawOutcome, DrawService},
    infra::{
        broker::{Broker, BrokerOptions, Queue},
        mysql::{self, DatabaseClock, MySqlOptions, sql},
        outbox::{DrawMessage, Outbox, Project},
        redis::{Redis, RedisOptions},
    },
    kernel::{ActivityId, PrizeId, Supervisor, UserId},
    notifications::{NotificationDeps, NotificationSender},
    settings::{DrawSettings, Settings},
    winners::{ResultKind, WinnerDeps, WinnerProjection, WinnerService},
};
use sea_orm::{ConnectionTrait, DatabaseConnection};
use tokio::sync::Semaphore;

use crate::harness::CONFIRM_TIMEOUT;

const PATIENCE: Duration = Duration::from_secs(30);
const PARTITIONS: u16 = 2;
const BAG: ActivityId = ActivityId(77);
const SEED: [u8; 32] = [9; 32];

/// Everything that a draw needs, in a database and a namespace of its own.
struct Rig {
    db: DatabaseConnection,
    redis: Redis,
    broker: Broker,
    clock: Arc<DatabaseClock>,
    candidates: CandidateService,
    activities: ActivityService,
    settings: Settings,
    supervisor: Supervisor,
    database: String,
}

fn env(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: eval \"$(scripts/services env)\""))
}

impl Rig {
    async fn start() -> Self {
        let name = format!("draw_{}", uuid::Uuid::now_v7().simple());
        let settings = Settings::load().unwrap();
        let db = own_database(&name).await;
        let redis = Redis::connect(&RedisOptions {
            url: &env("LUCKYBAG__REDIS__URL"),
            pool_size: 2,
            command_timeout: Duration::from_secs(2),
            namespace: &name,
        })
        .unwrap();
        let broker = Broker::new(BrokerOptions {
            url: env("LUCKYBAG__RABBITMQ__URL"),
            namespace: name.clone(),
            partitions: PARTITIONS,
            confirm_timeout: CONFIRM_TIMEOUT,
        });
        let clock = Arc::new(DatabaseClock::new(db.clone()));
        clock.sample().await.unwrap();
        let candidates = CandidateService::new(CandidateDeps {
            db: db.clone(),
            redis: redis.clone(),
            broker: broker.clone(),
            clock: Arc::clone(&clock),
            settings: settings.candidate.clone(),
            join: settings.join.clone(),
            partitions: PARTITIONS,
            mysql_reads: Arc::new(Semaphore::new(8)),
        });
        let activities = ActivityService::new(ActivityDeps {
            db: db.clone(),
            redis: redis.clone(),
            outbox: Outbox::default(),
            clock: Arc::clone(&clock),
            settings: settings.activity.clone(),
            candidate: settings.candidate.clone(),
            draw: settings.draw.clone(),
            mysql_reads: Arc::new(Semaphore::new(8)),
        });
        let supervisor = Supervisor::default();
        let (running, stop) = (broker.clone(), supervisor.stop_token());
        supervisor.spawn("broker", async move { running.run(stop).await });
        broker.wait_connected().await;
        Self {
            db,
            redis,
            broker,
            clock,
            candidates,
            activities,
            settings,
            supervisor,
            database: name,
        }
    }

    fn run_the_stream(&self) {
        for partition in 0..PARTITIONS {
            let (candidates, stop) = (self.candidates.clone(), self.supervisor.stop_token());
            let handler = StreamConsumer::new(candidates, partition, stop);
            let (broker, stop) = (self.broker.clone(), self.supervisor.stop_token());
            self.supervisor.spawn("stream", async move {
                broker
                    .consume_ordered(partition, Arc::new(handler), stop)
                    .await;
            });
        }
    }

    fn run_draw_messages(&self) {
        let stop = self.supervisor.stop_token();
        let consumer = DrawConsumer::new(self.drawer(), self.broker.clone(), stop.clone());
        let broker = self.broker.clone();
        self.supervisor.spawn("draws", async move {
            let handler = Arc::new(consumer);
            broker
                .consume(Queue::Draw, DrawConsumer::PREFETCH, handler, stop)
                .await;
        });
    }

    /// One process that draws.
    fn drawer(&self) -> DrawService {
        self.drawer_with(self.settings.draw.clone())
    }

    fn drawer_with(&self, settings: DrawSettings) -> DrawService {
        DrawService::new(DrawDeps {
            db: self.db.clone(),
            redis: self.redis.clone(),
            broker: self.broker.clone(),
            outbox: Outbox::default(),
            candidates: self.candidates.clone(),
            supervisor: self.supervisor.clone(),
            settings,
            mysql_reads: Arc::new(Semaphore::new(2)),
        })
    }

    fn winners(&self) -> WinnerService {
        WinnerService::new(WinnerDeps {
            db: self.db.clone(),
            redis: self.redis.clone(),
            activities: self.activities.clone(),
            clock: Arc::clone(&self.clock),
            outbox: Outbox::default(),
            mysql_reads: Arc::new(Semaphore::new(2)),
        })
    }

    fn sender(&self, part_size: usize) -> NotificationSender {
        NotificationSender::new(NotificationDeps {
            db: self.db.clone(),
            broker: self.broker.clone(),
            part_size: NonZeroUsize::new(part_size).unwrap(),
        })
    }

    /// An open bag of five prizes (two of the best, three of another) that is due in `due_in_ms`,
    /// with the users 1 to `joined` in it.
    async fn given_a_bag(&self, due_in_ms: i64, joined: u64) {
        self.given_bag(BAG, due_in_ms, joined).await;
    }

    async fn given_bag(&self, id: ActivityId, due_in_ms: i64, joined: u64) {
        let (id, first_prize) = (id.0, id.0 * 10);
        self.run(
            "INSERT INTO activity (id, kind, room_id, host_id, title, winner_count, tasks, \
             presence_rule, one_entry_per_device, shard_by, cooldown_secs, trim_after, trim_floor, \
             status, start_at, draw_at, seed, commitment, rules, created_at, updated_at) VALUES \
             (?, 'luckyBag', ?, 9, 'a bag', 5, '[]', 'ignore', FALSE, 'lowBits', 10800, 700000, \
             0.99, 'open', NOW(3), NOW(3) + INTERVAL ? MICROSECOND, ?, ?, '{}', NOW(3), NOW(3))",
            vec![
                id.into(),
                id.into(),
                (due_in_ms * 1_000).into(),
                SEED.to_vec().into(),
                SEED.to_vec().into(),
            ],
        )
        .await;
        for (rank, prize, quantity) in [(1_u32, first_prize + 1, 2_u32), (2, first_prize + 2, 3)] {
            self.run(
                "INSERT INTO activity_prize (activity_id, prize_rank, prize_id, quantity, name, \
                 kind) VALUES (?, ?, ?, ?, 'a prize', 'virtual')",
                vec![id.into(), rank.into(), prize.into(), quantity.into()],
            )
            .await;
            self.run(
                "INSERT INTO prize (id, name, kind, stock_total, reserved, issued, is_private, \
                 created_at, updated_at) VALUES (?, 'a prize', 'virtual', 10, ?, 0, FALSE, \
                 NOW(3), NOW(3))",
                vec![prize.into(), quantity.into()],
            )
            .await;
        }
        for user in 1..=joined {
            self.run(
                "INSERT INTO participation (activity_id, user_id, status, accepted_at, \
                 request_id, revision, created_at) VALUES (?, ?, 'joined', NOW(3), 'r', 1, NOW(3))",
                vec![id.into(), user.into()],
            )
            .await;
        }
        self.run(
            "INSERT INTO pool_count (activity_id, stream_partition, shard, pooled, revision_sum) \
             VALUES (?, 0, 0, ?, ?)",
            vec![id.into(), joined.into(), joined.into()],
        )
        .await;
    }

    async fn run(&self, text: &str, values: Vec<sea_orm::Value>) {
        self.db.execute_raw(sql(text, values)).await.unwrap();
    }

    async fn count(&self, text: &str) -> i64 {
        let row = self.db.query_one_raw(sql(text, [])).await.unwrap().unwrap();
        row.try_get_by_index(0).unwrap()
    }

    /// Users by seat, best first.
    async fn seats(&self) -> Vec<u64> {
        let text = "SELECT user_id FROM win_record ORDER BY seat";
        let rows = self.db.query_all_raw(sql(text, [])).await.unwrap();
        rows.iter()
            .map(|row| row.try_get_by_index(0).unwrap())
            .collect()
    }

    /// Who has to win: the reference, computed here.
    fn expected_seats(joined: u64) -> Vec<u64> {
        let seed = Seed::new(SEED);
        let mut all: Vec<_> = (1..=joined)
            .map(|user| Standing::of(&seed, UserId(user)))
            .collect();
        all.sort_by(Standing::rank);
        all.iter().take(5).map(|best| best.user_id.0).collect()
    }

    /// Stops everything and leaves nothing in the servers.
    async fn end(self) {
        let (url, topology) = (
            env("LUCKYBAG__RABBITMQ__URL"),
            self.broker.topology().clone(),
        );
        assert!(self.supervisor.shut_down(PATIENCE).await, "tasks hang");
        let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default())
            .await
            .unwrap();
        let channel = connection.create_channel().await.unwrap();
        for queue in topology.queues() {
            let name = topology.queue_name(queue);
            channel
                .queue_delete(name.into(), lapin::options::QueueDeleteOptions::default())
                .await
                .unwrap();
        }
        for exchange in topology.exchange_names() {
            channel
                .exchange_delete(
                    exchange.into(),
                    lapin::options::ExchangeDeleteOptions::default(),
                )
                .await
                .unwrap();
        }
        connection.close(200, "done".into()).await.unwrap();
        let drop = format!("DROP DATABASE {}", self.database);
        self.db.execute_unprepared(&drop).await.unwrap();
    }
}

async fn own_database(name: &str) -> DatabaseConnection {
    let url = env("LUCKYBAG__MYSQL__URL");
    let options = |url| MySqlOptions {
        url,
        max_connections: 12,
        acquire_timeout: PATIENCE,
    };
    let server = mysql::connect_lazy(&options(&url)).unwrap();
    let create = format!("CREATE DATABASE {name}");
    server.execute_unprepared(&create).await.unwrap();
    let (base, _) = url.rsplit_once('/').unwrap();
    let own = format!("{base}/{name}");
    let db = mysql::connect_lazy(&options(&own)).unwrap();
    mysql::migrate(&db).await.unwrap();
    db
}

async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let started_at = Instant::now();
    while !condition().await {
        assert!(started_at.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_at_once_draw_once() {
    let rig = Rig::start().await;
    rig.run_the_stream();
    rig.given_a_bag(-10, 40).await;

    let drawers = [rig.drawer(), rig.drawer(), rig.drawer()];
    let outcomes = join_all(drawers.iter().map(|drawer| drawer.draw(BAG))).await;

    let drawn = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Ok(DrawOutcome::Drawn)));
    assert_eq!(drawn.count(), 1, "{outcomes:?}");
    assert_eq!(rig.seats().await, Rig::expected_seats(40));
    assert_eq!(
        drawers[0].draw(BAG).await.unwrap(),
        DrawOutcome::AlreadyDrawn
    );
    let settled = "SELECT COUNT(*) FROM prize WHERE reserved = 0 AND issued IN (2, 3)";
    assert_eq!(rig.count(settled).await, 2);
    assert_eq!(rig.count("SELECT COUNT(*) FROM outbox").await, 3);
    let barriers = "SELECT COUNT(*) FROM stream_barrier";
    assert_eq!(rig.count(barriers).await, 0);
    assert_eq!(rig.count("SELECT COUNT(*) FROM audit").await, 1);
    assert_eq!(rig.count("SELECT COUNT(*) FROM notify_progress").await, 15);
    let mark = rig.redis.keys().draw_lock(BAG);
    assert_eq!(rig.redis.exists::<i64, _>(mark).await.unwrap(), 0);
    let row = activity::find(&rig.db, BAG).await.unwrap().unwrap();
    assert!(row.drawn_at >= row.draw_at);
    assert_eq!((row.joined_count, row.eligible_count), (Some(40), Some(40)));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_that_does_not_add_up_is_found() {
    let rig = Rig::start().await;
    rig.given_a_bag(60_000, 0).await;
    rig.given_bag(ActivityId(78), 60_000, 0).await;
    let wrong = async || rig.activities.list_wrong_stock().await.unwrap();

    assert_eq!(wrong().await, []);
    rig.run("UPDATE prize SET reserved = 1 WHERE id = 771", vec![])
        .await;
    rig.run("UPDATE prize SET issued = 9 WHERE id = 782", vec![])
        .await;

    assert_eq!(wrong().await, [PrizeId(771), PrizeId(782)]);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_drawn_before_its_time_or_after_a_cancellation() {
    let rig = Rig::start().await;
    rig.given_a_bag(60_000, 3).await;
    let drawer = rig.drawer();

    assert_eq!(drawer.draw(BAG).await.unwrap(), DrawOutcome::NotDue);
    rig.run("UPDATE activity SET status = 'cancelled'", vec![])
        .await;
    assert_eq!(drawer.draw(BAG).await.unwrap(), DrawOutcome::Cancelled);
    assert!(drawer.draw(ActivityId(5)).await.is_err());
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_stands_still_does_not_hold_the_draw_for_ever() {
    let rig = Rig::start().await;
    rig.given_a_bag(-10, 2).await;
    let settings = DrawSettings {
        drain_limit_secs: serde_json::from_str("2").unwrap(),
        ..rig.settings.draw.clone()
    };

    let outcome = rig.drawer_with(settings).draw(BAG).await.unwrap();

    assert_eq!(outcome, DrawOutcome::Drawn);
    assert_eq!(rig.seats().await, Rig::expected_seats(2));
    let freed = "SELECT COUNT(*) FROM prize WHERE reserved = 0 AND issued IN (0, 2)";
    assert_eq!(rig.count(freed).await, 2);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_moves_for_another_bag_is_waited_for() {
    let rig = Rig::start().await;
    rig.given_a_bag(-10, 2).await;
    rig.given_bag(ActivityId(78), 60_000, 0).await;
    let settings = DrawSettings {
        drain_limit_secs: serde_json::from_str("8").unwrap(),
        ..rig.settings.draw.clone()
    };
    let drawer = rig.drawer_with(settings);
    let joins_of_the_other = async {
        let started_at = Instant::now();
        while started_at.elapsed() < Duration::from_secs(14) {
            let join = "UPDATE pool_count SET pooled = pooled + 1 WHERE activity_id = 78";
            rig.run(join, vec![]).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        rig.count("SELECT COUNT(*) FROM activity WHERE status = 'open'")
            .await
    };

    let (outcome, still_open) = tokio::join!(drawer.draw(BAG), joins_of_the_other);

    assert_eq!(still_open, 2);
    assert_eq!(outcome.unwrap(), DrawOutcome::Drawn);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_the_claim_writes_nothing() {
    let rig = Rig::start().await;
    rig.given_a_bag(-10, 4).await;
    let drawer = rig.drawer();

    let ((), outcome) = tokio::join!(
        async {
            let held = "SELECT COUNT(*) FROM activity WHERE draw_token = 1";
            eventually("claimed", || async { rig.count(held).await == 1 }).await;
            rig.run("UPDATE activity SET draw_token = 2", vec![]).await;
            rig.run_the_stream();
        },
        drawer.draw(BAG)
    );

    assert_eq!(outcome.unwrap(), DrawOutcome::LostLease);
    assert_eq!(rig.seats().await, Vec::<u64>::new());
    assert_eq!(
        rig.count("SELECT COUNT(*) FROM activity WHERE status = 'open'")
            .await,
        1
    );
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_comes_after_the_release_does_not_bring_the_lease_back() {
    const LEASE: Duration = Duration::from_mins(1);
    let rig = Rig::start().await;
    rig.given_a_bag(-100, 0).await;
    let token = drawing::claim(&rig.db, BAG, LEASE).await.unwrap().unwrap();
    assert!(drawing::renew(&rig.db, BAG, token, LEASE).await.unwrap());

    drawing::release(&rig.db, BAG, token).await.unwrap();

    assert!(!drawing::renew(&rig.db, BAG, token, LEASE).await.unwrap());
    let next = drawing::claim(&rig.db, BAG, LEASE).await.unwrap();
    assert_eq!(next, Some(token + 1));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_message_comes_back_on_time() {
    let rig = Rig::start().await;
    rig.run_the_stream();
    rig.given_a_bag(3_500, 10).await;
    rig.run_draw_messages();
    let draw_at = rig.drawer().state(BAG).await.unwrap().draw_at.unwrap();
    let message = DrawMessage {
        activity_id: BAG,
        draw_at,
    };

    let twice = vec![message.into_outgoing(Duration::ZERO); 2];
    for sent in rig.broker.publish_all(twice).await {
        sent.unwrap();
    }

    let drawn = "SELECT COUNT(*) FROM activity WHERE status = 'drawn'";
    eventually("drawn", || async { rig.count(drawn).await == 1 }).await;
    let row = activity::find(&rig.db, BAG).await.unwrap().unwrap();
    assert!(row.drawn_at.unwrap() >= draw_at);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_told_from_committed_data_only() {
    let rig = Rig::start().await;
    rig.run_the_stream();
    rig.given_a_bag(25_000, 20).await;
    let winners = rig.winners();
    let seats = Rig::expected_seats(20);
    let (best, loser) = (
        UserId(seats[0]),
        (1..=20_000).find(|user| !seats.contains(user)),
    );
    let loser = UserId(loser.unwrap());

    let draw_at = rig.drawer().state(BAG).await.unwrap().draw_at.unwrap();
    let left = draw_at - rig.clock.now().await.unwrap().at;
    let before = winners.result(BAG, best).await.unwrap();
    assert_eq!(before.result, ResultKind::NotDrawn);
    let left_ms = u64::try_from(left.num_milliseconds()).unwrap();
    assert!(before.next_poll_ms < left_ms + 4_000, "{before:?}");
    rig.run("UPDATE activity SET draw_at = NOW(3)", vec![])
        .await;
    let copy = rig.redis.keys().activity(BAG);
    let _: i64 = rig.redis.unlink(copy).await.unwrap();
    eventually("drawAt has passed", || async {
        winners.result(BAG, best).await.unwrap().result == ResultKind::Drawing
    })
    .await;
    // The database's own clock may come there some milliseconds later.
    eventually("drawn", || async {
        rig.drawer().draw(BAG).await.unwrap() == DrawOutcome::Drawn
    })
    .await;

    eventually("known as drawn", || async {
        winners.result(BAG, best).await.unwrap().result == ResultKind::Won
    })
    .await;
    let won = winners.result(BAG, best).await.unwrap();
    let win = won.win.unwrap();
    assert_eq!((win.rank, win.prize.prize_id.0, won.round), (1, 771, 1));
    let lost = winners.result(BAG, loser).await.unwrap();
    assert_eq!((lost.result, lost.win), (ResultKind::NotWon, None));
    assert!(lost.cutoff_score.is_some());
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn downstream_sees_whole_lists_and_never_an_older_round() {
    let rig = Rig::start().await;
    rig.run_the_stream();
    rig.given_a_bag(-10, 20).await;
    assert_eq!(rig.drawer().draw(BAG).await.unwrap(), DrawOutcome::Drawn);
    let projection =
        WinnerProjection::new(rig.db.clone(), rig.redis.clone(), Arc::clone(&rig.clock));
    let keys = rig.redis.keys().clone();
    let list = keys.win_list(BAG);

    projection.project(BAG).await.unwrap();
    projection.project(BAG).await.unwrap();

    let rows: usize = rig.redis.hlen(&list).await.unwrap();
    assert_eq!(rows, 6);
    let prize = PrizeId(772);
    let rows: usize = rig
        .redis
        .hlen(keys.win_list_of_prize(BAG, prize))
        .await
        .unwrap();
    assert_eq!(rows, 4);
    let best = UserId(Rig::expected_seats(20)[0]);
    let left: i64 = rig.redis.ttl(keys.win_period(best)).await.unwrap();
    assert!((10_700..=10_800).contains(&left), "{left}");
    let shown: String = rig.redis.get(keys.win_user(BAG, best)).await.unwrap();
    assert!(shown.contains("\"seat\":1"), "{shown}");

    let (period, longer) = (keys.win_period(best), Some(Expiration::EX(20_000)));
    let newer_win = rig.redis.set(&period, "newer", longer, None, false);
    let () = newer_win.await.unwrap();
    projection.project(BAG).await.unwrap();
    let shown: String = rig.redis.get(&period).await.unwrap();
    assert_eq!(shown, "newer");

    let newer = r#"{"round":2,"rows":0}"#;
    let () = rig.redis.hset(&list, vec![("-", newer)]).await.unwrap();
    projection.project(BAG).await.unwrap();
    let mark: String = rig.redis.hget(&list, "-").await.unwrap();
    assert_eq!(mark, newer);
    rig.end().await;
}

/// Listens to result events from now on.
async fn listen(broker: &Broker) -> (lapin::Connection, lapin::Consumer) {
    use lapin::{Connection, ConnectionProperties, options::*, types::FieldTable};

    let url = env("LUCKYBAG__RABBITMQ__URL");
    let connection = Connection::connect(&url, ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let options = QueueDeclareOptions {
        exclusive: true,
        ..Default::default()
    };
    let queue = channel
        .queue_declare("".into(), options, FieldTable::default())
        .await
        .unwrap();
    let exchange = broker.topology().events_exchange();
    channel
        .queue_bind(
            queue.name().clone(),
            exchange.as_str().into(),
            "result.#".into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    let options = BasicConsumeOptions {
        no_ack: true,
        ..Default::default()
    };
    let consumer = channel
        .basic_consume(
            queue.name().clone(),
            "".into(),
            options,
            FieldTable::default(),
        )
        .await
        .unwrap();
    (connection, consumer)
}

#[tokio::test(flavor = "multi_thread")]
async fn winners_are_told_first_and_everybody_else_once() {
    let rig = Rig::start().await;
    rig.run_the_stream();
    rig.given_a_bag(-10, 300).await;
    let (connection, mut events) = listen(&rig.broker).await;
    assert_eq!(rig.drawer().draw(BAG).await.unwrap(), DrawOutcome::Drawn);

    let sender = rig.sender(7);
    while sender.tick().await.unwrap() > 0 {}

    let (mut winners, mut others, mut ids) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    while winners.len() + others.len() < 300 {
        let next = tokio::time::timeout(PATIENCE, events.next()).await;
        let event = next.expect("an event is missing").unwrap().unwrap();
        let body: serde_json::Value = serde_json::from_slice(&event.data).unwrap();
        assert!(
            ids.insert(body["id"].as_str().unwrap().to_owned()),
            "{body}"
        );
        assert_eq!(body["data"]["round"], 1);
        if body["type"] == "result.won" {
            assert!(others.is_empty(), "a winner after the others");
            winners.insert(
                body["data"]["userId"]
                    .as_str()
                    .unwrap()
                    .parse::<u64>()
                    .unwrap(),
            );
        } else {
            let users = body["data"]["userIds"].as_array().unwrap().clone();
            assert!(users.len() <= 7);
            others.extend(
                users
                    .iter()
                    .map(|user| user.as_str().unwrap().parse::<u64>().unwrap()),
            );
        }
    }
    assert_eq!(winners, Rig::expected_seats(300).into_iter().collect());
    let told: BTreeSet<u64> = others.iter().copied().chain(winners).collect();
    assert_eq!((told.len(), others.len()), (300, 295));
    let open = "SELECT COUNT(*) FROM notify_progress WHERE is_done = FALSE";
    assert_eq!(rig.count(open).await, 0);
    connection.close(200, "done".into()).await.unwrap();
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweeper_draws_what_no_message_asked_for() {
    let rig = Rig::start().await;
    rig.run_the_stream();
    // Its claims fail, and the others have their turn all the same.
    let broken = ActivityId(78);
    rig.given_bag(broken, -60_000, 0).await;
    let spoil = "UPDATE activity SET draw_token = ~0 WHERE id = ?";
    rig.run(spoil, vec![broken.into()]).await;
    rig.given_a_bag(-10, 8).await;

    assert_eq!(rig.drawer().begin_due(10).await.unwrap(), 1);
    // Whoever comes next finds it held, or drawn already.
    assert_eq!(rig.drawer().begin_due(10).await.unwrap(), 0);

    let drawn = "SELECT COUNT(*) FROM activity WHERE status = 'drawn'";
    eventually("drawn", || async { rig.count(drawn).await == 1 }).await;
    assert_eq!(rig.seats().await, Rig::expected_seats(8));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_join_confirmed_before_the_draw_is_in_it() {
    const JOINS: u64 = 600;
    let rig = Rig::start().await;
    rig.given_a_bag(700, 0).await;
    let draw_at = rig.drawer().state(BAG).await.unwrap().draw_at.unwrap();
    let accepted_at = draw_at - TimeDelta::milliseconds(1);
    let join = |user| JoinRequest {
        activity_id: BAG,
        user_id: UserId(user),
        device_id: None,
        completed_tasks: vec![],
        accepted_at,
        request_id: format!("r{user}"),
    };
    let mut messages = Vec::new();
    for partition in 0..PARTITIONS {
        let users = (1..=JOINS).filter(|user| partition_of(UserId(*user), PARTITIONS) == partition);
        let joins: Vec<JoinRequest> = users.map(join).collect();
        for (number, batch) in joins.chunks(50).enumerate() {
            let message = StreamMessage::Joins {
                joins: batch.to_vec(),
            };
            messages.push(message.into_outgoing(partition, format!("{partition}-{number}")));
        }
    }
    for sent in rig.broker.publish_all(messages).await {
        sent.unwrap();
    }

    // Nothing has been read from the stream when the draw begins.
    eventually("drawAt has passed", || async {
        let due = "SELECT COUNT(*) FROM activity WHERE draw_at <= NOW(3)";
        rig.count(due).await == 1
    })
    .await;
    let drawer = rig.drawer();
    let (outcome, ()) = tokio::join!(drawer.draw(BAG), async { rig.run_the_stream() });

    assert_eq!(outcome.unwrap(), DrawOutcome::Drawn);
    let row = activity::find(&rig.db, BAG).await.unwrap().unwrap();
    assert_eq!(row.joined_count, Some(JOINS));
    assert_eq!(rig.seats().await, Rig::expected_seats(JOINS));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_bags_of_the_same_second_are_drawn_in_it() {
    let rig = Rig::start().await;
    rig.run_the_stream();
    let ids: Vec<ActivityId> = (101..=120).map(ActivityId).collect();
    for id in &ids {
        rig.given_bag(*id, 60_000, 20).await;
    }
    rig.run_draw_messages();
    let soon = "UPDATE activity SET draw_at = NOW(3) + INTERVAL 2 SECOND";
    rig.run(soon, vec![]).await;
    let draw_at = rig.drawer().state(ids[0]).await.unwrap().draw_at.unwrap();

    let message = |id: &ActivityId| {
        let message = DrawMessage {
            activity_id: *id,
            draw_at,
        };
        message.into_outgoing(Duration::ZERO)
    };
    for sent in rig
        .broker
        .publish_all(ids.iter().map(message).collect())
        .await
    {
        sent.unwrap();
    }

    let drawn = "SELECT COUNT(*) FROM activity WHERE status = 'drawn'";
    eventually("drawn", || async { rig.count(drawn).await == 20 }).await;
    let early = "SELECT COUNT(*) FROM activity WHERE drawn_at < draw_at";
    assert_eq!(rig.count(early).await, 0);
    rig.end().await;
}
