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

/// What was read, and when; the lock makes one reader of a room at a time.
type Slot = Mutex<Option<(Instant, Vec<ActivityId>)>>;

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
        let mut slot = slot.lock().await;
        if let Some((read_at, ids)) = &*slot
            && read_at.elapsed() < self.life
        {
            return Ok(ids.clone());
        }
        let read_at = Instant::now();
        let read = store::list_running_ids(&self.db, room_id);
        let ids = read_in_turn(&self.reads, read)
            .await
            .map_err(db_error("list a room's activities"))?;
        *slot = Some((read_at, ids.clone()));
        Ok(ids)
    }

    /// Reads the room again the next time.
    pub(super) async fn forget(&self, room_id: RoomId) {
        self.slots.invalidate(&room_id).await;
    }
}
