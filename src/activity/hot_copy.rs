//! What Redis shows of activities: `lb:activity`, `lb:prize` and `lb:room`.

use std::{sync::Arc, time::Duration};

use fred::{
    error::Error as RedisError,
    interfaces::{HashesInterface, KeysInterface},
    types::{Expiration, SetOptions},
};
use rand::RngExt;

use super::{ActivityDetail, Status};
use crate::{
    infra::{
        mysql::DatabaseClock,
        redis::{LuaScript, Redis},
    },
    kernel::{ActivityId, Timestamp},
};

const FINAL_TTL: Duration = Duration::from_hours(72);
/// A final detail with less than this left is read from `MySQL` again, so that it does not lapse.
const RENEWED_BELOW: Duration = Duration::from_hours(1);
const UNSCHEDULED_TTL: Duration = Duration::from_mins(10);
const PAST_DRAW_TTL: Duration = Duration::from_secs(2);
const UNKNOWN_TTL_SECS: i64 = 60;
const ROOM_KEPT_AFTER_DRAW: Duration = Duration::from_hours(7 * 24);
const MUTEX_TTL_MS: i64 = 3_000;

/// What is known of an activity id.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Found(Arc<ActivityDetail>),
    /// There is no such activity.
    Unknown,
}

/// Why the hot copy could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum HotCopyError {
    #[error("cannot {action} in Redis")]
    Redis {
        action: &'static str,
        #[source]
        source: RedisError,
    },

    #[error("cannot write the detail as JSON")]
    Json(#[from] serde_json::Error),
}

fn redis_error(action: &'static str) -> impl FnOnce(RedisError) -> HotCopyError {
    move |source| HotCopyError::Redis { action, source }
}

/// Reads and writes the three keys; a copy, so every failure here is harmless.
pub(super) struct HotCopy {
    redis: Redis,
    clock: Arc<DatabaseClock>,
    project: LuaScript,
    room: LuaScript,
}

impl HotCopy {
    pub(super) fn new(redis: Redis, clock: Arc<DatabaseClock>) -> Self {
        Self {
            redis,
            clock,
            project: LuaScript::new(include_str!("project.lua")),
            room: LuaScript::new(include_str!("room.lua")),
        }
    }

    /// Whether asking is worth the wait for a time-out.
    pub(super) fn is_reachable(&self) -> bool {
        self.redis.is_connected()
    }

    /// The copy, or `None` on a miss; a value that does not parse is dropped, and so a miss.
    pub(super) async fn read(&self, id: ActivityId) -> Result<Option<Known>, HotCopyError> {
        let key = self.redis.keys().activity(id);
        let (text, ttl_ms) = tokio::join!(
            self.redis.get::<Option<String>, _>(&key),
            self.redis.pttl::<i64, _>(&key)
        );
        let Some(text) = text.map_err(redis_error("read a detail"))? else {
            return Ok(None);
        };
        match serde_json::from_str::<Option<ActivityDetail>>(&text) {
            Ok(None) => Ok(Some(Known::Unknown)),
            Ok(Some(detail)) => {
                let is_ending = ttl_ms.is_ok_and(|left| left < millis(RENEWED_BELOW));
                let is_stale = detail.status.is_final() && is_ending;
                Ok((!is_stale).then(|| Known::Found(Arc::new(detail))))
            }
            Err(error) => {
                tracing::warn!(
                    activity.id = %id,
                    error = &error as &dyn std::error::Error,
                    "a cached detail does not parse, it is dropped"
                );
                let dropped = self.redis.del::<(), _>(&key).await;
                dropped.map_err(redis_error("drop a detail"))?;
                Ok(None)
            }
        }
    }

    /// Writes the detail, and its prizes once they cannot change any more.
    pub(super) async fn write(&self, detail: &ActivityDetail) -> Result<(), HotCopyError> {
        let ttl_ms = millis(time_to_live(detail, self.now()));
        let key = self.redis.keys().activity(detail.id);
        let arguments = vec![
            serde_json::to_string(detail)?,
            detail.version.to_string(),
            ttl_ms.to_string(),
        ];
        let answer: String = self
            .project
            .run(&self.redis, vec![key], arguments)
            .await
            .map_err(redis_error("write a detail"))?;
        if answer == "written" && detail.was_opened() {
            self.write_prizes(detail, ttl_ms).await?;
        }
        Ok(())
    }

    async fn write_prizes(&self, detail: &ActivityDetail, ttl_ms: i64) -> Result<(), HotCopyError> {
        let key = self.redis.keys().prize(detail.id);
        let mut fields = Vec::with_capacity(detail.prizes.len());
        for prize in &detail.prizes {
            fields.push((prize.prize_id.to_string(), serde_json::to_string(prize)?));
        }
        let written = self.redis.hset::<(), _, _>(&key, fields).await;
        written.map_err(redis_error("write prizes"))?;
        let kept = self.redis.pexpire::<(), _>(&key, ttl_ms, None).await;
        kept.map_err(redis_error("keep prizes"))
    }

    /// Notes in the room's hash whether the activity is open; nothing before its opening.
    pub(super) async fn write_room(&self, detail: &ActivityDetail) -> Result<(), HotCopyError> {
        let Some(draw_at) = detail.draw_at.filter(|_| detail.was_opened()) else {
            return Ok(());
        };
        let until_draw = self.now().map_or(Duration::ZERO, |now| left(draw_at, now));
        let is_open = if detail.status == Status::Open {
            "1"
        } else {
            "0"
        };
        let arguments = vec![
            detail.id.to_string(),
            is_open.to_owned(),
            millis(until_draw + ROOM_KEPT_AFTER_DRAW).to_string(),
        ];
        let key = self.redis.keys().room(detail.room_id);
        self.room
            .run::<String>(&self.redis, vec![key], arguments)
            .await
            .map(|_| ())
            .map_err(redis_error("write a room"))
    }

    /// Remembers that there is no such activity; never in place of a detail.
    pub(super) async fn write_unknown(&self, id: ActivityId) -> Result<(), HotCopyError> {
        let key = self.redis.keys().activity(id);
        let life = Some(Expiration::EX(UNKNOWN_TTL_SECS));
        self.redis
            .set::<(), _, _>(&key, "null", life, Some(SetOptions::NX), false)
            .await
            .map_err(redis_error("remember an unknown id"))
    }

    /// Whether this process is the one to refill the copy.
    pub(super) async fn may_refill(&self, id: ActivityId) -> Result<bool, HotCopyError> {
        let key = self.mutex(id);
        let life = Some(Expiration::PX(MUTEX_TTL_MS));
        self.redis
            .set::<Option<String>, _, _>(&key, "1", life, Some(SetOptions::NX), false)
            .await
            .map(|answer| answer.is_some())
            .map_err(redis_error("take a refill mutex"))
    }

    /// Lets others refill again.
    pub(super) async fn end_refill(&self, id: ActivityId) -> Result<(), HotCopyError> {
        let key = self.mutex(id);
        self.redis
            .del::<(), _>(&key)
            .await
            .map_err(redis_error("give a refill mutex back"))
    }

    fn mutex(&self, id: ActivityId) -> String {
        let keys = self.redis.keys();
        keys.mutex(&keys.activity(id))
    }

    fn now(&self) -> Option<Timestamp> {
        self.clock.estimate().map(|time| time.at)
    }
}

fn left(until: Timestamp, now: Timestamp) -> Duration {
    (until - now).to_std().unwrap_or_default()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How long a detail is kept in Redis: beyond its next change, which the projection brings.
fn time_to_live(detail: &ActivityDetail, now: Option<Timestamp>) -> Duration {
    if detail.status.is_final() {
        return FINAL_TTL.mul_f64(rand::rng().random_range(0.95..1.0));
    }
    match (detail.draw_at, now) {
        (Some(draw_at), Some(now)) => left(draw_at, now) + PAST_DRAW_TTL,
        (Some(_), None) => PAST_DRAW_TTL,
        (None, Some(_) | None) => UNSCHEDULED_TTL,
    }
}
