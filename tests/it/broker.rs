//! What the broker module promises, against a real `RabbitMQ`.

use std::{
    future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use luckybag::infra::broker::{
    Broker, BrokerOptions, DelayRung, Delivery, Handler, OrderedHandler, Outgoing, PublishError,
    Queue, Target, Verdict,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    harness::{CONFIRM_TIMEOUT, nothing_happens_for},
    proxy::Proxy,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A broker under a namespace of its own, connected, and a way to be rid of it.
struct Fixture {
    broker: Broker,
    options: BrokerOptions,
    stop: CancellationToken,
    running: Vec<JoinHandle<()>>,
}

impl Fixture {
    async fn start() -> Self {
        let options = BrokerOptions {
            url: url(),
            namespace: format!("t-{}", uuid::Uuid::now_v7().simple()),
            partitions: 2,
            confirm_timeout: CONFIRM_TIMEOUT,
        };
        Self::with(options).await
    }

    /// Another process of the same service, at another address of the same server.
    async fn replica(&self, url: String) -> Self {
        Self::with(BrokerOptions {
            url,
            ..self.options.clone()
        })
        .await
    }

    async fn with(options: BrokerOptions) -> Self {
        let broker = Broker::new(options.clone());
        let mut fixture = Self {
            broker,
            options,
            stop: CancellationToken::new(),
            running: Vec::new(),
        };
        let (broker, stop) = (fixture.broker.clone(), fixture.stop.clone());
        fixture.spawn(async move { broker.run(stop).await });
        tokio::time::timeout(PATIENCE, fixture.broker.wait_connected())
            .await
            .expect("connected");
        fixture
    }

    fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.running.push(spawn(task));
    }

    fn consume<H: Handler>(&mut self, queue: Queue, handler: &Arc<H>) {
        let (broker, handler, stop) = (self.broker.clone(), Arc::clone(handler), self.stop.clone());
        self.spawn(async move { broker.consume(queue, 100, handler, stop).await });
    }

    fn consume_ordered<H: OrderedHandler>(&mut self, partition: u16, handler: &Arc<H>) {
        let (broker, handler, stop) = (self.broker.clone(), Arc::clone(handler), self.stop.clone());
        self.spawn(async move { broker.consume_ordered(partition, handler, stop).await });
    }

    async fn depth(&self, queue: Queue) -> u32 {
        self.broker.queue_depth(queue).await.unwrap_or(u32::MAX)
    }

    /// Waits for a number of ready messages.
    async fn has_depth(&self, queue: Queue, expected: u32) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let depth = self.depth(queue).await;
            if depth == expected {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{queue:?} holds {depth}, not {expected}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Publishes until it works: for the moments in which a connection is being replaced.
    async fn publish_eventually(&self, target: Target, id: usize) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = self.broker.publish(numbered(target, id)).await {
            assert!(Instant::now() < deadline, "still: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn stop(&mut self) {
        self.stop.cancel();
        for task in self.running.drain(..) {
            tokio::time::timeout(PATIENCE, task)
                .await
                .expect("stops")
                .expect("ends well");
        }
    }

    /// Stops and leaves nothing in the server.
    async fn clean_up(mut self) {
        self.stop().await;
        let raw = Raw::connect(&url()).await;
        for queue in self.broker.topology().queues() {
            raw.delete_queue(&self.broker.topology().queue_name(queue))
                .await;
        }
        for exchange in self.broker.topology().exchange_names() {
            let options = lapin::options::ExchangeDeleteOptions::default();
            raw.channel
                .exchange_delete(exchange.into(), options)
                .await
                .expect("deleted");
        }
        raw.connection
            .close(200, "OK".into())
            .await
            .expect("closed");
    }
}

/// The client library itself, for what an operator would do.
struct Raw {
    connection: lapin::Connection,
    channel: lapin::Channel,
}

impl Raw {
    async fn connect(url: &str) -> Self {
        let properties = lapin::ConnectionProperties::default();
        let connection = lapin::Connection::connect(url, properties)
            .await
            .expect("connects");
        let channel = connection.create_channel().await.expect("a channel");
        Self {
            connection,
            channel,
        }
    }

    async fn delete_queue(&self, name: &str) {
        let options = lapin::options::QueueDeleteOptions::default();
        self.channel
            .queue_delete(name.into(), options)
            .await
            .expect("deleted");
    }
}

fn url() -> String {
    std::env::var("LUCKYBAG__RABBITMQ__URL")
        .expect("LUCKYBAG__RABBITMQ__URL must name a RabbitMQ for tests")
}

fn host_and_port() -> String {
    let url = url();
    let authority = url
        .rsplit('@')
        .next()
        .unwrap()
        .trim_start_matches("amqp://");
    authority.split('/').next().unwrap().to_owned()
}

fn url_through(proxy: &Proxy) -> String {
    url().replace(&host_and_port(), &proxy.addr().to_string())
}

fn numbered(target: Target, id: usize) -> Outgoing {
    Outgoing::new(
        target,
        format!("m-{id}"),
        "number.v1",
        id.to_string().into_bytes(),
    )
}

fn number(delivery: &Delivery) -> usize {
    String::from_utf8_lossy(&delivery.body)
        .parse()
        .expect("a number")
}

#[expect(
    clippy::disallowed_methods,
    reason = "the fixture waits for each of its tasks"
)]
fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(task)
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Notes what it is given and decides by a rule.
struct Recorder<F> {
    seen: Mutex<Vec<Delivery>>,
    rule: F,
}

impl<F: Fn(&Delivery) -> Verdict + Send + Sync + 'static> Recorder<F> {
    fn new(rule: F) -> Arc<Self> {
        Arc::new(Self {
            seen: Mutex::default(),
            rule,
        })
    }

    fn numbers(&self) -> Vec<usize> {
        self.seen.lock().unwrap().iter().map(number).collect()
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    fn decide(&self, delivery: Delivery) -> Verdict {
        let verdict = (self.rule)(&delivery);
        self.seen.lock().unwrap().push(delivery);
        verdict
    }
}

impl<F: Fn(&Delivery) -> Verdict + Send + Sync + 'static> Handler for Recorder<F> {
    async fn handle(&self, delivery: Delivery) -> Verdict {
        self.decide(delivery)
    }
}

impl<F: Fn(&Delivery) -> Verdict + Send + Sync + 'static> OrderedHandler for Recorder<F> {
    async fn handle(&self, deliveries: Vec<Delivery>) -> Option<Vec<Verdict>> {
        Some(
            deliveries
                .into_iter()
                .map(|delivery| self.decide(delivery))
                .collect(),
        )
    }
}

/// Takes messages in hand and never finishes.
#[derive(Default)]
struct Stuck {
    taken: AtomicUsize,
}

impl OrderedHandler for Stuck {
    async fn handle(&self, deliveries: Vec<Delivery>) -> Option<Vec<Verdict>> {
        self.taken.fetch_add(deliveries.len(), Ordering::SeqCst);
        future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_message_is_in_its_queue() {
    let fixture = Fixture::start().await;

    let one = fixture.broker.publish(numbered(Target::Stream(1), 0)).await;
    let many = (1..=1_200)
        .map(|id| numbered(Target::Stream(0), id))
        .collect();
    let results = fixture.broker.publish_all(many).await;

    one.unwrap();
    assert_eq!(results.len(), 1_200);
    assert!(results.iter().all(Result::is_ok));
    fixture.has_depth(Queue::Stream(1), 1).await;
    fixture.has_depth(Queue::Stream(0), 1_200).await;
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_publish_at_once_without_waiting_for_each_other() {
    let fixture = Fixture::start().await;
    let proxy = Proxy::start(host_and_port()).await;
    let mut far = fixture.replica(url_through(&proxy)).await;
    proxy.delay(Duration::from_millis(50));
    let started_at = Instant::now();
    let mut callers = JoinSet::new();

    for id in 0..200 {
        let broker = far.broker.clone();
        callers.spawn(async move { broker.publish(numbered(Target::Presence, id)).await });
    }

    let results = callers.join_all().await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    // One after another they would take 20 s.
    assert!(
        started_at.elapsed() < Duration::from_secs(15),
        "{:?}",
        started_at.elapsed()
    );
    fixture.has_depth(Queue::Presence, 200).await;
    proxy.resume();
    far.stop().await;
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_a_queue_is_returned_and_the_queue_comes_back() {
    let fixture = Fixture::start().await;
    let raw = Raw::connect(&url()).await;
    raw.delete_queue(&fixture.broker.topology().queue_name(Queue::Stream(0)))
        .await;

    let mixed = (0..40)
        .map(|id| numbered(Target::Stream(u16::from(id % 2 == 1)), id))
        .collect();
    let results = fixture.broker.publish_all(mixed).await;

    for (id, result) in results.iter().enumerate() {
        if id % 2 == 1 {
            assert!(result.is_ok(), "{id}: {result:?}");
        } else {
            assert!(
                matches!(result, Err(PublishError::Returned)),
                "{id}: {result:?}"
            );
        }
    }
    fixture.publish_eventually(Target::Stream(0), 99).await;
    fixture.has_depth(Queue::Stream(0), 1).await;
    raw.connection.close(200, "OK".into()).await.unwrap();
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_was_deleted_comes_back() {
    let fixture = Fixture::start().await;
    let raw = Raw::connect(&url()).await;
    let exchange = fixture.broker.topology().events_exchange();
    raw.channel
        .exchange_delete(
            exchange.into(),
            lapin::options::ExchangeDeleteOptions::default(),
        )
        .await
        .expect("deleted");

    let refused = fixture
        .broker
        .publish(numbered(Target::Events("activity.drawn"), 1))
        .await;

    assert!(refused.is_err(), "{refused:?}");
    fixture
        .publish_eventually(Target::Events("activity.drawn"), 2)
        .await;
    raw.connection.close(200, "OK".into()).await.unwrap();
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_nobody_waits_for_is_published() {
    let fixture = Fixture::start().await;

    let result = fixture
        .broker
        .publish(numbered(Target::Events("activity.drawn"), 1))
        .await;

    result.unwrap();
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_consumer_gets_the_unsettled_messages_of_a_lost_one_in_order() {
    let mut fixture = Fixture::start().await;
    let proxy = Proxy::start(host_and_port()).await;
    let mut lost = fixture.replica(url_through(&proxy)).await;
    let stuck = Arc::new(Stuck::default());
    lost.consume_ordered(0, &stuck);
    let messages = (0..100).map(|id| numbered(Target::Stream(0), id)).collect();
    assert!(
        fixture
            .broker
            .publish_all(messages)
            .await
            .iter()
            .all(Result::is_ok)
    );
    eventually("the first consumer holds messages", || {
        stuck.taken.load(Ordering::SeqCst) > 0
    })
    .await;
    let recorder = Recorder::new(|_| Verdict::Ack);
    fixture.consume_ordered(0, &recorder);
    nothing_happens_for(Duration::from_millis(500)).await;
    assert_eq!(recorder.count(), 0, "only one consumer is served at a time");

    proxy.refuse();

    eventually("the second consumer got everything", || {
        recorder.count() >= 100
    })
    .await;
    assert_eq!(recorder.numbers(), (0..100).collect::<Vec<_>>());
    assert!(recorder.seen.lock().unwrap()[0].redelivered);
    fixture.has_depth(Queue::Stream(0), 0).await;
    lost.stop.cancel();
    lost.running.iter().for_each(JoinHandle::abort);
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_message_leaves_with_its_reason_and_those_behind_it_are_unharmed() {
    let mut fixture = Fixture::start().await;
    let messages = (0..50).map(|id| numbered(Target::Stream(0), id)).collect();
    assert!(
        fixture
            .broker
            .publish_all(messages)
            .await
            .iter()
            .all(Result::is_ok)
    );
    let attempts = AtomicUsize::new(0);
    let recorder = Recorder::new(move |delivery| {
        if number(delivery) == 7 && attempts.fetch_add(1, Ordering::SeqCst) == 0 {
            Verdict::DeadLetter {
                reason: "seven is not lucky".to_owned(),
            }
        } else {
            Verdict::Ack
        }
    });

    fixture.consume_ordered(0, &recorder);

    eventually("all were handled", || recorder.count() == 50).await;
    assert_eq!(recorder.numbers(), (0..50).collect::<Vec<_>>());
    fixture.has_depth(Queue::Dead, 1).await;
    let letters = fixture.broker.dead_letters(10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].reason.as_deref(), Some("seven is not lucky"));
    assert_eq!(
        letters[0].origin,
        Some(fixture.broker.topology().queue_name(Queue::Stream(0)))
    );
    assert_eq!(letters[0].message_id.as_deref(), Some("m-7"));
    assert_eq!(letters[0].body, b"7");
    fixture.has_depth(Queue::Dead, 1).await;

    assert_eq!(fixture.broker.replay_dead(10).await.unwrap(), 1);

    eventually("the replayed one was handled", || recorder.count() == 51).await;
    assert_eq!(recorder.numbers().last(), Some(&7));
    fixture.has_depth(Queue::Dead, 0).await;
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_loses_only_the_message_it_panics_with() {
    let mut fixture = Fixture::start().await;
    let messages = (0..20).map(|id| numbered(Target::Stream(0), id)).collect();
    assert!(
        fixture
            .broker
            .publish_all(messages)
            .await
            .iter()
            .all(Result::is_ok)
    );
    fixture
        .broker
        .publish(numbered(Target::Tasks, 3))
        .await
        .unwrap();
    let rule = |delivery: &Delivery| {
        assert_ne!(number(delivery), 3, "on purpose");
        Verdict::Ack
    };
    let (ordered, concurrent) = (Recorder::new(rule), Recorder::new(rule));

    fixture.consume_ordered(0, &ordered);
    fixture.consume(Queue::Tasks, &concurrent);

    fixture.has_depth(Queue::Dead, 2).await;
    eventually("the others were handled", || {
        ordered.numbers().contains(&19)
    })
    .await;
    fixture.has_depth(Queue::Stream(0), 0).await;
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_message_comes_down_the_ladder_as_often_as_it_is_sent_on() {
    let mut fixture = Fixture::start().await;
    let recorder = Recorder::new(|_| Verdict::Ack);
    fixture.consume(Queue::Draw, &recorder);
    let started_at = Instant::now();

    for round in 1..=3 {
        fixture
            .broker
            .publish(numbered(Target::Delay(DelayRung::OneSecond), 1))
            .await
            .unwrap();
        eventually("it came down", || recorder.count() == round).await;
        assert!(started_at.elapsed() >= Duration::from_millis(990) * u32::try_from(round).unwrap());
    }
    fixture
        .broker
        .publish(numbered(Target::Draw, 2))
        .await
        .unwrap();
    eventually("a due one came at once", || recorder.count() == 4).await;

    assert!(
        started_at.elapsed() < Duration::from_secs(10),
        "{:?}",
        started_at.elapsed()
    );
    assert_eq!(fixture.depth(Queue::Unrouted).await, 0);
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_queue_does_not_hide_how_long_the_others_are() {
    let fixture = Fixture::start().await;
    let raw = Raw::connect(&url()).await;
    raw.delete_queue(&fixture.broker.topology().queue_name(Queue::Draw))
        .await;

    let depths = fixture.broker.queue_depths().await;

    assert_eq!(depths.len(), fixture.broker.topology().queues().len());
    for (name, depth) in depths {
        assert_eq!(depth.ok(), (name != "draw").then_some(0), "{name}");
    }
    assert!(fixture.broker.is_connected());
    raw.connection.close(200, "OK".into()).await.unwrap();
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_off_the_ladder_without_a_draw_queue_is_kept() {
    let fixture = Fixture::start().await;
    let raw = Raw::connect(&url()).await;
    raw.delete_queue(&fixture.broker.topology().queue_name(Queue::Draw))
        .await;

    fixture
        .broker
        .publish(numbered(Target::Delay(DelayRung::OneSecond), 1))
        .await
        .unwrap();

    fixture.has_depth(Queue::Unrouted, 1).await;
    let results = fixture.broker.publish(numbered(Target::Draw, 2)).await;
    assert!(
        matches!(results, Err(PublishError::Returned)),
        "{results:?}"
    );
    fixture.publish_eventually(Target::Draw, 3).await;
    raw.connection.close(200, "OK".into()).await.unwrap();
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_confirmed_message_is_lost_while_connections_break() {
    let mut fixture = Fixture::start().await;
    let proxy = Proxy::start(host_and_port()).await;
    let mut shaky = fixture.replica(url_through(&proxy)).await;
    let recorder = Recorder::new(|_| Verdict::Ack);
    shaky.consume_ordered(0, &recorder);
    shaky.consume(Queue::Presence, &recorder);

    for id in 0..300 {
        let target = if id % 2 == 0 {
            Target::Stream(0)
        } else {
            Target::Presence
        };
        shaky.publish_eventually(target, id).await;
        if id % 100 == 50 {
            proxy.cut();
        }
    }

    eventually("every confirmed message was handled", || {
        let seen = recorder.numbers();
        (0..300).all(|id| seen.contains(&id))
    })
    .await;
    fixture.has_depth(Queue::Stream(0), 0).await;
    fixture.has_depth(Queue::Presence, 0).await;
    shaky.stop().await;
    fixture.stop().await;
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_broker_is_a_time_out_and_not_a_hang() {
    let fixture = Fixture::start().await;
    let proxy = Proxy::start(host_and_port()).await;
    let mut silent = Fixture::with(BrokerOptions {
        url: url_through(&proxy),
        confirm_timeout: Duration::from_secs(2),
        ..fixture.options.clone()
    })
    .await;
    silent.publish_eventually(Target::Stream(0), 0).await;
    proxy.stall();

    let started_at = Instant::now();
    let result = silent.broker.publish(numbered(Target::Stream(0), 1)).await;

    assert!(matches!(result, Err(PublishError::TimedOut)), "{result:?}");
    assert!(result.unwrap_err().is_outcome_unknown());
    assert!(
        started_at.elapsed() < Duration::from_secs(15),
        "{:?}",
        started_at.elapsed()
    );
    for id in 2..5 {
        drop(silent.broker.publish(numbered(Target::Stream(0), id)).await);
    }
    eventually("the connection is given up", || {
        !silent.broker.is_connected()
    })
    .await;
    proxy.resume();
    silent.publish_eventually(Target::Stream(0), 5).await;
    silent.stop().await;
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_settles_what_is_in_hand_and_leaves_the_rest() {
    let mut fixture = Fixture::start().await;
    let messages = (0..200).map(|id| numbered(Target::Stream(0), id)).collect();
    assert!(
        fixture
            .broker
            .publish_all(messages)
            .await
            .iter()
            .all(Result::is_ok)
    );
    let mut other = fixture.replica(url()).await;
    let stop = other.stop.clone();
    let recorder = Recorder::new(move |delivery| {
        if number(delivery) == 40 {
            stop.cancel();
        }
        Verdict::Ack
    });

    other.consume_ordered(0, &recorder);
    other.stop.cancelled().await;
    other.stop().await;

    let handled = recorder.count();
    assert!((41..=60).contains(&handled), "{handled}");
    fixture
        .has_depth(Queue::Stream(0), u32::try_from(200 - handled).unwrap())
        .await;
    let rest = Recorder::new(|_| Verdict::Ack);
    fixture.consume_ordered(0, &rest);
    eventually("the rest was handled", || rest.count() == 200 - handled).await;
    assert_eq!(rest.numbers(), (handled..200).collect::<Vec<_>>());
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_with_other_arguments_is_not_used() {
    let fixture = Fixture::start().await;
    let raw = Raw::connect(&url()).await;
    let mut options = fixture.options.clone();
    options.namespace = format!("{}-b", options.namespace);
    let broker = Broker::new(options);
    let name = broker.topology().queue_name(Queue::Dead);
    let durable = lapin::options::QueueDeclareOptions::durable();
    raw.channel
        .queue_declare(
            name.as_str().into(),
            durable,
            lapin::types::FieldTable::default(),
        )
        .await
        .unwrap();
    let stop = CancellationToken::new();

    let running = spawn({
        let (broker, stop) = (broker.clone(), stop.clone());
        async move { broker.run(stop).await }
    });

    let connected = tokio::time::timeout(Duration::from_secs(3), broker.wait_connected()).await;
    assert!(connected.is_err());
    stop.cancel();
    running.await.unwrap();
    raw.delete_queue(&name).await;
    for exchange in broker.topology().exchange_names() {
        let options = lapin::options::ExchangeDeleteOptions::default();
        raw.channel
            .exchange_delete(exchange.into(), options)
            .await
            .unwrap();
    }
    raw.connection.close(200, "OK".into()).await.unwrap();
    fixture.clean_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_broker_is_waited_for() {
    let fixture = Fixture::start().await;
    let proxy = Proxy::start(host_and_port()).await;
    let mut slow = fixture.replica(url_through(&proxy)).await;
    proxy.delay(Duration::from_millis(100));

    let started_at = Instant::now();
    let result = slow.broker.publish(numbered(Target::Stream(0), 1)).await;

    result.unwrap();
    assert!(
        started_at.elapsed() >= Duration::from_millis(200),
        "{:?}",
        started_at.elapsed()
    );
    proxy.resume();
    slow.stop().await;
    fixture.clean_up().await;
}
