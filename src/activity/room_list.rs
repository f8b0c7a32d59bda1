//! Which activity runs in a room, kept in memory for a moment: every viewer of the room asks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use moka::future::Cache;
use sea_orm::DatabaseConnection;
use tokio::sync::{Mutex, Semaphore};

use super::{ActivityError, error::db_error, store};
use crate::{
    infra::mysql::read_in_turn,
    kernel::{ActivityId, RoomId},
};

/// What was read last, and when; the lock makes one reader of a room at a time.
type Slot = Mutex<Option<LastRead>>;

enum LastRead {
    Done {
        began_at: Instant,
        ids: Vec<ActivityId>,
    },
    Failed {
        ended_at: Instant,
    },
}

pub(super) struct RoomList {
    db: DatabaseConnection,
    reads: Arc<Semaphore>,
    life: Duration,
    slots: Cache<RoomId, Arc<Slot>>,
}

impl RoomList {
    const CAPACITY: u64 = 10_000;
    const SLOT_IDLE: Duration = Duration::from_mins(1);

    pub(super) fn new(db: DatabaseConnection, reads: Arc<Semaphore>, life: Duration) -> Self {
        let slots = Cache::builder()
            .max_capacity(Self::CAPACITY)
            .time_to_idle(Self::SLOT_IDLE)
            .build();
        Self {
            db,
            reads,
            life,
            slots,
        }
    }

    /// The activities that run in the room, at most one but for races.
    pub(super) async fn running(&self, room_id: RoomId) -> Result<Vec<ActivityId>, ActivityError> {
        let empty = async { Arc::new(Mutex::new(None)) };
        let slot = self.slots.get_with(room_id, empty).await;
        let arrived_at = Instant::now();
        let mut last = slot.lock().await;
        match &*last {
            Some(LastRead::Done { began_at, ids }) if began_at.elapsed() < self.life => {
                return Ok(ids.clone());
            }
            // Whoever waited for it fails with it, and not one time-out after another.
            Some(LastRead::Failed { ended_at }) if *ended_at >= arrived_at => {
                return Err(ActivityError::Unreadable(format!("room {room_id}")));
            }
            Some(LastRead::Done { .. } | LastRead::Failed { .. }) | None => {}
        }
        let began_at = Instant::now();
        let read = read_in_turn(&self.reads, store::list_running_ids(&self.db, room_id)).await;
        match read {
            Ok(ids) => {
                let known = ids.clone();
                *last = Some(LastRead::Done { began_at, ids });
                Ok(known)
            }
            Err(error) => {
                let ended_at = Instant::now();
                *last = Some(LastRead::Failed { ended_at });
                Err(db_error("list a room's activities")(error))
            }
        }
    }

    /// Reads the room again the next time.
    pub(super) async fn forget(&self, room_id: RoomId) {
        self.slots.invalidate(&room_id).await;
    }
}
