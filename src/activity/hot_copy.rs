//! What Redis shows of activities: `lb:activity`, `lb:prize` and `lb:room`.

use std::{error::Error, sync::Arc, time::Duration};

use fred::{
    error::Error as RedisError,
    interfaces::{HashesInterface, KeysInterface},
    types::{Expiration, SetOptions},
};

use super::{ActivityDetail, Status};
use crate::{
    infra::{
        mysql::DatabaseClock,
        redis::{
            LuaScript, Redis,
            aside::{self, Asked, Refill, is_out_of_memory, is_wrong_type},
        },
    },
    kernel::{ActivityId, Timestamp, jittered},
};

const FINAL_TTL: Duration = Duration::from_hours(72);
/// A final detail with less than this left is read from `MySQL` again, so that it does not lapse.
const RENEWED_BELOW: Duration = Duration::from_hours(1);
const UNSCHEDULED_TTL: Duration = Duration::from_mins(10);
const PAST_DRAW_TTL: Duration = Duration::from_secs(2);
const UNKNOWN_TTL: Duration = Duration::from_mins(1);
const ROOM_KEPT_AFTER_DRAW: Duration = Duration::from_hours(7 * 24);

/// What is known of an activity id.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Found(Arc<ActivityDetail>),
    /// There is no such activity.
    Unknown,
}

impl Known {
    /// Whether `other` knows nothing newer. An activity is never deleted, so whoever has seen it knows
    /// more.
    pub(super) fn is_at_least(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Found(detail), Self::Found(other)) => detail.version >= other.version,
            (Self::Unknown, Self::Found(_)) => false,
            (Self::Found(_) | Self::Unknown, Self::Unknown) => true,
        }
    }
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

    #[error("cannot refill Redis")]
    Refill(#[from] RedisError),

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

    /// What Redis has, or what another process puts there in a moment; nothing older than `newest`.
    pub(super) async fn ask(&self, id: ActivityId, newest: Option<&Known>) -> Asked<Known> {
        let key = self.redis.keys().activity(id);
        let read = || async {
            let known = self.read(id, &key).await?;
            let is_wanted = |known: &Known| newest.is_none_or(|newest| known.is_at_least(newest));
            Ok::<_, HotCopyError>(known.filter(is_wanted))
        };
        aside::ask(&self.redis, &key, read).await
    }

    /// Keeps what `MySQL` has for who asks next.
    pub(super) async fn fill(&self, id: ActivityId, known: &Known, refill: Refill) {
        let key = self.redis.keys().activity(id);
        let write = Box::pin(async {
            match known {
                Known::Found(detail) => self.write(detail).await,
                Known::Unknown => self.write_unknown(&key).await,
            }
        });
        aside::fill(&self.redis, &key, refill, write).await;
    }

    /// The copy, or `None` on a miss; a value that does not parse is dropped, and so a miss.
    async fn read(&self, id: ActivityId, key: &str) -> Result<Option<Known>, HotCopyError> {
        let (text, ttl_ms) = tokio::join!(
            self.redis.get::<Option<String>, _>(key),
            self.redis.pttl::<i64, _>(key)
        );
        let text = match text {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(None),
            Err(error) if is_wrong_type(&error) => {
                log_unusable(id, &error);
                return self.drop_copy(key).await;
            }
            Err(error) => return Err(redis_error("read a detail")(error)),
        };
        match serde_json::from_str::<Option<ActivityDetail>>(&text) {
            Ok(None) => Ok(Some(Known::Unknown)),
            Ok(Some(detail)) => {
                let is_ending = ttl_ms.is_ok_and(|left| left < millis(RENEWED_BELOW));
                let is_stale = detail.status.is_final() && is_ending;
                Ok((!is_stale).then(|| Known::Found(Arc::new(detail))))
            }
            Err(error) => {
                log_unusable(id, &error);
                self.drop_copy(key).await
            }
        }
    }

    async fn drop_copy(&self, key: &str) -> Result<Option<Known>, HotCopyError> {
        let dropped = self.redis.del::<(), _>(key).await;
        dropped.map_err(redis_error("drop a detail"))?;
        Ok(None)
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
        let written = self
            .project
            .run::<String>(&self.redis, vec![key.clone()], arguments);
        let answer = match written.await {
            Ok(answer) => answer,
            Err(error) => {
                // An older copy would be read for as long as there is no room for this one.
                if is_out_of_memory(&error) {
                    self.drop_copy(&key).await?;
                }
                return Err(redis_error("write a detail")(error));
            }
        };
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
    async fn write_unknown(&self, key: &str) -> Result<(), HotCopyError> {
        let life = Some(Expiration::PX(millis(jittered(UNKNOWN_TTL))));
        self.redis
            .set::<(), _, _>(key, "null", life, Some(SetOptions::NX), false)
            .await
            .map_err(redis_error("remember an unknown id"))
    }

    fn now(&self) -> Option<Timestamp> {
        self.clock.estimate().map(|time| time.at)
    }
}

fn log_unusable(id: ActivityId, error: &(dyn Error + 'static)) {
    tracing::warn!(activity.id = %id, error, "a cached detail does not parse, it is dropped");
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
        return jittered(FINAL_TTL);
    }
    match (detail.draw_at, now) {
        (Some(draw_at), Some(now)) => left(draw_at, now) + jittered(PAST_DRAW_TTL),
        (Some(_), None) => jittered(PAST_DRAW_TTL),
        (None, Some(_) | None) => jittered(UNSCHEDULED_TTL),
    }
}
