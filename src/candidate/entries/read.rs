//! Entries and their paths, for whoever asks: from memory, else from `MySQL`.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hash as Key,
    sync::Arc,
    time::Duration,
};

use moka::{future::Cache, policy::EvictionPolicy};
use sea_orm::{ConnAcquireErr, DatabaseConnection, DbErr};
use tokio::sync::{OnceCell, Semaphore};

use super::{
    block::{Block, BlockNode, Source},
    leaf::{EntryState, Salt},
    store,
    tree::{BLOCK_LEN, BLOCK_LEVEL, Hash, empty_tree, entries_root, top_level, way_up},
};
use crate::{
    activity::{
        self, Seed,
        publication::{self, Published},
    },
    infra::mysql::{answer, read_in_turn, read_turn},
    kernel::{ActivityId, UserId},
};

/// One entry with everything that leads from it to the tree's hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenEntry {
    pub index: u64,
    pub salt: Salt,
    pub state: EntryState,
    /// From the leaf's sibling on upwards.
    pub path: Vec<Hash>,
}

/// The published tree of an activity, without its leaves.
#[derive(Debug)]
pub struct Tree {
    pub hash: Hash,
    pub published: Published,
    source: Source,
    nodes: BTreeMap<(u8, u64), Hash>,
    blocks: Vec<BlockNode>,
}

/// What is known of an activity's entries.
#[derive(Clone, Debug)]
pub enum Entries {
    Published(Arc<Tree>),
    /// The proof is not published.
    Pending,
    /// They were removed at the end of their life.
    Expired,
}

/// Something that is read once, by whoever comes first.
type Slot<T> = Arc<OnceCell<T>>;

/// In whose turn a block is read.
#[derive(Clone, Copy)]
enum Turn {
    OfItsOwn,
    /// The caller has one.
    Held,
}

/// Why there is no tree to keep in memory.
enum NoTree {
    Untold(Entries),
    Failed(DbErr),
}

impl From<DbErr> for NoTree {
    fn from(error: DbErr) -> Self {
        Self::Failed(error)
    }
}

/// Reads entries. Cheap to clone.
#[derive(Clone)]
pub struct EntryReader {
    db: DatabaseConnection,
    permits: Arc<Semaphore>,
    trees: Cache<ActivityId, Slot<Arc<Tree>>>,
    blocks: Cache<(ActivityId, u64), Slot<Arc<Block>>>,
}

impl EntryReader {
    /// How long what was erased may still be known here.
    const MEMORY: Duration = Duration::from_mins(1);
    /// Of 2,000 hashes for a million entries.
    const TREES_KEPT: u64 = 50;
    /// 128 MB of full blocks, with two hashes and 24 bytes for each entry: more than the 977 blocks
    /// of a million entries, which the document of a round may need all of.
    const BLOCKS_KEPT: u64 = (128 << 20) / (BLOCK_LEN * (2 * 32 + 24));

    /// `permits` bounds how many readers are in `MySQL` at once.
    pub fn new(db: DatabaseConnection, permits: Arc<Semaphore>) -> Self {
        Self {
            db,
            permits,
            trees: Cache::builder()
                .max_capacity(Self::TREES_KEPT)
                .time_to_live(Self::MEMORY)
                .build(),
            blocks: Cache::builder()
                .max_capacity(Self::BLOCKS_KEPT)
                // Whatever was asked for last is kept: crowds come and go.
                .eviction_policy(EvictionPolicy::lru())
                .time_to_live(Self::MEMORY)
                .build(),
        }
    }

    /// The tree of an activity.
    pub async fn entries(&self, id: ActivityId) -> Result<Entries, DbErr> {
        let slot = slot_of(&self.trees, id).await;
        let read = read_once(&slot, || async {
            match read_in_turn(&self.permits, self.read_tree(id)).await? {
                Entries::Published(tree) => Ok(tree),
                untold @ (Entries::Pending | Entries::Expired) => Err(NoTree::Untold(untold)),
            }
        });
        match read.await {
            Ok(tree) => Ok(Entries::Published(tree)),
            Err(NoTree::Untold(entries)) => Ok(entries),
            Err(NoTree::Failed(error)) => Err(error),
        }
    }

    async fn read_tree(&self, id: ActivityId) -> Result<Entries, DbErr> {
        let Some(published) = publication::find_published(&self.db, id).await? else {
            return Ok(Entries::Pending);
        };
        let activity = activity::find(&self.db, id).await?;
        let source = activity.and_then(|activity| Source::of(&activity, published.leaf_key));
        let Some(source) = source else {
            return Ok(Entries::Pending);
        };
        let count = published.entries_count;
        let (nodes, blocks) = store::list_nodes(&self.db, id).await?;
        let is_whole = blocks.len() as u64 == count.div_ceil(BLOCK_LEN);
        let hash = match nodes.get(&(top_level(count), 0)) {
            Some(hash) if is_whole => *hash,
            None if count == 0 => empty_tree(),
            Some(_) | None => return Ok(Entries::Expired),
        };
        if entries_root(id, count, &hash) != published.entries_root {
            let text =
                format!("the stored nodes of activity {id} do not lead to its published root");
            return Err(DbErr::Type(text));
        }
        Ok(Entries::Published(Arc::new(Tree {
            hash,
            published,
            source,
            nodes,
            blocks,
        })))
    }

    /// The entry of a user; `None` for whoever has none, or was erased.
    pub async fn entry_of(&self, tree: &Tree, user_id: UserId) -> Result<Option<OpenEntry>, DbErr> {
        let Some(node) = tree.block_before(user_id) else {
            return Ok(None);
        };
        let block = self.block(tree, node, Turn::OfItsOwn).await?;
        let member = block.member(user_id);
        Ok(member.map(|member| tree.open(&block, member.index, user_id, member.state)))
    }

    /// The entries of users who won, erased or not; whoever has no such entry is left out.
    ///
    /// All of them in one turn: of many that might not come, one would take the rest with it.
    pub async fn entries_of_winners(
        &self,
        tree: &Tree,
        users: &BTreeSet<UserId>,
    ) -> Result<BTreeMap<UserId, OpenEntry>, DbErr> {
        let _turn = read_turn(&self.permits).await?;
        let mut entries = BTreeMap::new();
        // By user id, so that the winners of one block come one after the other.
        for user_id in users {
            if let Some(entry) = self.entry_of_winner(tree, *user_id).await? {
                entries.insert(*user_id, entry);
            }
        }
        Ok(entries)
    }

    async fn entry_of_winner(
        &self,
        tree: &Tree,
        user_id: UserId,
    ) -> Result<Option<OpenEntry>, DbErr> {
        let leaf = tree.source.leaf(user_id, EntryState::ELIGIBLE);
        let start = tree.block_before(user_id).map_or(0, |node| node.number);
        for node in tree.blocks.iter().filter(|node| node.number >= start) {
            let block = self.block(tree, node, Turn::Held).await?;
            if let Some(index) = block.index_of(&leaf) {
                let entry = tree.open(&block, index, user_id, EntryState::ELIGIBLE);
                return Ok(Some(entry));
            }
            // An erased one may have stood before the first of its block that is left.
            let is_beyond = |member: &super::block::Member| member.user_id > user_id;
            if block.members.iter().any(is_beyond) && node.number > start {
                break;
            }
        }
        Ok(None)
    }

    async fn block(&self, tree: &Tree, node: &BlockNode, turn: Turn) -> Result<Arc<Block>, DbErr> {
        let (id, count) = (tree.source.activity_id, tree.published.entries_count);
        let slot = slot_of(&self.blocks, (id, node.number)).await;
        let read = || tree.source.block(&self.db, node, count);
        match turn {
            Turn::OfItsOwn => {
                let read = || async { read_in_turn(&self.permits, read()).await.map(Arc::new) };
                read_once(&slot, read).await
            }
            // Never behind those who wait for a turn with the slot in hand.
            Turn::Held => {
                if let Some(block) = slot.get() {
                    return Ok(Arc::clone(block));
                }
                let block = Arc::new(answer(read()).await?);
                // Somebody else may have read the same meanwhile.
                drop(slot.set(Arc::clone(&block)));
                Ok(block)
            }
        }
    }
}

/// What is in a slot. Whoever comes first reads it; should that one be cancelled or fail, the next one
/// does, as long as it has not waited for too long.
async fn read_once<T, E, F>(slot: &OnceCell<T>, read: impl FnOnce() -> F) -> Result<T, E>
where
    T: Clone,
    E: From<DbErr>,
    F: Future<Output = Result<T, E>>,
{
    /// A little more than one reader may take.
    const PATIENCE: Duration = Duration::from_secs(8);

    match tokio::time::timeout(PATIENCE, slot.get_or_try_init(read)).await {
        Ok(kept) => kept.cloned(),
        Err(_) => Err(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout).into()),
    }
}

async fn slot_of<K, T>(cache: &Cache<K, Slot<T>>, key: K) -> Slot<T>
where
    K: Key + Eq + Send + Sync + 'static,
    T: Send + Sync + 'static,
{
    cache.get_with(key, async { Slot::default() }).await
}

impl Tree {
    /// No secret any more, since the proof is published.
    pub fn seed(&self) -> Seed {
        self.source.rules.seed
    }

    /// The last block that does not begin behind a user.
    fn block_before(&self, user_id: UserId) -> Option<&BlockNode> {
        let behind = self
            .blocks
            .partition_point(|node| node.first_user_id <= user_id);
        self.blocks.get(behind.checked_sub(1)?)
    }

    fn open(&self, block: &Block, index: u64, user_id: UserId, state: EntryState) -> OpenEntry {
        let within = usize::try_from(index - block.first_index).unwrap_or(usize::MAX);
        let mut path = block.levels.path(within);
        let number = block.first_index / BLOCK_LEN;
        for (level, (position, _)) in (BLOCK_LEVEL..).zip(way_up(number, self.blocks.len() as u64))
        {
            path.extend(self.nodes.get(&(level, position ^ 1)));
        }
        OpenEntry {
            index,
            salt: self.source.salt(user_id),
            state,
            path,
        }
    }
}
