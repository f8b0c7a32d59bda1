//! Callers take turns at MySQL, and leave connections to admission and to draws.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use sea_orm::{ConnectionTrait, TransactionTrait};
use serde_json::{Value, json};

use crate::harness::{Answer, Api, BagSpec, World, eventually};

/// As many as the processes of a test's world have for callers.
const TURNS: i64 = 8;
const CALLERS: usize = 40;

/// Statements of callers that wait for the locked table.
const WAITING: &str = "SELECT COUNT(*) FROM information_schema.processlist \
     WHERE db = DATABASE() AND info LIKE 'SELECT request_hash%' AND id <> CONNECTION_ID()";

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_callers_that_mysql_does_not_answer_holds_up_no_join_and_no_draw() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;

    // A table that only callers need, and nobody gets at.
    let locked = world.db.begin().await.expect("a connection");
    let lock = locked
        .execute_unprepared("LOCK TABLES idempotency WRITE")
        .await;
    lock.expect("the lock");
    let most = AtomicUsize::new(0);
    let crowd = async { join_all((0..CALLERS).map(|caller| call_for_ever(&api, caller))).await };
    let story = async {
        eventually("all turns to be taken", async || {
            match world.number(WAITING).await {
                TURNS => Ok(()),
                waiting => Err(waiting),
            }
        })
        .await;
        api.join_all(&bag, 1..=20).await;
        eventually("the joins to be admitted", async || {
            note_most(&world, &most).await;
            match world.number("SELECT COUNT(*) FROM participation").await {
                20 => Ok(()),
                admitted => Err(admitted),
            }
        })
        .await;
        world.draw_soon(&[bag]).await;
        world.all_drawn(&[bag]).await;
        note_most(&world, &most).await;
    };
    tokio::select! {
        _ = crowd => unreachable!("they call for ever"),
        () = story => (),
    }

    assert!(most.into_inner() <= usize::try_from(TURNS).expect("a count"));
    locked
        .execute_unprepared("UNLOCK TABLES")
        .await
        .expect("unlocked");
    locked.rollback().await.expect("the connection is free");
    world.assert_drawn_once(&bag).await;
    eventually("callers to be served again", async || {
        let listed = api.get(&api.operator(), "/v1/prizes").await;
        if listed.status.is_success() {
            Ok(())
        } else {
            Err(listed)
        }
    })
    .await;
    process.stop().await;
    world.end().await;
}

async fn note_most(world: &World, most: &AtomicUsize) {
    let waiting = usize::try_from(world.number(WAITING).await).expect("a count");
    most.fetch_max(waiting, Ordering::Relaxed);
}

/// Told to come back, and when.
fn assert_busy(answer: &Answer) {
    assert_eq!(answer.status.as_u16(), 503, "{answer:?}");
    assert_eq!(answer.body["code"], "unavailable", "{answer:?}");
    assert_eq!(answer.header("retry-after"), "1", "{answer:?}");
}

/// Calls that begin with a look at the locked table, one after another.
async fn call_for_ever(api: &Api, caller: usize) -> Value {
    let url = format!("{}/v1/prizes", api.url);
    loop {
        let request = api.http.post(&url).bearer_auth(api.operator());
        let request = request.header("Idempotency-Key", format!("caller-{caller}"));
        let body = json!({ "name": "Mug", "kind": "physical" });
        assert_busy(&api.send(request.json(&body)).await);
    }
}
