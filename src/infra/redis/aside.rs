//! Cache aside: one process refills what Redis lacks, the others wait a moment for it.

use std::{error::Error, sync::LazyLock, time::Duration};

use fred::{
    error::Error as RedisError,
    interfaces::KeysInterface,
    types::{Expiration, SetOptions},
};

use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::{LuaScript, Redis};

/// Gives a claim back, for its holder alone: KEYS the claim, ARGV its holder.
pub static RELEASE_CLAIM: LazyLock<LuaScript> =
    LazyLock::new(|| LuaScript::new(include_str!("release_claim.lua")));

/// How long a process may take to refill a copy, until another one may.
const MUTEX_LIFE: Duration = Duration::from_secs(3);
/// How often, and how many times, to look for what another process is refilling.
const LOOK_PAUSE: Duration = Duration::from_millis(30);
const LOOKS: u32 = 10;

/// What came of asking Redis for a copy.
#[derive(Debug)]
pub enum Asked<T> {
    Found(T),
    /// Redis answers and has none: who asked reads `MySQL` and fills it, with [`fill`].
    Missing(Refill),
    /// Redis is away or slow; filling it would only take time.
    Silent,
}

/// Whether the others wait for this process to refill a copy: who holds their mutex.
#[derive(Debug, Default)]
pub struct Refill {
    holder: Option<String>,
}

/// Asks Redis for the copy at `key`, and waits a moment when another process is refilling it; never
/// longer than a reader's patience in all.
///
/// `read` answers `None` for a copy that is missing or of no use.
pub async fn ask<T, E, Reading>(redis: &Redis, key: &str, read: impl Fn() -> Reading) -> Asked<T>
where
    E: Error + From<RedisError> + 'static,
    Reading: Future<Output = Result<Option<T>, E>>,
{
    if !redis.is_connected() || redis.is_silent() {
        return Asked::Silent;
    }
    let until = Instant::now() + redis.patience();
    // On the heap, as is what follows: commands of the client are large futures.
    let first = Box::pin(async {
        if let Some(copy) = read().await? {
            return Ok(Some(Asked::Found(copy)));
        }
        let refill = claim_refill(redis, key).await?;
        Ok::<_, E>(refill.map(Asked::Missing))
    });
    match timeout_at(until, first).await {
        Ok(Ok(Some(asked))) => asked,
        Ok(Ok(None)) => await_refill(key, until, read).await,
        Ok(Err(error)) => {
            log_failure(key, &error);
            Asked::Silent
        }
        Err(elapsed) => {
            redis.note_silence();
            log_failure(key, &elapsed);
            Asked::Silent
        }
    }
}

/// Looks for what another process is refilling. That it takes long says nothing about Redis.
async fn await_refill<T, E, Reading>(
    key: &str,
    until: Instant,
    read: impl Fn() -> Reading,
) -> Asked<T>
where
    E: Error + 'static,
    Reading: Future<Output = Result<Option<T>, E>>,
{
    let looking = Box::pin(async {
        for _ in 0..LOOKS {
            tokio::time::sleep(LOOK_PAUSE).await;
            if let Some(copy) = read().await? {
                return Ok(Some(copy));
            }
        }
        Ok::<_, E>(None)
    });
    match timeout_at(until, looking).await {
        Ok(Ok(Some(copy))) => Asked::Found(copy),
        Ok(Ok(None)) | Err(_) => Asked::Missing(Refill::default()),
        Ok(Err(error)) => {
            log_failure(key, &error);
            Asked::Silent
        }
    }
}

/// Fills the copy at `key` by `write`, for at most 3 s, and lets others refill it again; does nothing
/// while Redis is away, or silent and nobody waits.
pub async fn fill<E>(
    redis: &Redis,
    key: &str,
    refill: Refill,
    write: impl Future<Output = Result<(), E>>,
) where
    E: Error + From<RedisError> + 'static,
{
    let is_waited_for = refill.holder.is_some();
    if !redis.is_connected() || (redis.is_silent() && !is_waited_for) {
        return;
    }
    let filling = Box::pin(async {
        write.await?;
        if let Some(holder) = refill.holder {
            // It may have lapsed and be somebody else's meanwhile.
            let mutex = vec![redis.keys().mutex(key)];
            RELEASE_CLAIM.run::<()>(redis, mutex, vec![holder]).await?;
        }
        Ok::<_, E>(())
    });
    match tokio::time::timeout(MUTEX_LIFE, filling).await {
        Ok(Ok(())) => (),
        Ok(Err(error)) => log_failure(key, &error),
        Err(elapsed) => log_failure(key, &elapsed),
    }
}

/// Whether a value is of another type than it should be: as good as one that does not parse.
pub fn is_wrong_type(error: &RedisError) -> bool {
    error.details().starts_with("WRONGTYPE")
}

/// Whether Redis refused to write because its memory is full; it still reads and removes.
pub fn is_out_of_memory(error: &RedisError) -> bool {
    error
        .details()
        .contains("OOM command not allowed when used memory")
}

/// `None` while another process refills the copy.
async fn claim_refill(redis: &Redis, key: &str) -> Result<Option<Refill>, RedisError> {
    let mutex = redis.keys().mutex(key);
    let holder = Uuid::new_v4().to_string();
    let life_ms = i64::try_from(MUTEX_LIFE.as_millis()).unwrap_or(i64::MAX);
    let life = Some(Expiration::PX(life_ms));
    let absent = Some(SetOptions::NX);
    let taken: Option<String> = redis
        .set(mutex, holder.as_str(), life, absent, false)
        .await?;
    let holder = Some(holder);
    Ok(taken.map(|_| Refill { holder }))
}

fn log_failure(key: &str, error: &(dyn Error + 'static)) {
    tracing::debug!(error, key, "redis does not serve a copy, MySQL does");
}
