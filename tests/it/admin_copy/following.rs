//! What changes is copied.

use serde_json::json;

use super::{Copied, claim, drawn_bag, make_tables, spec};
use crate::harness::World;

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_happens_to_a_bag_is_copied() {
    let copied = Copied::new().await;
    let world = &copied.world;
    let process = world.serve_with(&[copied.on()]).await;
    let api = world.api(&process).await;

    let draft = api.draft(&spec(8001)).await;
    copied.assert_exact().await;
    let title = json!({ "title": "Renamed" });
    let path = format!("/v1/activities/{draft}");
    api.patch(&api.host_of(8001), &path, title)
        .await
        .expect(200);
    copied.assert_exact().await;
    assert_eq!(
        copied.count("activity_copy WHERE title = 'Renamed'").await,
        1
    );
    let cancelled = format!("{path}/cancel");
    api.post(&api.host_of(8001), &cancelled, None)
        .await
        .expect(200);

    let bag = drawn_bag(world, &api, 8002).await;
    copied.assert_exact().await;
    let wins = world.wins(bag.id).await;
    claim(&api, wins[0].id, "order '7'").await;
    copied.assert_exact().await;
    api.redraw(&bag, &[wins[1].id]).await.expect(200);
    copied.assert_exact().await;
    for (state, count) in [
        ("status = 'won'", 2),
        ("status = 'revoked'", 1),
        ("fulfilment = 'claimed'", 1),
    ] {
        let rows = format!("win_record_copy WHERE {state}");
        assert_eq!(copied.count(&rows).await, count, "{state}");
    }
    assert_eq!(
        copied
            .count("activity_copy WHERE prizes LIKE '%O\\'Phone%'")
            .await,
        2
    );

    process.stop().await;
    copied.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_never_goes_back_to_an_older_version() {
    let copied = Copied::new().await;
    let world = &copied.world;
    let process = world.serve_with(&[copied.on()]).await;
    let api = world.api(&process).await;
    let bag = drawn_bag(world, &api, 8001).await;
    copied.assert_exact().await;
    let wins = world.wins(bag.id).await;
    let newer = format!(
        "UPDATE {}.activity_copy SET version = 1000, title = 'newer'",
        copied.admin
    );
    world.execute(&newer).await;

    api.redraw(&bag, &[wins[0].id]).await.expect(200);
    world.nothing_owed().await;

    let kept = "activity_copy WHERE version = 1000 AND title = 'newer' AND round = 1";
    assert_eq!(copied.count(kept).await, 1);
    assert_eq!(
        copied.count("win_record_copy WHERE status = 'won'").await,
        2
    );
    assert_eq!(copied.count("win_record_copy").await, 2);

    process.stop().await;
    copied.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_admin_database_no_copy_is_owed_and_later_all_can_be_queued() {
    let copied = Copied::new().await;
    let world = &copied.world;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = drawn_bag(world, &api, 8001).await;
    let wins = world.wins(bag.id).await;
    claim(&api, wins[0].id, "order 7").await;
    assert_eq!(copied.waiting().await, 0);
    let refused = world.operate("copy-all", &[]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("admin_database.url"), "{refused:?}");
    process.stop().await;

    let process = world.serve_with(&[copied.on()]).await;
    let queued = world.operate("copy-all", &[copied.on()]).await;
    assert_eq!(queued.printed(), "queued: 1 activities to be copied");
    copied.assert_exact().await;
    assert_eq!(
        copied
            .count("win_record_copy WHERE fulfilment = 'claimed'")
            .await,
        1
    );

    process.stop().await;
    copied.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_make_tables_copies_wait_for_them() {
    let copied = Copied::new().await;
    let world = &copied.world;
    let process = world
        .serve_with(&[copied.on(), ("ADMIN_DATABASE__MIGRATE", "false")])
        .await;
    let api = world.api(&process).await;
    drawn_bag(world, &api, 8001).await;
    assert!(copied.waiting().await > 0);
    assert_eq!(copied.tables().await, 0, "it made them all the same");

    make_tables(&copied).await;
    copied.assert_exact().await;

    process.stop().await;
    copied.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tables_are_made_by_migrate_too() {
    let copied = Copied::new().await;
    let migrated = copied.world.operate("migrate", &[copied.on()]).await;

    assert_eq!(migrated.printed(), "");
    assert_eq!(copied.count("activity_copy").await, 0);
    assert_eq!(copied.count("win_record_copy").await, 0);
    copied.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_into_the_database_of_the_service_is_refused() {
    let world = World::without_schema().await;
    let own = [("ADMIN_DATABASE__URL", world.mysql_url.as_str())];

    let refused = world.operate("check-config", &own).await;

    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("admin_database.url"), "{refused:?}");
    world.end().await;
}
