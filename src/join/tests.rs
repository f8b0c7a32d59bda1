//! The rules of batching, with a broker that confirms when a test says so.

use std::{
    sync::atomic::AtomicBool,
    sync::{Arc, Mutex},
    time::Duration,
};

use chrono::TimeDelta;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    batcher::{Answer, Batcher, Publish, Refusal, TellTime, Waiting},
    marks::{Mark, Marks},
    queue::{Lengths, QueueFull, Queues},
};
use crate::{
    infra::{
        broker::{Outgoing, PublishError},
        mysql::{ClockUncertain, DatabaseTime},
    },
    kernel::{ActivityId, Timestamp, UserId},
    telemetry::TraceContext,
};

/// The users of a message, and the way to confirm it.
type Sent = (Vec<u64>, oneshot::Sender<Result<(), PublishError>>);

/// Hands over each message and answers when the test does.
struct HeldBroker {
    sent: mpsc::UnboundedSender<Sent>,
}

impl Publish for HeldBroker {
    async fn publish(&self, message: Outgoing) -> Result<(), PublishError> {
        let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        let users = body["joins"].as_array().unwrap().iter();
        let users = users
            .map(|join| join["userId"].as_str().unwrap().parse().unwrap())
            .collect();
        let (confirm, confirmed) = oneshot::channel();
        self.sent.send((users, confirm)).unwrap();
        confirmed.await.unwrap()
    }
}

#[derive(Clone, Default)]
struct SetClock(Arc<Mutex<Option<i64>>>);

impl SetClock {
    fn set(&self, ms: i64) {
        *self.0.lock().unwrap() = Some(ms);
    }
}

impl TellTime for SetClock {
    async fn now(&self) -> Result<DatabaseTime, ClockUncertain> {
        self.estimate().ok_or(ClockUncertain)
    }

    fn estimate(&self) -> Option<DatabaseTime> {
        self.0.lock().unwrap().map(|ms| DatabaseTime {
            at: at(ms),
            uncertainty: Duration::from_millis(10),
        })
    }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + TimeDelta::milliseconds(ms)
}

const DRAW_AT_MS: i64 = 1_000;
const QUEUE_LIMIT: usize = 5;

struct Rig {
    queues: Queues,
    sent: mpsc::UnboundedReceiver<Sent>,
    clock: SetClock,
    marked: mpsc::Receiver<Mark>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Rig {
    fn start(patience: Duration) -> Self {
        let (queues, mut receivers) = Queues::new(1, QUEUE_LIMIT);
        let (marks, marked) = Marks::new();
        let (sender, sent) = mpsc::unbounded_channel();
        let clock = SetClock::default();
        clock.set(0);
        let stop = CancellationToken::new();
        let batcher = Batcher {
            partition: 0,
            batch_max: 3,
            patience,
            broker: HeldBroker { sent: sender },
            clock: clock.clone(),
            marks,
            lengths: Lengths::new(1),
            is_failing: AtomicBool::new(false),
            queue: receivers.pop().unwrap(),
        };
        #[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
        let task = tokio::spawn(batcher.run(stop.clone()));
        Self {
            queues,
            sent,
            clock,
            marked,
            stop,
            task,
        }
    }

    fn push(&self, user: u64) -> Result<oneshot::Receiver<Answer>, QueueFull> {
        let (answer, answered) = oneshot::channel();
        self.queues.push(Waiting {
            activity_id: ActivityId(1),
            user_id: UserId(user),
            device_id: None,
            completed_tasks: vec![],
            request_id: "r".to_owned(),
            draw_at: at(DRAW_AT_MS),
            since: Instant::now(),
            trace: TraceContext::default(),
            answer,
        })?;
        Ok(answered)
    }

    fn join(&self, user: u64) -> oneshot::Receiver<Answer> {
        self.push(user).unwrap()
    }
}

const PATIENT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn what_arrives_while_a_message_is_on_its_way_is_the_next_message() {
    let mut rig = Rig::start(PATIENT);

    let first = rig.join(1);
    let (users, confirm) = rig.sent.recv().await.unwrap();
    assert_eq!(users, [1], "a lone join leaves at once");
    let rest = [2, 3, 4, 5].map(|user| rig.join(user));
    tokio::task::yield_now().await;
    assert!(rig.sent.try_recv().is_err(), "one message at a time");

    confirm.send(Ok(())).unwrap();
    assert_eq!(first.await.unwrap(), Ok(()));
    for expected in [&[2, 3, 4][..], &[5]] {
        let (users, confirm) = rig.sent.recv().await.unwrap();
        assert_eq!(users, expected);
        confirm.send(Ok(())).unwrap();
    }
    for answer in rest {
        assert_eq!(answer.await.unwrap(), Ok(()));
    }
    assert_eq!(rig.marked.recv().await, Some((ActivityId(1), UserId(1))));
}

#[tokio::test]
async fn a_join_beyond_the_queue_is_turned_away_at_once() {
    let mut rig = Rig::start(PATIENT);

    let _first = rig.join(1);
    let _in_flight = rig.sent.recv().await.unwrap();
    let _rest = [2, 3, 4, 5, 6].map(|user| rig.join(user));

    assert_eq!(rig.push(7).unwrap_err(), QueueFull);
}

#[tokio::test]
async fn a_join_at_draw_at_is_not_sent() {
    let mut rig = Rig::start(PATIENT);
    rig.clock.set(DRAW_AT_MS);

    assert_eq!(rig.join(1).await.unwrap(), Err(Refusal::Closed));
    assert!(rig.sent.try_recv().is_err());
}

#[tokio::test]
async fn a_confirm_that_may_have_come_after_draw_at_is_too_late() {
    for (confirmed_at, answer) in [(989, Ok(())), (990, Err(Refusal::ConfirmedLate))] {
        let mut rig = Rig::start(PATIENT);
        rig.clock.set(500);
        let join = rig.join(1);
        let (_, confirm) = rig.sent.recv().await.unwrap();

        // The clock is right to within 10 ms.
        rig.clock.set(confirmed_at);
        confirm.send(Ok(())).unwrap();

        assert_eq!(join.await.unwrap(), answer, "{confirmed_at}");
    }
}

#[tokio::test]
async fn a_join_that_nobody_waits_for_is_not_sent() {
    let mut rig = Rig::start(PATIENT);
    let _first = rig.join(1);
    let (_, confirm) = rig.sent.recv().await.unwrap();

    drop(rig.join(2));
    let _third = rig.join(3);
    confirm.send(Ok(())).unwrap();

    assert_eq!(rig.sent.recv().await.unwrap().0, [3]);
}

#[tokio::test]
async fn a_join_that_has_waited_too_long_is_not_sent() {
    let mut rig = Rig::start(Duration::ZERO);

    assert_eq!(rig.join(1).await.unwrap(), Err(Refusal::NotTaken));
    assert!(rig.sent.try_recv().is_err());
}

#[tokio::test]
async fn no_confirm_leaves_the_outcome_open_and_a_refusal_does_not() {
    let mut rig = Rig::start(PATIENT);
    for (error, refusal) in [
        (PublishError::TimedOut, Refusal::OutcomeUnknown),
        (PublishError::NotConnected, Refusal::NotTaken),
        (PublishError::Returned, Refusal::NotTaken),
        (PublishError::Nacked, Refusal::NotTaken),
    ] {
        let join = rig.join(1);
        let (_, confirm) = rig.sent.recv().await.unwrap();
        confirm.send(Err(error)).unwrap();

        assert_eq!(join.await.unwrap(), Err(refusal));
    }
    assert!(rig.marked.try_recv().is_err());
}

#[tokio::test]
async fn nothing_is_sent_while_the_time_is_not_known() {
    let mut rig = Rig::start(PATIENT);
    *rig.clock.0.lock().unwrap() = None;

    assert_eq!(rig.join(1).await.unwrap(), Err(Refusal::ClockUncertain));
    assert!(rig.sent.try_recv().is_err());
}

#[tokio::test]
async fn a_stopped_batcher_sends_what_waits_and_takes_nothing_new() {
    let mut rig = Rig::start(PATIENT);
    let joins = [1, 2, 3, 4].map(|user| rig.join(user));

    rig.stop.cancel();
    while let Some((_, confirm)) = rig.sent.recv().await {
        confirm.send(Ok(())).unwrap();
    }

    (&mut rig.task).await.unwrap();
    for join in joins {
        assert_eq!(join.await.unwrap(), Ok(()));
    }
    assert_eq!(rig.push(5).unwrap_err(), QueueFull);
}
