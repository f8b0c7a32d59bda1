//! The proof's columns of the `activity` row: what an activity's entries come to, and since when
//! everybody may see it together with the seed.

use std::fmt;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use crate::{
    infra::mysql::sql,
    kernel::{ActivityId, Timestamp},
};

/// The secret from which the salt of every entry follows. Never revealed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LeafKey([u8; 32]);

impl LeafKey {
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub const fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

// Who knows it can find anybody's entry, so it must not slip into a log.
impl fmt::Debug for LeafKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafKey(secret)")
    }
}

/// What is fixed with the publication of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    pub leaf_key: LeafKey,
    pub entries_root: [u8; 32],
    pub entries_count: u64,
    pub at: Timestamp,
}

#[derive(FromQueryResult)]
struct Row {
    leaf_key: Option<Vec<u8>>,
    entries_root: Option<Vec<u8>>,
    entries_count: Option<u64>,
    proof_published_at: Option<Timestamp>,
    version: u32,
}

fn bytes32(id: ActivityId, bytes: Option<Vec<u8>>) -> Result<[u8; 32], DbErr> {
    let text = || DbErr::Type(format!("the proof of activity {id} makes no sense"));
    bytes.ok_or_else(text)?.try_into().map_err(|_| text())
}

async fn find(conn: &impl ConnectionTrait, id: ActivityId) -> Result<Option<Row>, DbErr> {
    Row::find_by_statement(sql(
        "SELECT leaf_key, entries_root, entries_count, proof_published_at, version \
         FROM activity WHERE id = ?",
        [id.into()],
    ))
    .one(conn)
    .await
}

/// What was published; `None` as long as the seed is secret.
pub async fn find_published(
    conn: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<Option<Published>, DbErr> {
    let Some(row) = find(conn, id).await? else {
        return Ok(None);
    };
    let (Some(at), Some(entries_count)) = (row.proof_published_at, row.entries_count) else {
        return Ok(None);
    };
    Ok(Some(Published {
        leaf_key: LeafKey::new(bytes32(id, row.leaf_key)?),
        entries_root: bytes32(id, row.entries_root)?,
        entries_count,
        at,
    }))
}

/// The leaf key of an activity that has been opened.
pub async fn find_leaf_key(conn: &impl ConnectionTrait, id: ActivityId) -> Result<LeafKey, DbErr> {
    let row = find(conn, id).await?;
    bytes32(id, row.and_then(|row| row.leaf_key)).map(LeafKey::new)
}

/// Keeps a drawn activity's proof from being published, and so anybody from being erased, until the
/// transaction ends; `false` when it is published, or the activity not drawn.
pub async fn lock_unpublished(tx: &impl ConnectionTrait, id: ActivityId) -> Result<bool, DbErr> {
    let row = tx
        .query_one_raw(sql(
            "SELECT id FROM activity \
             WHERE id = ? AND status = 'drawn' AND proof_published_at IS NULL LOCK IN SHARE MODE",
            [id.into()],
        ))
        .await?;
    Ok(row.is_some())
}

/// Publishes a drawn activity's proof and returns the new version and the time; `None` when that
/// was done already or it is not drawn. Takes the row's lock, so it comes first in its transaction.
pub async fn mark_published(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    root: &[u8; 32],
    count: u64,
) -> Result<Option<(u32, Timestamp)>, DbErr> {
    let result = tx
        .execute_raw(sql(
            "UPDATE activity SET entries_root = ?, entries_count = ?, proof_published_at = NOW(3), \
             version = version + 1, updated_at = NOW(3) \
             WHERE id = ? AND status = 'drawn' AND proof_published_at IS NULL",
            [root.to_vec().into(), count.into(), id.into()],
        ))
        .await?;
    if result.rows_affected() == 0 {
        return Ok(None);
    }
    let row = find(tx, id).await?;
    Ok(row.and_then(|row| Some((row.version, row.proof_published_at?))))
}

/// A drawn activity whose proof should have been published by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
pub struct Missed {
    pub drawn_at: Timestamp,
    pub id: ActivityId,
}

impl Missed {
    /// Stands before all of them.
    pub const NONE: Self = Self {
        drawn_at: Timestamp::UNIX_EPOCH,
        id: ActivityId(0),
    };
}

/// Whoever drew an activity has had 5 s, and 1 s more for every 10,000 participants.
const IS_MISSED: &str = "status = 'drawn' AND proof_published_at IS NULL \
     AND drawn_at <= NOW(3) - INTERVAL (5 + COALESCE(joined_count, 0) DIV 10000) SECOND";

/// Up to `limit` missed proofs behind `after`, the longest missed ones first.
pub async fn list_missed(
    conn: &impl ConnectionTrait,
    after: Missed,
    limit: u32,
) -> Result<Vec<Missed>, DbErr> {
    let text = format!(
        "SELECT drawn_at, id FROM activity WHERE {IS_MISSED} \
         AND (drawn_at > ? OR (drawn_at = ? AND id > ?)) ORDER BY drawn_at, id LIMIT ?"
    );
    let Missed { drawn_at, id } = after;
    let values = [drawn_at.into(), drawn_at.into(), id.into(), limit.into()];
    Missed::find_by_statement(sql(text, values)).all(conn).await
}

#[derive(FromQueryResult)]
struct Count {
    count: i64,
}

/// How many proofs are missed.
pub async fn count_missed(conn: &impl ConnectionTrait) -> Result<u64, DbErr> {
    let text = format!("SELECT COUNT(*) AS count FROM activity WHERE {IS_MISSED}");
    let row = Count::find_by_statement(sql(text, [])).one(conn).await?;
    Ok(row.map_or(0, |row| row.count.unsigned_abs()))
}
