//! Redraws at the same moment, from two processes.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use sea_orm::{ConnectionTrait, DatabaseTransaction, TransactionTrait};

use super::{drawn_bag, standings};
use crate::harness::{Bag, World, eventually};

/// The statement of a scan of the participations.
const SCANS: &str = "SELECT p.user_id, %FROM participation p %";

/// Whoever reads participations has to wait until the tables are unlocked.
async fn hold_participations(world: &World) -> DatabaseTransaction {
    let held = world.db.begin().await.unwrap();
    held.execute_unprepared("LOCK TABLES participation WRITE, participation AS p WRITE")
        .await
        .unwrap();
    held
}

/// Waits until this many statements like this wait for a lock. The pattern must not fit the look
/// itself.
async fn until_waiting(world: &World, statement: &str, count: i64) {
    let waiting = format!(
        "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE db = DATABASE() AND info LIKE '{statement}'"
    );
    eventually("the redraw to wait", async || {
        match world.number(&waiting).await {
            waiting if waiting >= count => Ok(()),
            waiting => Err(waiting),
        }
    })
    .await;
}

/// Each round took the next in the order of standings, and no seat is held twice.
async fn assert_serial(world: &World, bag: &Bag, rounds: u32) {
    let best = standings(world, bag).await;
    let mut taken: Vec<_> = world
        .wins(bag.id)
        .await
        .into_iter()
        .filter(|win| win.round > 1)
        .collect();
    taken.sort_by_key(|win| (win.round, win.seat));
    let users: Vec<u64> = taken.iter().map(|win| win.user_id).collect();
    assert_eq!(users, best[3..3 + users.len()]);
    let seen: BTreeSet<u32> = taken.iter().map(|win| win.round).collect();
    assert_eq!(seen, (2..=rounds).collect());
    let seats: Vec<u32> = world.holders(bag).await.iter().map(|held| held.0).collect();
    assert_eq!(seats, [1, 2, 3]);
    assert_eq!(world.round(bag).await, i64::from(rounds));
    assert_eq!(world.handed_out(bag).await, (3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_redraw_from_two_processes_at_once_is_made_once() {
    let world = World::new().await;
    let processes = join_all((0..2).map(|_| world.serve())).await;
    let apis = join_all(processes.iter().map(|process| world.api(process))).await;
    let bag = drawn_bag(&world, &apis[0], 8).await;
    let ids: Vec<u64> = world.wins(bag.id).await.iter().map(|win| win.id).collect();

    let calls = apis
        .iter()
        .cycle()
        .take(6)
        .map(|api| api.redraw(&bag, &ids[1..]));
    let answers = join_all(calls).await;

    let bodies: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.expect(200))
        .collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    assert_serial(&world, &bag, 2).await;
    let audited = "SELECT COUNT(*) FROM audit WHERE action = 'activity.redraw'";
    assert_eq!(world.number(audited).await, 1);

    for process in processes {
        process.stop().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn different_redraws_from_two_processes_at_once_come_one_after_the_other() {
    let world = World::new().await;
    let processes = join_all((0..2).map(|_| world.serve())).await;
    let apis = join_all(processes.iter().map(|process| world.api(process))).await;
    let bag = drawn_bag(&world, &apis[0], 8).await;
    let ids: Vec<u64> = world.wins(bag.id).await.iter().map(|win| win.id).collect();

    let calls = ids
        .iter()
        .zip(apis.iter().cycle())
        .map(|(id, api)| api.redraw(&bag, std::slice::from_ref(id)));
    for answer in join_all(calls).await {
        let answer = answer.expect(200);
        assert_eq!(answer["emptySeats"], serde_json::json!([]), "{answer}");
    }

    assert_serial(&world, &bag, 4).await;
    for process in processes {
        process.stop().await;
    }
    world.end().await;
}

/// The second one finds that the first one took the best of what both have selected.
#[tokio::test(flavor = "multi_thread")]
async fn a_redraw_that_has_selected_before_another_one_commits_takes_who_is_left() {
    let world = World::new().await;
    let processes = join_all((0..2).map(|_| world.serve())).await;
    let apis = join_all(processes.iter().map(|process| world.api(process))).await;
    let bag = drawn_bag(&world, &apis[0], 8).await;
    let ids: Vec<u64> = world.wins(bag.id).await.iter().map(|win| win.id).collect();
    let held = hold_participations(&world).await;

    let calls = apis
        .iter()
        .zip(&ids)
        .map(|(api, id)| api.redraw(&bag, std::slice::from_ref(id)));
    let release = async {
        until_waiting(&world, SCANS, 2).await;
        held.execute_unprepared("UNLOCK TABLES").await.unwrap();
        held.rollback().await.unwrap();
    };
    let (answers, ()) = tokio::join!(join_all(calls), release);

    for answer in answers {
        answer.expect(200);
    }
    assert_serial(&world, &bag, 3).await;
    for process in processes {
        process.stop().await;
    }
    world.end().await;
}

/// A redraw that waits for the row of the activity which another one holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_redraw_waits_for_one_that_is_about_to_commit() {
    let world = World::new().await;
    let processes = join_all((0..2).map(|_| world.serve())).await;
    let apis = join_all(processes.iter().map(|process| world.api(process))).await;
    let bag = drawn_bag(&world, &apis[0], 8).await;
    let ids: Vec<u64> = world.wins(bag.id).await.iter().map(|win| win.id).collect();
    // The second call finds all connections open: the first one waits for its lock 5 s only.
    let prizes = apis[1].get(&apis[1].operator(), "/v1/prizes").await;
    prizes.expect(200);
    let held = world.db.begin().await.unwrap();
    held.execute_unprepared("SELECT * FROM win_record FOR UPDATE")
        .await
        .unwrap();

    let first = apis[0].redraw(&bag, &ids[..1]);
    let second = async {
        until_waiting(&world, "UPDATE win_record SET%", 1).await;
        apis[1].redraw(&bag, &ids[1..2]).await
    };
    let release = async {
        until_waiting(
            &world,
            "SELECT id, %FROM activity WHERE id = %FOR UPDATE",
            1,
        )
        .await;
        held.rollback().await.unwrap();
    };
    let (first, second, ()) = tokio::join!(first, second, release);

    assert_eq!(first.expect(200)["round"], 2);
    assert_eq!(second.expect(200)["round"], 3);
    assert_serial(&world, &bag, 3).await;
    for process in processes {
        process.stop().await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_of_the_participants_holds_nobody_up() {
    let world = World::new().await;
    let one_turn = [("LIMITS__MYSQL_CONCURRENCY", "1")];
    let process = world.serve_with(&one_turn).await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api, 8).await;
    let first = world.holder(&bag, 1).await;
    let held = hold_participations(&world).await;

    let redrawing = api.redraw(&bag, std::slice::from_ref(&first.id));
    let looking = async {
        until_waiting(&world, SCANS, 1).await;
        let row = format!(
            "SELECT id FROM activity WHERE id = {} FOR UPDATE NOWAIT",
            bag.id
        );
        // The proof of the draw is published under this lock, in a moment of its own.
        eventually("nobody to hold the activity", async || {
            let other = world.db.begin().await.unwrap();
            let locked = other.execute_unprepared(&row).await;
            other.rollback().await.unwrap();
            locked.map(|_| ())
        })
        .await;
        let prizes = api.get(&api.operator(), "/v1/prizes").await;
        prizes.expect(200);
        held.execute_unprepared("UNLOCK TABLES").await.unwrap();
        held.rollback().await.unwrap();
    };
    let (answer, ()) = tokio::join!(redrawing, looking);

    assert_eq!(answer.expect(200)["round"], 2);
    assert_serial(&world, &bag, 2).await;
    process.stop().await;
    world.end().await;
}
