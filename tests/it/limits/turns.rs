//! Callers take turns at MySQL, and leave connections to admission and to draws.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{StreamExt, future::join_all, stream};
use reqwest::Method;
use sea_orm::{ConnectionTrait, TransactionTrait};
use serde_json::{Value, json};

use crate::harness::{
    Answer, Api, Bag, BagSpec, World, eventually, keep_alive, metric, metrics_page,
};

/// As many as the processes of a test's world have for callers.
const TURNS: i64 = 8;
const CALLERS: usize = 40;

/// Statements of callers that wait for the locked table.
const WAITING: &str = "SELECT COUNT(*) FROM information_schema.processlist \
     WHERE db = DATABASE() AND info LIKE 'SELECT request_hash%' AND state LIKE 'Waiting for table%'";

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
    let (most, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let callers = (0..CALLERS).map(|caller| call_for_ever(&api, caller, &answered));
    let crowd = async { join_all(callers).await };
    let story = async {
        all_turns_taken(&world).await;
        // By then others have had the turns of those who gave up, and a turn again and again.
        eventually("everybody to be answered three times", async || {
            note_most(&world, &most).await;
            match answered.load(Ordering::Relaxed) {
                enough if enough >= 3 * CALLERS => Ok(()),
                answered => Err(answered),
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
        () = keep_alive(&locked) => unreachable!("it never ends"),
        () = story => (),
    }

    let most = most.into_inner();
    assert!(most <= usize::try_from(TURNS).expect("a count"), "{most}");
    locked
        .execute_unprepared("UNLOCK TABLES")
        .await
        .expect("unlocked");
    locked.rollback().await.expect("the connection is free");
    world.assert_drawn_once(&bag).await;
    served_again(&api).await;
    process.stop().await;
    world.end().await;
}

async fn all_turns_taken(world: &World) {
    eventually("all turns to be taken", async || {
        match world.number(WAITING).await {
            TURNS => Ok(()),
            waiting => Err(waiting),
        }
    })
    .await;
}

async fn served_again(api: &Api) {
    eventually("callers to be served again", async || {
        let listed = api.get(&api.operator(), "/v1/prizes").await;
        if listed.status.is_success() {
            Ok(())
        } else {
            Err(listed)
        }
    })
    .await;
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
async fn call_for_ever(api: &Api, caller: usize, answered: &AtomicUsize) -> Value {
    let calls = [
        (
            "/v1/prizes",
            api.operator(),
            json!({ "name": "Mug", "kind": "physical" }),
        ),
        (
            "/v1/deny-list/import",
            api.operator(),
            json!({ "userIds": ["7"] }),
        ),
        (
            "/v1/activities/7/redraws",
            api.operator(),
            json!({ "winRecordIds": ["7"], "reason": "forged" }),
        ),
        (
            "/v1/win-records/7/fulfilment",
            api.service(),
            json!({ "state": "claimed" }),
        ),
    ];
    let (path, token, body) = &calls[caller % calls.len()];
    let url = format!("{}{path}", api.url);
    loop {
        let request = api.http.post(&url).bearer_auth(token);
        let request = request.header("Idempotency-Key", format!("caller-{caller}"));
        assert_busy(&api.send(request.json(body)).await);
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Changes that wait for a table.
const STUCK: &str = "SELECT COUNT(*) FROM information_schema.processlist \
     WHERE db = DATABASE() AND state LIKE 'Waiting for table%'";

#[tokio::test(flavor = "multi_thread")]
async fn who_changes_lists_and_wins_waits_for_a_turn_like_everybody() {
    let world = World::new().await;
    let one_turn = [("LIMITS__MYSQL_CONCURRENCY", "1")];
    let process = world.serve_with(&one_turn).await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 1_001..1_007).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    let wins = world.wins(bag.id).await;
    let (first, second) = (wins[0].id, wins[1].id);
    let operator = api.operator();
    let running = api.open_bag(&BagSpec::waiting()).await;
    // From now on the details and the winners come from memory.
    let winners = bag.path("/winners");
    eventually("the winners to be listed", async || {
        let listed = api.get(&operator, &winners).await.expect(200);
        match listed["items"].as_array().map(Vec::len) {
            Some(1..) => Ok(()),
            Some(0) | None => Err(listed),
        }
    })
    .await;

    api.get(&operator, &running.path("")).await.expect(200);
    let locked = world.db.begin().await.expect("a connection");
    let lock = locked.execute_unprepared("LOCK TABLES prize WRITE").await;
    lock.expect("the lock");
    let mug = json!({ "name": "Mug", "kind": "physical" });
    let holding = api.post(&operator, "/v1/prizes", Some(mug));
    let waiting = async {
        eventually("the only turn to be taken", async || {
            match world.number(STUCK).await {
                1 => Ok(()),
                waiting => Err(waiting),
            }
        })
        .await;
        let answers = of_each_kind(&api, [&running, &bag], [first, second], 8).await;
        let unlock = locked.execute_unprepared("UNLOCK TABLES").await;
        unlock.expect("unlocked");
        answers
    };
    let (held, answers) = tokio::join!(holding, waiting);

    answers.iter().for_each(assert_busy);
    let page = metrics_page(&api.url).await;
    let refused = metric(&page, "luckybag_mysql_turns_refused_total");
    let refused = refused.expect("turns that were refused");
    // What is looked at in the background may wait in vain too.
    let answered = u32::try_from(answers.len()).expect("a few");
    assert!(refused >= f64::from(answered), "{refused}");
    held.expect(201);
    locked.rollback().await.expect("the connection is free");
    // Two at a time: a turn that eight wait for may not come in time on a busy machine.
    let answers = of_each_kind(&api, [&running, &bag], [first, second], 2).await;
    let busy = answers.iter().find(|answer| !answer.status.is_success());
    assert!(busy.is_none(), "{busy:?}");
    process.stop().await;
    world.end().await;
}

/// One call of each of eight kinds, so many at once.
async fn of_each_kind(
    api: &Api,
    [running, bag]: [&Bag; 2],
    [first, second]: [u64; 2],
    at_once: usize,
) -> Vec<Answer> {
    let (operator, service) = (api.operator(), api.service());
    let redraw = json!({ "winRecordIds": [first.to_string()], "reason": "forged" });
    let users = json!({ "userIds": ["7"] });
    let claimed = json!({ "state": "claimed" });
    let calls = [
        (Method::GET, "/v1/deny-list".to_owned(), &operator, None),
        (Method::PUT, "/v1/deny-list/8".to_owned(), &operator, None),
        (
            Method::DELETE,
            "/v1/deny-list/9".to_owned(),
            &operator,
            None,
        ),
        (
            Method::POST,
            "/v1/deny-list/import".to_owned(),
            &operator,
            Some(users.clone()),
        ),
        (
            Method::POST,
            running.path("/deny-list/import"),
            &operator,
            Some(users),
        ),
        (Method::POST, bag.path("/redraws"), &operator, Some(redraw)),
        (
            Method::POST,
            format!("/v1/win-records/{second}/fulfilment"),
            &service,
            Some(claimed),
        ),
        (Method::GET, bag.path("/winners"), &operator, None),
    ];
    let calls = calls.into_iter().map(async |(method, path, token, body)| {
        let request = api.http.request(method, format!("{}{path}", api.url));
        let request = request.bearer_auth(token);
        api.send(match body {
            Some(body) => request.json(&body),
            None => request,
        })
        .await
    });
    stream::iter(calls).buffered(at_once).collect().await
}
