//! The entries of a drawn activity: every joined or rejected participation as it stood at the
//! freeze, by user id, under one Merkle root. Owns the tables `entries_node` and `erased_leaf`.

mod block;
mod build;
mod erase;
mod leaf;
mod read;
mod store;
mod tree;

pub use build::{BuiltEntries, store_entries};
pub use erase::keep_leaf;
pub use leaf::{EntryState, Salt, leaf_hash};
pub use read::{Entries, EntryReader, OpenEntry, Tree};
pub use store::forget_entries;
pub use tree::{Hash, empty_tree, entries_root, tree_hash_of};
