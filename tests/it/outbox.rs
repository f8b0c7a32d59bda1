//! The outbox by itself: what waits for one server does not wait for another, and is counted right.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use luckybag::{
    infra::{
        broker::Broker,
        mysql::DatabaseClock,
        outbox::{Entry, Event, EventKind, Outbox, Project, ProjectError, Relay},
    },
    kernel::{ActivityId, Clock, SystemClock},
};
use sea_orm::TransactionTrait;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::harness::{World, eventually};

/// A projection whose server says nothing.
#[derive(Default)]
struct Silent {
    begun: AtomicU32,
    given_up: AtomicU32,
}

struct GivenUp<'a>(&'a AtomicU32);

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Project for Silent {
    fn project(&self, _: ActivityId) -> BoxFuture<'_, Result<(), ProjectError>> {
        Box::pin(async {
            self.begun.fetch_add(1, Ordering::SeqCst);
            let _given_up = GivenUp(&self.given_up);
            std::future::pending().await
        })
    }
}

const SILENT: &str = "silent";

fn projection(version: u32) -> Entry {
    Entry::Project {
        what: SILENT,
        activity_id: ActivityId(7),
        version,
    }
}

fn opened(number: u32) -> Entry {
    Entry::Publish(Event {
        id: format!("opened:{number}"),
        kind: EventKind::ActivityOpened,
        schema_version: 1,
        at: SystemClock.now(),
        data: json!({}),
    })
}

async fn owe(world: &World, outbox: &Outbox, entries: &[Entry]) {
    let tx = world.db.begin().await.expect("MySQL answers");
    outbox.append(&tx, entries).await.expect("MySQL answers");
    tx.commit().await.expect("MySQL answers");
    outbox.wake();
}

fn relay(world: &World, broker: &Broker, outbox: &Outbox, silent: &Arc<Silent>) -> Relay {
    let clock = Arc::new(DatabaseClock::new(world.db.clone()));
    let projection: Arc<dyn Project> = Arc::<Silent>::clone(silent);
    Relay::new(world.db.clone(), broker.clone(), clock, outbox.clone())
        .with_projection(SILENT, projection)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_that_hangs_does_not_delay_an_event() {
    let world = World::new().await;
    let (broker, broker_stop) = world.broker().await;
    let (outbox, silent) = (Outbox::default(), Arc::new(Silent::default()));
    let relay = relay(&world, &broker, &outbox, &silent);
    let stop = CancellationToken::new();
    let working = async {
        tokio::join!(
            relay.run_publishes(stop.clone()),
            relay.run_projections(stop.clone())
        );
    };

    let watching = async {
        owe(&world, &outbox, &[projection(1)]).await;
        eventually("the projection to hang", async || {
            match silent.begun.load(Ordering::SeqCst) {
                0 => Err("not begun"),
                _ => Ok(()),
            }
        })
        .await;
        // More than one batch, so that the loop has to come round.
        for number in 0..3 {
            owe(&world, &outbox, &[opened(number)]).await;
            eventually("the event to be published", async || {
                let left = "SELECT COUNT(*) FROM outbox WHERE kind = 'publish'";
                match world.number(left).await {
                    0 => Ok(()),
                    left => Err(left),
                }
            })
            .await;
        }
        assert_eq!(silent.given_up.load(Ordering::SeqCst), 0);
    };
    tokio::select! {
        () = working => panic!("the relay ended"),
        () = watching => (),
    }

    broker_stop.cancel();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_kind_are_counted_and_dated_however_many_there_are_of_another() {
    let world = World::new().await;
    let (broker, broker_stop) = world.broker().await;
    let (outbox, silent) = (Outbox::default(), Arc::new(Silent::default()));
    let relay = relay(&world, &broker, &outbox, &silent);
    assert_eq!(relay.age().await.expect("MySQL answers"), Duration::ZERO);

    let digit = "(SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 \
                 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)";
    let copies = format!(
        "INSERT INTO outbox (dedupe_key, kind, body, not_before, created_at) \
         SELECT UUID(), 'adminCopy', '{{}}', NOW(3), NOW(3) - INTERVAL 1 DAY \
         FROM {digit} a, {digit} b, {digit} c, {digit} d, (SELECT 0 AS n UNION SELECT 1) e"
    );
    world.execute(&copies).await;
    let newer = "INSERT INTO outbox (dedupe_key, kind, body, not_before, created_at) \
                 VALUES ('new', 'zNewer', '{}', NOW(3), NOW(3) - INTERVAL 1 DAY)";
    world.execute(newer).await;
    owe(&world, &outbox, &[projection(1), projection(2), opened(1)]).await;
    world
        .execute("UPDATE outbox SET created_at = NOW(3) - INTERVAL 1 HOUR WHERE kind = 'publish'")
        .await;

    let rows = relay.rows().await.into_iter();
    let rows: Vec<_> = rows
        .map(|(kind, count)| (kind, count.expect("MySQL answers")))
        .collect();
    let expected = [
        ("publish", 1),
        ("project", 2),
        ("adminCopy", 10_000),
        ("other", 1),
    ];
    assert_eq!(rows, expected);
    let age = relay.age().await.expect("MySQL answers").as_secs();
    assert!((3_600..7_200).contains(&age), "{age}");

    broker_stop.cancel();
    world.end().await;
}

/// A projection that fails a few times and then ends when it is let.
struct Held {
    begun: AtomicU32,
    failures: u32,
    turns: Semaphore,
}

impl Held {
    fn new(failures: u32) -> Arc<Self> {
        Arc::new(Self {
            begun: AtomicU32::new(0),
            failures,
            turns: Semaphore::new(0),
        })
    }

    async fn begun(&self, times: u32) {
        eventually("the projection to begin", async || {
            match self.begun.load(Ordering::SeqCst) {
                begun if begun >= times => Ok(()),
                begun => Err(begun),
            }
        })
        .await;
    }
}

impl Project for Held {
    fn project(&self, _: ActivityId) -> BoxFuture<'_, Result<(), ProjectError>> {
        Box::pin(async {
            if self.begun.fetch_add(1, Ordering::SeqCst) < self.failures {
                return Err("not yet".into());
            }
            self.turns.acquire().await?.forget();
            Ok(())
        })
    }
}

/// Runs `watching` beside a relay that has this projection alone.
async fn beside(world: &World, projection: Arc<Held>, watching: impl Future<Output = ()>) {
    let (broker, broker_stop) = world.broker().await;
    let clock = Arc::new(DatabaseClock::new(world.db.clone()));
    let relay = Relay::new(world.db.clone(), broker, clock, Outbox::default())
        .with_projection(SILENT, projection);
    tokio::select! {
        () = relay.run_projections(CancellationToken::new()) => panic!("the relay ended"),
        () = watching => (),
    }
    broker_stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_owed_again_while_it_is_done_is_done_again() {
    let world = World::new().await;
    let held = Held::new(0);
    let watching = async {
        owe(&world, &Outbox::default(), &[projection(1)]).await;
        held.begun(1).await;
        owe(&world, &Outbox::default(), &[projection(1)]).await;
        held.turns.add_permits(2);
        held.begun(2).await;
        eventually("nothing to be left", async || {
            match world.number("SELECT COUNT(*) FROM outbox").await {
                0 => Ok(()),
                left => Err(left),
            }
        })
        .await;
    };
    beside(&world, Arc::clone(&held), watching).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_try_is_counted_once() {
    let world = World::new().await;
    let held = Held::new(2);
    let watching = async {
        owe(&world, &Outbox::default(), &[projection(1)]).await;
        held.begun(3).await;
        assert_eq!(
            world
                .number("SELECT CAST(attempts AS SIGNED) FROM outbox")
                .await,
            3
        );
    };
    beside(&world, Arc::clone(&held), watching).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_version_owes_and_nothing_needs_any_more_is_done_with() {
    let world = World::new().await;
    let owed = |what| Entry::Project {
        what,
        activity_id: ActivityId(7),
        version: 1,
    };
    let watching = async {
        let entries = [owed("candidates"), owed("unknown")];
        owe(&world, &Outbox::default(), &entries).await;
        eventually("the retired one to be done with", async || {
            let retired =
                "SELECT COUNT(*) FROM outbox WHERE dedupe_key LIKE 'project:candidates:%'";
            match world.number(retired).await {
                0 => Ok(()),
                left => Err(left),
            }
        })
        .await;
        let unknown = "SELECT COUNT(*) FROM outbox WHERE dedupe_key LIKE 'project:unknown:%'";
        assert_eq!(world.number(unknown).await, 1);
    };
    beside(&world, Held::new(0), watching).await;
    world.end().await;
}
