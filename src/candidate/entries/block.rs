//! One block of up to 1,024 entries, from the rows of its users and the hashes kept of erased ones.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait, DbErr};

use super::{
    leaf::{EntryState, Salt, leaf_hash},
    store,
    tree::{BLOCK_LEN, Hash, Levels},
};
use crate::{
    activity::{Activity, LeafKey},
    candidate::{
        Rules, UserRows,
        store::{PageOf, list_page},
    },
    kernel::{ActivityId, UserId},
};

/// Of which activity entries are made, and how.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) activity_id: ActivityId,
    pub(super) rules: Rules,
    pub(super) key: LeafKey,
}

/// One entry with its place among all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) index: u64,
    pub(super) user_id: UserId,
    pub(super) state: EntryState,
}

/// A block whose leaves lead to its stored hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) first_index: u64,
    pub(super) levels: Levels,
    /// By user id; without the erased ones.
    pub(super) members: Vec<Member>,
}

/// What is stored of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockNode {
    pub(super) number: u64,
    pub(super) hash: Hash,
    /// No entry of the blocks before has this user id or a higher one.
    pub(super) first_user_id: UserId,
}

impl Source {
    /// `None` for an activity that has not been opened.
    pub(super) fn of(activity: &Activity, key: LeafKey) -> Option<Self> {
        Some(Self {
            activity_id: activity.id,
            rules: Rules::of(activity)?,
            key,
        })
    }

    pub(super) fn salt(&self, user_id: UserId) -> Salt {
        Salt::of(&self.key, user_id)
    }

    pub(super) fn leaf(&self, user_id: UserId, state: EntryState) -> Hash {
        leaf_hash(self.activity_id, &self.salt(user_id), user_id, state)
    }

    /// Up to `limit` entries with user ids above `after`, in their order.
    pub(super) async fn list(
        &self,
        conn: &impl ConnectionTrait,
        after: UserId,
        limit: u64,
    ) -> Result<Vec<(UserId, EntryState)>, DbErr> {
        let page = list_page(conn, self.activity_id, PageOf::Entries, after, limit).await?;
        let state = |(user_id, rows): (UserId, UserRows)| {
            EntryState::of(&self.rules, &rows).map(|state| (user_id, state))
        };
        Ok(page.into_iter().filter_map(state).collect())
    }

    /// Reads a block of a tree over `count` entries.
    ///
    /// # Errors
    ///
    /// [`DbErr::Type`] when its entries do not lead to the stored hash, time and again.
    pub(super) async fn block(
        &self,
        conn: &impl ConnectionTrait,
        node: &BlockNode,
        count: u64,
    ) -> Result<Block, DbErr> {
        // A user may be erased between two of the reads.
        const READS: usize = 3;

        for _ in 0..READS {
            if let Some(block) = self.try_block(conn, node, count).await? {
                return Ok(block);
            }
        }
        Err(DbErr::Type(format!(
            "the entries of activity {} do not lead to the stored node of block {}",
            self.activity_id, node.number
        )))
    }

    async fn try_block(
        &self,
        conn: &impl ConnectionTrait,
        node: &BlockNode,
        count: u64,
    ) -> Result<Option<Block>, DbErr> {
        let first_index = node.number * BLOCK_LEN;
        let end = count.min(first_index + BLOCK_LEN);
        let erased = store::list_erased(conn, self.activity_id, first_index, end).await?;
        let live_count = (end - first_index).saturating_sub(erased.len() as u64);
        let live = if live_count == 0 {
            Vec::new()
        } else {
            let after = UserId(node.first_user_id.0.saturating_sub(1));
            self.list(conn, after, live_count).await?
        };
        let block = self.assemble(first_index..end, &live, &erased);
        Ok(block.filter(|block| block.levels.root() == node.hash))
    }

    /// Puts the live entries, in the order of their user ids, where no erased one stands; `None`
    /// when there are more or fewer places than entries.
    fn assemble(
        &self,
        places: std::ops::Range<u64>,
        live: &[(UserId, EntryState)],
        erased: &BTreeMap<u64, Hash>,
    ) -> Option<Block> {
        let first_index = places.start;
        let mut live = live.iter();
        let (mut leaves, mut members) = (Vec::new(), Vec::new());
        for index in places {
            if let Some(hash) = erased.get(&index) {
                leaves.push(*hash);
                continue;
            }
            let (user_id, state) = *live.next()?;
            leaves.push(self.leaf(user_id, state));
            members.push(Member {
                index,
                user_id,
                state,
            });
        }
        live.next().is_none().then_some(Block {
            first_index,
            levels: Levels::over(leaves),
            members,
        })
    }
}

impl Block {
    /// The entry of a user that has not been erased.
    pub(super) fn member(&self, user_id: UserId) -> Option<Member> {
        let found = self
            .members
            .binary_search_by_key(&user_id, |member| member.user_id);
        found.ok().and_then(|at| self.members.get(at)).copied()
    }

    /// The index of a leaf, whether its user has been erased or not.
    pub(super) fn index_of(&self, leaf: &Hash) -> Option<u64> {
        let found = self
            .levels
            .leaves()
            .iter()
            .position(|known| known == leaf)?;
        Some(self.first_index + found as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        activity::{PresenceRule, Seed},
        kernel::Timestamp,
    };

    fn source() -> Source {
        Source {
            activity_id: ActivityId(7),
            rules: Rules {
                seed: Seed::new([1; 32]),
                draw_at: Timestamp::UNIX_EPOCH,
                presence_rule: PresenceRule::Ignore,
                tasks: std::collections::BTreeSet::new(),
                one_entry_per_device: false,
                trim_floor: 0.0,
            },
            key: LeafKey::new([2; 32]),
        }
    }

    proptest! {
        #[test]
        fn erased_entries_leave_everybody_in_the_same_place(
            users in prop::collection::btree_set(1..10_000_u64, 1..200),
            first_index in prop::sample::select(vec![0, BLOCK_LEN, 5 * BLOCK_LEN]),
            gone in prop::collection::vec(any::<bool>(), 200),
        ) {
            let source = source();
            let all: Vec<_> =
                users.iter().map(|user| (UserId(*user), EntryState::ELIGIBLE)).collect();
            let places = first_index..first_index + all.len() as u64;
            let whole = source.assemble(places.clone(), &all, &BTreeMap::new()).unwrap();
            let is_gone = |index: u64| gone[usize::try_from(index - first_index).unwrap()];
            let erased: BTreeMap<u64, Hash> = places
                .clone()
                .zip(whole.levels.leaves())
                .filter(|(index, _)| is_gone(*index))
                .map(|(index, leaf)| (index, *leaf))
                .collect();
            let left: Vec<_> = whole
                .members
                .iter()
                .filter(|member| !is_gone(member.index))
                .map(|member| (member.user_id, member.state))
                .collect();

            let block = source.assemble(places.clone(), &left, &erased).unwrap();

            prop_assert_eq!(&block.levels, &whole.levels);
            for member in &whole.members {
                let expected = (!is_gone(member.index)).then_some(*member);
                prop_assert_eq!(block.member(member.user_id), expected);
                let leaf = source.leaf(member.user_id, member.state);
                prop_assert_eq!(block.index_of(&leaf), Some(member.index));
            }
            // One more or one fewer is seen.
            let mut more = left.clone();
            more.push((UserId(10_001), EntryState::ELIGIBLE));
            prop_assert_eq!(source.assemble(places.clone(), &more, &erased), None);
            if let Some((_, fewer)) = left.split_last() {
                prop_assert_eq!(source.assemble(places, fewer, &erased), None);
            }
        }
    }
}
