//! Making the tree of a drawn activity from its frozen rows.

use sea_orm::{DatabaseConnection, DbErr, TransactionTrait};
use tokio_util::sync::CancellationToken;

use super::{
    block::Source,
    store,
    tree::{BLOCK_LEN, BLOCK_LEVEL, Hash, Node, TreeBuilder, entries_root},
};
use crate::{
    activity::{Activity, publication},
    infra::mysql::{TransactionRetry, within_limit},
    kernel::{self, ActivityId, UserId},
    telemetry::metrics,
};

/// What the entries of an activity come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltEntries {
    pub count: u64,
    pub root: Hash,
}

/// Computes an activity's tree, block by block, and stores its nodes; `None` when `stop` came first,
/// or somebody else's publication.
///
/// Until that one nothing about the rows changes, so whoever does it again, or at the same time,
/// stores the same. From then on participations may be erased, and nothing is stored any more.
pub async fn store_entries(
    db: &DatabaseConnection,
    activity: &Activity,
    stop: &CancellationToken,
) -> Result<Option<BuiltEntries>, DbErr> {
    let key = within_limit(publication::find_leaf_key(db, activity.id)).await?;
    let source = Source::of(activity, key)
        .ok_or_else(|| DbErr::Type(format!("activity {} was never opened", activity.id)))?;
    let mut builder = TreeBuilder::default();
    let mut nodes = Vec::new();
    let mut after = UserId(0);
    let mut first_user_id = None;
    loop {
        if stop.is_cancelled() {
            return Ok(None);
        }
        let page = within_limit(source.list(db, after, BLOCK_LEN)).await?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        first_user_id = page.first().map(|(user_id, _)| *user_id);
        for (user_id, state) in &page {
            builder.push(source.leaf(*user_id, *state), &mut nodes);
        }
        if !store_nodes(db, &source, &mut nodes, first_user_id).await? {
            return Ok(None);
        }
        kernel::step("proof.page");
    }
    let count = builder.count();
    let tree = builder.finish(&mut nodes);
    if !store_nodes(db, &source, &mut nodes, first_user_id).await? {
        return Ok(None);
    }
    let root = entries_root(activity.id, count, &tree);
    Ok(Some(BuiltEntries { count, root }))
}

/// Stores what a page has completed: one block at most, the page's own. `false` when the proof is
/// published already.
async fn store_nodes(
    db: &DatabaseConnection,
    source: &Source,
    nodes: &mut Vec<Node>,
    first_user_id: Option<UserId>,
) -> Result<bool, DbErr> {
    let begins = |node: &Node| first_user_id.filter(|_| node.level == BLOCK_LEVEL);
    let rows: Vec<_> = nodes.drain(..).map(|node| (node, begins(&node))).collect();
    let mut retry = TransactionRetry::new();
    loop {
        match within_limit(try_store(db, source.activity_id, &rows)).await {
            // Somebody else may be storing the same.
            Err(error) if retry.again(&error).await => metrics::db_retries(),
            outcome => return outcome,
        }
    }
}

async fn try_store(
    db: &DatabaseConnection,
    id: ActivityId,
    rows: &[(Node, Option<UserId>)],
) -> Result<bool, DbErr> {
    let tx = db.begin().await?;
    if !publication::lock_unpublished(&tx, id).await? {
        return Ok(false);
    }
    store::insert_nodes(&tx, id, rows).await?;
    tx.commit().await?;
    Ok(true)
}
