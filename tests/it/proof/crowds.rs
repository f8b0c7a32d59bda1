//! Many who ask at once: what they share is read once.

use std::sync::Arc;

use futures_util::future::join_all;
use luckybag::candidate::entries::{Entries, EntryReader, Tree};
use tokio::sync::Semaphore;

use crate::harness::{Bag, BagSpec, World};

/// A published bag over two blocks.
async fn published(world: &World) -> Bag {
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    world.insert_joined(&bag, 1_030).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    api.proof(&bag).await;
    process.stop().await;
    bag
}

async fn tree(reader: &EntryReader, bag: &Bag) -> Arc<Tree> {
    match reader.entries(bag.id).await.expect("MySQL answers") {
        Entries::Published(tree) => tree,
        untold @ (Entries::Pending | Entries::Expired) => panic!("{untold:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_reads_the_nodes_of_a_tree_once() {
    let world = World::new().await;
    let bag = published(&world).await;
    let reader = EntryReader::new(world.db.clone(), Arc::new(Semaphore::new(4)));

    let trees = join_all((0..50).map(|_| tree(&reader, &bag))).await;

    let is_first = |tree: &Arc<Tree>| Arc::ptr_eq(tree, &trees[0]);
    assert!(trees.iter().all(is_first), "somebody has read them again");
    world.end().await;
}
