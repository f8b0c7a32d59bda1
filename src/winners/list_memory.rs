//! Lists of winners in process memory, and who is reading one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use moka::{future::Cache, ops::compute::Op, policy::EvictionPolicy};
use tokio::sync::Mutex;

use super::WinnerList;
use crate::kernel::ActivityId;

/// The one reader of an activity's list at a time.
#[derive(Default)]
pub(super) struct Flight {
    /// The highest that this process has heard of: a copy of the detail that is older than a redraw
    /// does not bring the old list back.
    round: AtomicU32,
    /// When the last reader failed.
    pub(super) failed_at: Mutex<Option<Instant>>,
}

impl Flight {
    /// The round that a list must have at least.
    pub(super) fn round(&self) -> u32 {
        self.round.load(Ordering::SeqCst)
    }
}

/// The lists of as many activities as fit, those asked for last.
pub(super) struct ListMemory {
    lists: Cache<ActivityId, Arc<WinnerList>>,
    /// Far more than there are lists: they last while their list is read, whatever is kept.
    flights: Cache<ActivityId, Arc<Flight>>,
}

impl ListMemory {
    /// In all lists; some 200 bytes each.
    const ROWS_KEPT: u64 = 1_000_000;
    const FLIGHTS_KEPT: u64 = 100_000;
    const IDLE: Duration = Duration::from_mins(10);

    pub(super) fn new() -> Self {
        Self::of_rows(Self::ROWS_KEPT)
    }

    fn of_rows(rows: u64) -> Self {
        let weight = |_: &ActivityId, list: &Arc<WinnerList>| {
            u32::try_from(list.all().len() + 1).unwrap_or(u32::MAX)
        };
        Self {
            lists: Cache::builder()
                .max_capacity(rows)
                .weigher(weight)
                // What was read for a crowd is kept for it, whatever was asked for more often before.
                .eviction_policy(EvictionPolicy::lru())
                .time_to_idle(Self::IDLE)
                .build(),
            flights: Cache::builder()
                .max_capacity(Self::FLIGHTS_KEPT)
                .eviction_policy(EvictionPolicy::lru())
                .time_to_idle(Self::IDLE)
                .build(),
        }
    }

    /// The activity's flight, of at least this round.
    pub(super) async fn flight(&self, id: ActivityId, round: u32) -> Arc<Flight> {
        let flight = self.flights.get_with(id, async { Arc::default() }).await;
        flight.round.fetch_max(round, Ordering::SeqCst);
        flight
    }

    /// The list, of at least this round.
    pub(super) async fn get(&self, id: ActivityId, round: u32) -> Option<Arc<WinnerList>> {
        let list = self.lists.get(&id).await?;
        (list.round() >= round).then_some(list)
    }

    /// Keeps a list unless one of a later round is kept; answers the one that is.
    pub(super) async fn keep(&self, id: ActivityId, list: WinnerList) -> Arc<WinnerList> {
        let list = Arc::new(list);
        let newest = Arc::clone(&list);
        let kept = self.lists.entry(id).and_compute_with(|held| {
            let is_newest = held.is_none_or(|held| held.value().round() <= newest.round());
            std::future::ready(if is_newest { Op::Put(newest) } else { Op::Nop })
        });
        let kept = kept.await.into_entry();
        kept.map_or(list, moka::Entry::into_value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{WinRecord, WinStatus};
    use super::*;
    use crate::kernel::{PrizeId, Timestamp, UserId, WinRecordId};

    fn list(id: u64, round: u32, rows: u32) -> WinnerList {
        let wins = (1..=rows).map(|seat| WinRecord {
            id: WinRecordId(u64::from(seat)),
            activity_id: ActivityId(id),
            user_id: UserId(u64::from(seat)),
            seat,
            round,
            prize_id: PrizeId(3),
            prize_rank: 1,
            score: 0.5,
            status: WinStatus::Won,
            drawn_at: Timestamp::UNIX_EPOCH,
            revoked_round: None,
        });
        WinnerList::new(round, wins.collect())
    }

    async fn kept(memory: &ListMemory, ids: u64) -> usize {
        memory.lists.run_pending_tasks().await;
        let mut kept = 0;
        for id in 1..=ids {
            kept += usize::from(memory.get(ActivityId(id), 1).await.is_some());
        }
        kept
    }

    #[tokio::test]
    async fn many_small_lists_are_kept_and_few_large_ones() {
        for (rows, expected) in [(4, 200), (99, 10)] {
            let memory = ListMemory::of_rows(1_000);
            for id in 1..=300 {
                memory.keep(ActivityId(id), list(id, 1, rows)).await;
                memory.lists.run_pending_tasks().await;
            }
            assert_eq!(kept(&memory, 300).await, expected, "of {rows} rows");
            assert!(memory.get(ActivityId(300), 1).await.is_some(), "the last");
        }
    }

    #[tokio::test]
    async fn a_list_that_was_displaced_still_has_its_one_flight() {
        let memory = ListMemory::of_rows(10);
        let flight = memory.flight(ActivityId(1), 1).await;
        for id in 1..=1_000 {
            memory.keep(ActivityId(id), list(id, 1, 4)).await;
            memory.flight(ActivityId(id), 1).await;
        }
        memory.flights.run_pending_tasks().await;

        assert!(kept(&memory, 900).await == 0, "displaced");
        let again = memory.flight(ActivityId(1), 1).await;
        assert!(Arc::ptr_eq(&flight, &again));
    }

    #[tokio::test]
    async fn an_older_round_does_not_come_back() {
        let memory = ListMemory::new();
        let id = ActivityId(1);
        memory.keep(id, list(1, 2, 1)).await;
        assert_eq!(memory.keep(id, list(1, 1, 1)).await.round(), 2);
        assert_eq!(memory.flight(id, 3).await.round(), 3);
        let flight = memory.flight(id, 2).await;
        assert_eq!(flight.round(), 3);
        assert!(memory.get(id, flight.round()).await.is_none());
    }
}
