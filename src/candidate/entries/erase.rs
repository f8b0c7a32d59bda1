//! Erasing a participation without taking the ground from under its neighbours' paths.

use sea_orm::{ConnectionTrait, DbErr};

use super::{
    block::{Block, Source},
    store,
};
use crate::{
    activity::{Activity, publication},
    candidate::{
        Verdict,
        store::{Lock, read_rows},
    },
    kernel::{MAX_ID, UserId},
};

/// Keeps the leaf hash of a user's participation, in the transaction that goes on to erase it and
/// everything else of the user in this activity; `false` when it is no entry of a published proof.
///
/// Call it with the activity's row locked, so that erasures in one activity come one after the
/// other, before anything of the user is removed, and never while the activity needs its
/// participants: whether it does is not looked at here.
///
/// # Errors
///
/// [`DbErr::Type`] when the rows are not those over which the proof was made.
pub async fn keep_leaf(
    tx: &impl ConnectionTrait,
    activity: &Activity,
    user_id: UserId,
) -> Result<bool, DbErr> {
    let id = activity.id;
    let rows = read_rows(tx, id, &[user_id], Lock::ForUpdate).await?;
    let participation = rows
        .get(&user_id)
        .and_then(|rows| rows.participation.as_ref());
    let is_entry = participation.is_some_and(|row| !matches!(row.verdict, Verdict::Late(_)));
    if !is_entry {
        return Ok(false);
    }
    let Some(published) = publication::find_published(tx, id).await? else {
        return Ok(false);
    };
    match Source::of(activity, published.leaf_key) {
        Some(source) => keep(tx, &source, published.entries_count, user_id).await,
        None => Ok(false),
    }
}

async fn keep(
    tx: &impl ConnectionTrait,
    source: &Source,
    count: u64,
    user_id: UserId,
) -> Result<bool, DbErr> {
    let id = source.activity_id;
    if !store::lock_entries(tx, id).await? {
        // Retention has removed the tree.
        return Ok(false);
    }
    let missing = || DbErr::Type(format!("user {user_id} is in no block of activity {id}"));
    let node = store::find_block(tx, id, user_id).await?;
    let node = node.ok_or_else(missing)?;
    let block = source.block(tx, &node, count).await?;
    let member = block.member(user_id).ok_or_else(missing)?;
    let leaf = source.leaf(user_id, member.state);
    store::insert_erased(tx, id, member.index, &leaf).await?;
    if node.first_user_id == user_id {
        let next = next_user(tx, source, &block, user_id).await?;
        store::move_first_user(tx, id, user_id, next).await?;
    }
    Ok(true)
}

/// Where a block begins once its first user is erased: not at an id that is to be forgotten.
async fn next_user(
    tx: &impl ConnectionTrait,
    source: &Source,
    block: &Block,
    erased: UserId,
) -> Result<UserId, DbErr> {
    let in_block = block.members.iter().find(|member| member.user_id > erased);
    if let Some(member) = in_block {
        return Ok(member.user_id);
    }
    let behind = source.list(tx, erased, 1).await?;
    Ok(behind
        .first()
        .map_or(UserId(MAX_ID), |(user_id, _)| *user_id))
}
