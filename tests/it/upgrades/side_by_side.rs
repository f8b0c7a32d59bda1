//! Processes of two versions in one installation. The older version is the program that
//! `LUCKYBAG_OLDER` names; without it both are this version.

use std::{
    io::{Write, stderr},
    ops::RangeInclusive,
};

use crate::harness::{Api, Bag, BagSpec, Process, World, eventually};

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

/// Past what the test runner keeps to itself: a test that passes says it too.
fn say_what_is_not_tested() {
    if std::env::var_os("LUCKYBAG_OLDER").is_none() {
        let text = "\nupgrades: LUCKYBAG_OLDER is not set, so both \"versions\" are this one: that an \
                    older program gets along with this one was NOT tested";
        writeln!(stderr(), "{text}").expect("stderr");
    }
}

/// Whoever joined is told what the win records say, also who had won and whose win was taken back.
async fn assert_everybody_is_told(
    world: &World,
    api: &Api,
    bag: &Bag,
    users: RangeInclusive<u64>,
    expected_revoked: usize,
) {
    let wins = world.wins(bag.id).await;
    let revoked = wins.iter().filter(|win| win.status == "revoked");
    assert_eq!(revoked.count(), expected_revoked, "{wins:?}");
    for user in users {
        let win = wins.iter().find(|win| win.user_id == user);
        let expected = win.map_or("notWon", |win| win.status.as_str());
        eventually("the result", async || {
            let answer = api.get(&api.viewer(user), &bag.path("/result")).await;
            let told = answer.expect(200);
            let is_so = told["result"] == expected;
            is_so
                .then_some(())
                .ok_or(format!("{user}: {told}, not {expected}"))
        })
        .await;
    }
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
    say_what_is_not_tested();
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

    // Through at last: both tell the same of what either drew.
    let newer = world.serve().await;
    let new_api = world.api(&newer).await;
    for api in [&old_api, &new_api] {
        assert_everybody_is_told(&world, api, &before, 1..=150, 1).await;
        assert_everybody_is_told(&world, api, &during, 1_001..=1_120, 0).await;
    }
    back.stop().await;
    let win = world.wins(during.id).await[0].id;
    new_api.redraw(&during, &[win]).await.expect(200);
    assert_everybody_is_told(&world, &new_api, &during, 1_001..=1_120, 1).await;
    for bag in [&before, &during] {
        let detail = new_api.drawn(bag).await;
        assert_eq!(detail["round"], 2, "{detail}");
        assert_eq!(new_api.winners(bag).await.len(), 5);
    }
    world.nothing_owed().await;
    newer.stop().await;
    world.end().await;
}
