//! What the service forgets is gone from the copy.

use super::{Copied, drawn_bag};
use crate::harness::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn win_records_past_their_life_go_from_the_copy_too() {
    let copied = Copied::new().await;
    let world = &copied.world;
    let process = world.serve_with(&[copied.on()]).await;
    let api = world.api(&process).await;
    let old = drawn_bag(world, &api, 8001).await;
    let kept = drawn_bag(world, &api, 8002).await;
    copied.assert_exact().await;
    assert_eq!(copied.count("win_record_copy").await, 4);

    let aged = format!(
        "UPDATE activity SET drawn_at = NOW(3) - INTERVAL 800 DAY WHERE id = {}",
        old.id
    );
    world.execute(&aged).await;
    eventually("the removal", async || {
        match world.wins(old.id).await.len() {
            0 => Ok(()),
            left => Err(left),
        }
    })
    .await;
    world.nothing_owed().await;

    let of = |id| format!("win_record_copy WHERE activity_id = {id}");
    assert_eq!(copied.count(&of(old.id)).await, 0);
    assert_eq!(copied.count(&of(kept.id)).await, 2);
    copied.assert_exact().await;

    process.stop().await;
    copied.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_user_is_in_the_copy_only_as_long_as_in_the_win_records() {
    let copied = Copied::new().await;
    let world = &copied.world;
    let process = world.serve_with(&[copied.on()]).await;
    let api = world.api(&process).await;
    let bag = drawn_bag(world, &api, 8001).await;
    let winner = world.wins(bag.id).await[0].user_id;
    let loser = world.entrants(bag.id).await[3].user_id.0;

    for user in [winner, loser] {
        let erased = world
            .operate(&format!("user erase {user}"), &[copied.on()])
            .await;
        erased.printed();
    }
    copied.assert_exact().await;
    let of = |user: u64| format!("win_record_copy WHERE user_id = {user}");
    assert_eq!(copied.count(&of(winner)).await, 1);
    assert_eq!(copied.count(&of(loser)).await, 0);

    let aged = "UPDATE activity SET drawn_at = NOW(3) - INTERVAL 800 DAY";
    world.execute(aged).await;
    eventually("the winner to be forgotten", async || {
        match copied.count(&of(winner)).await {
            0 => Ok(()),
            rows => Err(rows),
        }
    })
    .await;

    process.stop().await;
    copied.end().await;
}
