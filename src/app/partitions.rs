//! Changing the number of partitions of the stream, while no process runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sea_orm::DatabaseConnection;

use super::{
    admin::{PAUSE, REACH, candidates, reach_redis},
    connections::{self, Connections},
    error::AppError,
    startup::PARTITIONS_LOOK,
};
use crate::{
    candidate::{CandidateService, StreamConsumer},
    infra::{
        broker::{Broker, Delivery, OrderedHandler, Queue, Verdict},
        mysql::{self, STREAM_PARTITIONS},
    },
    kernel::Supervisor,
    settings::Settings,
};

/// From how many to how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionsChange {
    pub from: u16,
    pub to: u16,
}

/// Changes the number of partitions of the installation; the same number changes nothing.
///
/// What waits in the stream is handled first, for `patience` at most: afterwards its users may belong
/// to other partitions, and a draw asks only those that there are.
///
/// # Errors
///
/// [`AppError::StillRunning`] while a process consumes a queue of ours, [`AppError::NotDrained`] when
/// the stream is not empty in time; nothing is changed then. [`AppError::PartitionsLeft`] when the number
/// is changed and a process that nobody stopped has come in between; no queue with messages is removed.
pub async fn change_partitions(
    mut settings: Settings,
    to: u16,
    patience: Duration,
) -> Result<PartitionsChange, AppError> {
    let from = settled(&connections::open_mysql(&settings)?).await?;
    let change = PartitionsChange { from, to };
    if from == to {
        return Ok(change);
    }
    // The stream as it is, whatever this command's own configuration already says.
    settings.stream.partitions = from;
    let connections = Connections::open(&settings)?;
    let ground = Supervisor::default();
    connections.spawn(&ground);
    let stream = Stream {
        candidates: candidates(&settings, &connections),
        broker: connections.broker.clone(),
        partitions: from,
    };
    let outcome = carry_out(&connections, &stream, change, patience).await;
    ground.shut_down(REACH).await;
    connections.close(REACH).await;
    outcome.map(|()| change)
}

/// How many partitions the installation has.
async fn settled(db: &DatabaseConnection) -> Result<u16, AppError> {
    let settled = mysql::find_fact(db, STREAM_PARTITIONS).await;
    let settled = settled.map_err(AppError::ReadPartitions)?;
    settled
        .and_then(|settled| settled.parse().ok())
        .ok_or(AppError::NeverStarted)
}

async fn carry_out(
    connections: &Connections,
    stream: &Stream,
    change: PartitionsChange,
    patience: Duration,
) -> Result<(), AppError> {
    reach_redis(connections).await?;
    let connected = tokio::time::timeout(REACH, stream.broker.wait_connected()).await;
    connected.map_err(|_| AppError::Away {
        server: "RabbitMQ",
        patience_secs: REACH.as_secs(),
    })?;
    // Whoever has just been stopped may still be in the broker's books.
    stream.expect_goodbye().await?;
    stream.drain(patience).await?;
    let (from, to) = (change.from.to_string(), change.to.to_string());
    let changed = mysql::change_fact(&connections.db, STREAM_PARTITIONS, &from, &to).await;
    if !changed.map_err(AppError::ReadPartitions)? {
        return Err(AppError::PartitionsTaken);
    }
    let cleared = stream.clear_up(change.to, patience).await;
    cleared.map_err(|cause| AppError::PartitionsLeft {
        from: change.from,
        to: change.to,
        cause: Box::new(cause),
    })
}

/// The stream with as many partitions as it has before the change.
struct Stream {
    candidates: CandidateService,
    broker: Broker,
    partitions: u16,
}

impl Stream {
    /// How long the broker may take to see that a consumer has gone that said goodbye.
    const GOODBYE: Duration = Duration::from_secs(10);

    /// How long until a process that was starting, or cut off from the broker, has seen the change: it
    /// ends then, and until then it may have sent what belongs to the old partitions.
    const NOTICE: Duration = PARTITIONS_LOOK.saturating_add(Duration::from_secs(1));

    fn queues(&self) -> impl Iterator<Item = Queue> {
        (0..self.partitions).map(Queue::Stream)
    }

    /// Every process subscribes to these from its start to its end.
    async fn expect_nobody(&self) -> Result<(), AppError> {
        let others = [Queue::Presence, Queue::Tasks, Queue::Draw];
        for queue in self.queues().chain(others) {
            let state = self.broker.look_at(queue).await;
            if state.map_err(AppError::Stream)?.consumers > 0 {
                return Err(AppError::StillRunning {
                    queue: self.broker.topology().queue_name(queue),
                });
            }
        }
        Ok(())
    }

    /// Handles what waits; returns once all partitions are empty and nobody consumes them.
    async fn drain(&self, patience: Duration) -> Result<(), AppError> {
        let ends_at = Instant::now() + patience;
        let not_drained = || AppError::NotDrained {
            patience_secs: patience.as_secs(),
        };
        loop {
            let waiting = self.waiting().await?;
            if waiting == 0 {
                return Ok(());
            }
            if Instant::now() >= ends_at {
                return Err(not_drained());
            }
            tracing::info!(stream.waiting = waiting, "handling what waits");
            if !self.consume(waiting, ends_at).await {
                return Err(not_drained());
            }
            self.expect_goodbye().await?;
        }
    }

    /// Consumes all partitions until `count` messages were handled, or until `ends_at`. What is in
    /// hand then is finished and acked, or goes back; `false` when that takes too long.
    async fn consume(&self, count: u64, ends_at: Instant) -> bool {
        let consumers = Supervisor::default();
        let stop = consumers.stop_token();
        let handled = Arc::new(AtomicU64::new(0));
        for partition in 0..self.partitions {
            let counting = Arc::new(Counting {
                inner: StreamConsumer::new(self.candidates.clone(), partition, stop.clone()),
                handled: Arc::clone(&handled),
            });
            let (broker, stop) = (self.broker.clone(), stop.clone());
            consumers.spawn("stream consumer", async move {
                broker.consume_ordered(partition, counting, stop).await;
            });
        }
        while handled.load(Ordering::Relaxed) < count && Instant::now() < ends_at {
            tokio::time::sleep(PAUSE).await;
        }
        consumers.shut_down(REACH).await
    }

    /// Waits until the broker has seen all consumers go: only then has it put back what was not acked.
    async fn expect_goodbye(&self) -> Result<(), AppError> {
        let gone_by = Instant::now() + Self::GOODBYE;
        while let Err(error) = self.expect_nobody().await {
            if Instant::now() >= gone_by {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// How many messages no consumer has.
    async fn waiting(&self) -> Result<u64, AppError> {
        let mut waiting = 0;
        for queue in self.queues() {
            let state = self.broker.look_at(queue).await;
            waiting += u64::from(state.map_err(AppError::Stream)?.ready);
        }
        Ok(waiting)
    }

    /// Handles what was sent in the old way while the number was changed, and removes the partitions
    /// from `first` on, which are no more. None that is in use or not empty is removed.
    async fn clear_up(&self, first: u16, patience: Duration) -> Result<(), AppError> {
        tokio::time::sleep(Self::NOTICE).await;
        self.expect_goodbye().await?;
        self.drain(patience).await?;
        for queue in self.queues().skip(first.into()) {
            // Looked at each time, as the broker removes a quorum queue whatever is in it.
            self.expect_unused(queue).await?;
            let deleted = self.broker.delete_queue(queue).await;
            deleted.map_err(AppError::Stream)?;
        }
        Ok(())
    }

    async fn expect_unused(&self, queue: Queue) -> Result<(), AppError> {
        let state = self.broker.look_at(queue).await.map_err(AppError::Stream)?;
        let queue = self.broker.topology().queue_name(queue);
        if state.consumers > 0 {
            return Err(AppError::StillRunning { queue });
        }
        if state.ready > 0 {
            return Err(AppError::StillSending { queue });
        }
        Ok(())
    }
}

/// Counts what a consumer has handled: what it has in hand the broker no longer tells.
struct Counting {
    inner: StreamConsumer,
    handled: Arc<AtomicU64>,
}

impl OrderedHandler for Counting {
    async fn handle(&self, deliveries: Vec<Delivery>) -> Option<Vec<Verdict>> {
        let verdicts = self.inner.handle(deliveries).await?;
        let count = u64::try_from(verdicts.len()).unwrap_or(u64::MAX);
        self.handled.fetch_add(count, Ordering::Relaxed);
        Some(verdicts)
    }
}
