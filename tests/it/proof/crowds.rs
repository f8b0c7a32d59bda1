//! Many who ask at once: what they share is read once.

use std::{collections::BTreeSet, sync::Arc};

use futures_util::future::join_all;
use luckybag::{
    candidate::entries::{Entries, EntryReader, Tree},
    kernel::UserId,
};
use tokio::sync::{Semaphore, oneshot};

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

#[tokio::test(flavor = "multi_thread")]
async fn the_entries_of_all_winners_need_one_turn() {
    let world = World::new().await;
    let bag = published(&world).await;
    let wins = world.wins(bag.id).await;
    let users: BTreeSet<UserId> = wins.iter().map(|win| UserId(win.user_id)).collect();
    let turns = Arc::new(Semaphore::new(1));
    let reader = EntryReader::new(world.db.clone(), Arc::clone(&turns));
    let tree = tree(&reader, &bag).await;

    let (done, is_done) = oneshot::channel();
    let reading = async {
        let entries = reader.entries_of_winners(&tree, &users).await;
        done.send(()).expect("somebody waits");
        entries.expect("one turn is enough")
    };
    // Has the next turn, and gives it back when nobody needs it any more.
    let waiting = async {
        let _turn = turns.acquire().await.expect("a turn");
        is_done.await.expect("the reading ends");
    };
    let (entries, ()) = tokio::join!(reading, waiting);

    assert_eq!(entries.into_keys().collect::<BTreeSet<_>>(), users);
    world.end().await;
}
