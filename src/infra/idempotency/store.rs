//! The `idempotency` table. No other file reads or writes it.

use std::sync::Arc;

use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, FromQueryResult};
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::{
    infra::mysql::{NoOutcome, change_in_turn, read_in_turn, sql, within_limit},
    kernel::{Timestamp, UserId, to_millis},
};

/// Who calls, under which key, for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallKey {
    /// Keys of different callers have nothing to do with each other.
    pub principal: UserId,
    /// 1 to 255 visible ASCII characters.
    pub key: String,
    /// SHA-256 over everything that makes two calls the same.
    pub request_hash: [u8; 32],
}

/// What a call was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Where the thing is that was made.
    pub location: Option<String>,
    /// JSON text.
    pub body: String,
}

/// What a key was used for before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// The same call, and what it was answered.
    Same(Answer),
    /// Another call.
    Other,
}

/// The kept answers, and the turns in which callers read and change `MySQL`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Answers {
    db: DatabaseConnection,
    turns: Arc<Semaphore>,
}

impl Answers {
    /// Rows that one pass removes at most, and one statement of it.
    const FORGOTTEN_AT_ONCE: usize = 10_000;
    const STEP: u64 = 500;

    pub fn new(db: DatabaseConnection, turns: Arc<Semaphore>) -> Self {
        Self { db, turns }
    }

    /// What was committed under the key of this call.
    pub async fn find(&self, call: &CallKey) -> Result<Option<Earlier>, DbErr> {
        let row = read_in_turn(&self.turns, find(&self.db, call)).await?;
        Ok(row.map(|row| {
            if row.request_hash != call.request_hash {
                return Earlier::Other;
            }
            Earlier::Same(Answer {
                status: row.status,
                location: row.location,
                body: row.body,
            })
        }))
    }

    /// Runs a change on behalf of a caller when its turn has come.
    pub async fn in_turn<T>(&self, change: impl Future<Output = T>) -> Result<T, NoOutcome> {
        change_in_turn(&self.turns, change).await
    }

    /// Removes answers that are older than 24 hours; tells how many.
    pub async fn forget_old(&self) -> Result<usize, DbErr> {
        let mut forgotten = 0;
        while forgotten < Self::FORGOTTEN_AT_ONCE {
            let step = delete_old(&self.db, Self::STEP).await?;
            forgotten += usize::try_from(step).unwrap_or(usize::MAX);
            if step < Self::STEP {
                break;
            }
        }
        Ok(forgotten)
    }
}

#[derive(FromQueryResult)]
struct Row {
    request_hash: Vec<u8>,
    status: u16,
    location: Option<String>,
    body: String,
}

async fn find(conn: &impl ConnectionTrait, call: &CallKey) -> Result<Option<Row>, DbErr> {
    Row::find_by_statement(sql(
        "SELECT request_hash, status, location, body FROM idempotency \
         WHERE principal = ? AND idempotency_key = ?",
        [call.principal.into(), call.key.as_str().into()],
    ))
    .one(conn)
    .await
}

pub(super) async fn insert(
    tx: &impl ConnectionTrait,
    call: &CallKey,
    answer: &Answer,
) -> Result<(), DbErr> {
    tx.execute_raw(sql(
        "INSERT INTO idempotency (principal, idempotency_key, request_hash, status, location, \
         body, created_at) VALUES (?, ?, ?, ?, ?, ?, NOW(3))",
        [
            call.principal.into(),
            call.key.as_str().into(),
            call.request_hash.to_vec().into(),
            answer.status.into(),
            answer.location.clone().into(),
            answer.body.as_str().into(),
        ],
    ))
    .await
    .map(|_| ())
}

async fn delete_old(conn: &impl ConnectionTrait, limit: u64) -> Result<u64, DbErr> {
    let result = conn
        .execute_raw(sql(
            "DELETE FROM idempotency WHERE created_at < NOW(3) - INTERVAL 24 HOUR \
             ORDER BY created_at LIMIT ?",
            [limit.into()],
        ))
        .await?;
    Ok(result.rows_affected())
}

/// A key that a user has called with, for an export: its answer is that of the call.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredKey {
    pub key: String,
    pub status: u16,
    #[serde(with = "to_millis")]
    pub created_at: Timestamp,
}

/// The keys that a user has called with, the oldest first.
pub async fn list_of_user(
    conn: &impl ConnectionTrait,
    user_id: UserId,
) -> Result<Vec<StoredKey>, DbErr> {
    StoredKey::find_by_statement(sql(
        "SELECT idempotency_key AS `key`, status, created_at FROM idempotency \
         WHERE principal = ? ORDER BY created_at, idempotency_key",
        [user_id.into()],
    ))
    .all(conn)
    .await
}

/// Removes the keys of a user with their answers, in small steps, and tells how many.
pub async fn forget_user(db: &DatabaseConnection, user_id: UserId) -> Result<u64, DbErr> {
    const STEP: u64 = 500;

    let mut forgotten = 0;
    loop {
        let step = within_limit(delete_of_user(db, user_id, STEP)).await?;
        forgotten += step;
        if step < STEP {
            return Ok(forgotten);
        }
    }
}

async fn delete_of_user(
    conn: &impl ConnectionTrait,
    user_id: UserId,
    limit: u64,
) -> Result<u64, DbErr> {
    let result = conn
        .execute_raw(sql(
            "DELETE FROM idempotency WHERE principal = ? ORDER BY idempotency_key LIMIT ?",
            [user_id.into(), limit.into()],
        ))
        .await?;
    Ok(result.rows_affected())
}
