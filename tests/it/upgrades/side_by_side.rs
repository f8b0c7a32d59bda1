//! Processes of two versions in one installation. The older version is the program that
//! `LUCKYBAG_OLDER` names; without it both are this version.

use crate::harness::{Bag, BagSpec, Process, World};

fn bag_in(room: u64) -> BagSpec {
    BagSpec {
        room,
        winners: 5,
        ..BagSpec::waiting()
    }
}

/// Makes this one alone due in a moment.
async fn draw_soon(world: &World, bag: &Bag) {
    const SOON: &str =
        "UPDATE activity SET draw_at = NOW(3) + INTERVAL 300000 MICROSECOND WHERE id = ";
    world.execute(&format!("{SOON}{}", bag.id)).await;
}

async fn older(world: &World) -> Process {
    let process = world.spawn_older(&[]);
    process.ready().await;
    process
}

/// First the older version alone, then both, then the newer one alone, with a process killed at
/// each step while people join and at the draws.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_one_process_after_the_other_loses_nothing() {
    let world = World::without_schema().await;
    let (first, second) = (older(&world).await, older(&world).await);
    let old_api = world.api(&first).await;
    let before = old_api.open_bag(&bag_in(8001)).await;
    old_api.join_all(&before, 1..=50).await;

    // The newer one brings the schema up to date under the two. Its bag has people of its own: who has
    // just won is kept from winning again.
    let newer = world.serve().await;
    let new_api = world.api(&newer).await;
    let during = new_api.open_bag(&bag_in(8002)).await;
    tokio::join!(
        old_api.join_all(&before, 51..=100),
        new_api.join_all(&before, 101..=150),
        old_api.join_all(&during, 1_001..=1_050),
        new_api.join_all(&during, 1_051..=1_100),
        second.kill(),
    );
    draw_soon(&world, &before).await;
    first.kill().await;
    world.all_drawn(&[before]).await;
    world.assert_drawn_once(&before).await;
    assert_eq!(world.participants(&before, "joined").await.len(), 150);

    // Taken back: an older one beside it again draws and redraws what the newer one began.
    let back = older(&world).await;
    let old_api = world.api(&back).await;
    old_api.join_all(&during, 1_101..=1_120).await;
    newer.kill().await;
    draw_soon(&world, &during).await;
    world.all_drawn(&[during]).await;
    world.assert_drawn_once(&during).await;
    assert_eq!(world.participants(&during, "joined").await.len(), 120);
    world.nothing_owed().await;
    let win = world.wins(before.id).await[0].id;
    old_api.redraw(&before, &[win]).await.expect(200);

    // Through at last.
    let newer = world.serve().await;
    back.stop().await;
    let new_api = world.api(&newer).await;
    let detail = new_api.drawn(&before).await;
    assert_eq!(detail["round"], 2, "{detail}");
    assert_eq!(new_api.winners(&during).await.len(), 5);
    world.nothing_owed().await;
    newer.stop().await;
    world.end().await;
}
