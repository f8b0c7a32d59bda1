//! The `entries_node` and `erased_leaf` tables. No other file reads or writes them.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};

use super::{
    block::BlockNode,
    tree::{BLOCK_LEVEL, Hash, Node},
};
use crate::{
    infra::mysql::{placeholders, sql},
    kernel::{ActivityId, UserId},
};

/// Rows of one INSERT.
const BATCH: usize = 500;

#[derive(FromQueryResult)]
struct BlockRow {
    node_index: u64,
    hash: Vec<u8>,
    first_user_id: Option<UserId>,
}

#[derive(FromQueryResult)]
struct NodeRow {
    node_level: u8,
    node_index: u64,
    hash: Vec<u8>,
    first_user_id: Option<UserId>,
}

#[derive(FromQueryResult)]
struct ErasedRow {
    position: u64,
    hash: Vec<u8>,
}

fn hash(id: ActivityId, bytes: Vec<u8>) -> Result<Hash, DbErr> {
    let text = || DbErr::Type(format!("a stored hash of activity {id} has not 32 bytes"));
    bytes.try_into().map_err(|_| text())
}

/// The hashes of all stored nodes by level and index, and the blocks in their order.
pub(super) async fn list_nodes(
    conn: &impl ConnectionTrait,
    id: ActivityId,
) -> Result<(BTreeMap<(u8, u64), Hash>, Vec<BlockNode>), DbErr> {
    let rows = NodeRow::find_by_statement(sql(
        "SELECT node_level, node_index, hash, first_user_id FROM entries_node \
         WHERE activity_id = ? ORDER BY node_level, node_index",
        [id.into()],
    ))
    .all(conn)
    .await?;
    let (mut nodes, mut blocks) = (BTreeMap::new(), Vec::new());
    for row in rows {
        let hash = hash(id, row.hash)?;
        nodes.insert((row.node_level, row.node_index), hash);
        if let Some(first_user_id) = row.first_user_id {
            blocks.push(BlockNode {
                number: row.node_index,
                hash,
                first_user_id,
            });
        }
    }
    Ok((nodes, blocks))
}

/// Keeps others from changing what is stored of an activity's entries until the transaction ends;
/// `false` when nothing is stored of them.
///
/// One row for all blocks: a locking read by user id would look for the row where it was before
/// somebody else moved its `first_user_id`.
pub(super) async fn lock_entries(tx: &impl ConnectionTrait, id: ActivityId) -> Result<bool, DbErr> {
    let row = tx
        .query_one_raw(sql(
            "SELECT node_index FROM entries_node \
             WHERE activity_id = ? AND node_level = ? AND node_index = 0 FOR UPDATE",
            [id.into(), BLOCK_LEVEL.into()],
        ))
        .await?;
    Ok(row.is_some())
}

/// The block in which a user's entry is, if there is one.
pub(super) async fn find_block(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    user_id: UserId,
) -> Result<Option<BlockNode>, DbErr> {
    let row = BlockRow::find_by_statement(sql(
        "SELECT node_index, hash, first_user_id FROM entries_node \
         WHERE activity_id = ? AND first_user_id <= ? \
         ORDER BY first_user_id DESC, node_index DESC LIMIT 1",
        [id.into(), user_id.into()],
    ))
    .one(tx)
    .await?;
    let Some(BlockRow {
        node_index,
        hash: bytes,
        first_user_id: Some(first_user_id),
    }) = row
    else {
        return Ok(None);
    };
    Ok(Some(BlockNode {
        number: node_index,
        hash: hash(id, bytes)?,
        first_user_id,
    }))
}

/// Says that what began at a user id begins at another one: the user's block, and every block before
/// it that has been emptied.
pub(super) async fn move_first_user(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    from: UserId,
    to: UserId,
) -> Result<(), DbErr> {
    tx.execute_raw(sql(
        "UPDATE entries_node SET first_user_id = ? \
         WHERE activity_id = ? AND node_level = ? AND first_user_id = ?",
        [to.into(), id.into(), BLOCK_LEVEL.into(), from.into()],
    ))
    .await
    .map(|_| ())
}

/// The leaves of erased entries with an index from `first` up to `end`, which is not included.
pub(super) async fn list_erased(
    conn: &impl ConnectionTrait,
    id: ActivityId,
    first: u64,
    end: u64,
) -> Result<BTreeMap<u64, Hash>, DbErr> {
    let rows = ErasedRow::find_by_statement(sql(
        "SELECT position, hash FROM erased_leaf \
         WHERE activity_id = ? AND position >= ? AND position < ?",
        [id.into(), first.into(), end.into()],
    ))
    .all(conn)
    .await?;
    rows.into_iter()
        .map(|row| Ok((row.position, hash(id, row.hash)?)))
        .collect()
}

/// Keeps the leaf of an entry that is about to be erased; again is the same.
pub(super) async fn insert_erased(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    index: u64,
    leaf: &Hash,
) -> Result<(), DbErr> {
    tx.execute_raw(sql(
        "INSERT INTO erased_leaf (activity_id, position, hash) VALUES (?, ?, ?) \
         ON DUPLICATE KEY UPDATE hash = VALUES(hash)",
        [id.into(), index.into(), leaf.to_vec().into()],
    ))
    .await
    .map(|_| ())
}

/// Stores nodes, blocks with the user id at which they begin. Again is the same as long as nobody is
/// erased, which the transaction has to rule out.
pub(super) async fn insert_nodes(
    tx: &impl ConnectionTrait,
    id: ActivityId,
    nodes: &[(Node, Option<UserId>)],
) -> Result<(), DbErr> {
    for batch in nodes.chunks(BATCH) {
        let text = format!(
            "INSERT INTO entries_node (activity_id, node_level, node_index, hash, first_user_id) \
             VALUES {} ON DUPLICATE KEY UPDATE hash = VALUES(hash), \
             first_user_id = VALUES(first_user_id)",
            placeholders(batch.len(), 5)
        );
        let values = batch.iter().flat_map(|(node, first_user_id)| {
            [
                id.into(),
                node.level.into(),
                node.index.into(),
                node.hash.to_vec().into(),
                first_user_id.map(|user| user.0).into(),
            ]
        });
        tx.execute_raw(sql(text, values)).await?;
    }
    Ok(())
}

/// Removes up to `limit` rows of what is kept of an activity's entries and tells how many, for the
/// end of their life: call it before the participations go, until it removes none.
pub async fn forget_entries(
    conn: &impl ConnectionTrait,
    id: ActivityId,
    limit: u64,
) -> Result<u64, DbErr> {
    // The root first: without it nobody reads the rest.
    const TABLES: [(&str, &str); 2] = [
        ("entries_node", "ORDER BY node_level DESC"),
        ("erased_leaf", "ORDER BY position"),
    ];
    let mut removed = 0;
    for (table, order) in TABLES {
        let left = limit.saturating_sub(removed);
        if left > 0 {
            let text = format!("DELETE FROM {table} WHERE activity_id = ? {order} LIMIT ?");
            let values = [id.into(), left.into()];
            removed += conn.execute_raw(sql(text, values)).await?.rows_affected();
        }
    }
    Ok(removed)
}
