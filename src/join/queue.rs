//! The joins that wait, one bounded queue a partition.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::mpsc;

use super::batcher::Waiting;
use crate::{candidate::partition_of, telemetry::metrics};

/// Takes joins for the batchers. A partition that is stuck does not take the room of the others.
#[derive(Clone, Debug)]
pub(super) struct Queues(Arc<[mpsc::Sender<Waiting>]>);

/// The queue of the join's partition is full, or the process stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueFull;

impl Queues {
    /// The queues, and where each of them is taken from; `limit` is divided among them.
    pub(super) fn new(partitions: u16, limit: usize) -> (Self, Vec<mpsc::Receiver<Waiting>>) {
        let limit_each = limit.div_ceil(usize::from(partitions).max(1)).max(1);
        let (senders, receivers): (Vec<_>, _) =
            (0..partitions).map(|_| mpsc::channel(limit_each)).unzip();
        (Self(senders.into()), receivers)
    }

    pub(super) fn push(&self, join: Waiting) -> Result<(), QueueFull> {
        let partition = self.partition_of(&join);
        let queue = self.0.get(usize::from(partition)).ok_or(QueueFull)?;
        queue.try_send(join).map_err(|_| QueueFull)
    }

    fn partition_of(&self, join: &Waiting) -> u16 {
        let partitions = u16::try_from(self.0.len()).unwrap_or(u16::MAX);
        partition_of(join.user_id, partitions)
    }
}

/// How many joins wait in each queue, for the gauge that shows their sum.
#[derive(Clone, Debug)]
pub(super) struct Lengths(Arc<[AtomicUsize]>);

impl Lengths {
    pub(super) fn new(partitions: u16) -> Self {
        Self((0..partitions).map(|_| AtomicUsize::new(0)).collect())
    }

    pub(super) fn set(&self, partition: u16, length: usize) {
        if let Some(slot) = self.0.get(usize::from(partition)) {
            slot.store(length, Ordering::Relaxed);
        }
        let sum = self.0.iter().map(|slot| slot.load(Ordering::Relaxed)).sum();
        metrics::join_queue_length(sum);
    }
}
