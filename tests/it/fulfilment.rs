//! How far a prize is, as another system reports it.

use luckybag::{http::Role, kernel::UserId};
use serde_json::{Value, json};

use crate::harness::{Answer, Api, Bag, BagSpec, Win, World};

fn service(api: &Api) -> String {
    api.token(UserId(7), Role::Service, &[])
}

async fn report(api: &Api, win: u64, body: Value) -> Answer {
    let path = format!("/v1/win-records/{win}/fulfilment");
    api.post(&service(api), &path, Some(body)).await
}

async fn drawn_bag(world: &World, api: &Api) -> (Bag, Vec<Win>) {
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 1_001..1_007).await;
    world.draw_soon(&[bag]).await;
    // This process shows the draw, too.
    api.drawn(&bag).await;
    (bag, world.wins(bag.id).await)
}

async fn redraw(api: &Api, bag: &Bag, win: &Win) -> Answer {
    let order = json!({ "winRecordIds": [win.id.to_string()], "reason": "not reached" });
    let path = bag.path("/redraws");
    api.post(&api.operator(), &path, Some(order)).await
}

/// The actions and details of an activity's audit.
async fn audited(api: &Api, bag: &Bag) -> Vec<Value> {
    let path = bag.path("/audit?limit=200");
    let records = api.get(&api.operator(), &path).await.expect(200);
    let records = records["items"].as_array().expect("a list").clone();
    let reports = records
        .into_iter()
        .filter(|record| record["action"] == "win.fulfilment");
    reports.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prize_is_claimed_then_delivered_and_a_repeat_changes_nothing() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (bag, wins) = drawn_bag(&world, &api).await;
    let id = wins[0].id;
    let answer = |state: &str, reference: &str| {
        json!({
            "winRecordId": id.to_string(),
            "activityId": bag.id.to_string(),
            "userId": wins[0].user_id.to_string(),
            "state": state,
            "reference": reference,
        })
    };

    for _ in 0..2 {
        let claimed = json!({ "state": "claimed", "reference": "order 7" });
        let told = report(&api, id, claimed).await.expect(200);
        assert_eq!(told, answer("claimed", "order 7"));
    }
    let other = json!({ "state": "claimed", "reference": "order 8" });
    let refused = report(&api, id, other).await;
    refused.expect_problem(409, "fulfilment_conflict");
    for body in [
        json!({ "state": "delivered", "reference": "parcel 9" }),
        json!({ "state": "delivered", "reference": "parcel 9" }),
        json!({ "state": "delivered" }),
    ] {
        let told = report(&api, id, body).await.expect(200);
        assert_eq!(told, answer("delivered", "parcel 9"));
    }
    for state in ["claimed", "expired"] {
        let refused = report(&api, id, json!({ "state": state })).await;
        let problem = refused.expect_problem(409, "fulfilment_conflict");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(
            detail.contains("delivered") && detail.contains(state),
            "{detail}"
        );
    }

    let records = audited(&api, &bag).await;
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(records[0]["actor"], "user:7");
    assert_eq!(
        records[1]["detail"],
        json!({
            "winRecordId": id.to_string(),
            "userId": wins[0].user_id.to_string(),
            "from": "claimed",
            "to": "delivered",
            "reference": "parcel 9",
        })
    );

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_runs_the_room_sees_how_far_each_prize_is_and_nobody_else_does() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (bag, wins) = drawn_bag(&world, &api).await;
    let shown = async |token: String| -> Vec<Value> {
        let page = api.get(&token, &bag.path("/winners")).await.expect(200);
        let items = page["items"].as_array().expect("a list").clone();
        items
            .iter()
            .map(|item| item["fulfilment"].clone())
            .collect()
    };
    let before = shown(api.operator()).await;

    let claimed = json!({ "state": "claimed", "reference": "order 7" });
    report(&api, wins[1].id, claimed).await.expect(200);
    report(&api, wins[2].id, json!({ "state": "expired" }))
        .await
        .expect(200);

    let pending = json!({ "state": "pending" });
    assert_eq!(before, vec![pending.clone(); 3]);
    let after = [
        pending,
        json!({ "state": "claimed", "reference": "order 7" }),
        json!({ "state": "expired" }),
    ];
    for token in [api.operator(), api.host_of(bag.room)] {
        assert_eq!(shown(token).await, after);
    }
    for token in [api.viewer(wins[1].user_id), api.host_of(bag.room + 1)] {
        assert_eq!(shown(token).await, vec![Value::Null; 3]);
    }

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_cannot_be_right_is_refused() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (bag, wins) = drawn_bag(&world, &api).await;
    let id = wins[0].id;

    for (body, field) in [
        (json!({}), "state"),
        (json!({ "state": "pending" }), "state"),
        (json!({ "state": "lost" }), "state"),
        (json!({ "state": "claimed", "reference": "" }), "reference"),
        (
            json!({ "state": "claimed", "reference": "a\nb" }),
            "reference",
        ),
        (
            json!({ "state": "claimed", "reference": "é".repeat(201) }),
            "reference",
        ),
        (json!({ "state": "claimed", "userId": "5" }), "userId"),
    ] {
        let answer = report(&api, id, body).await;
        assert_eq!(answer.faulty_fields(), [field], "{}", answer.body);
        answer.expect_problem(422, "invalid_request");
    }
    let longest = json!({ "state": "claimed", "reference": "é".repeat(200) });
    report(&api, id, longest).await.expect(200);
    let unknown = report(&api, 7, json!({ "state": "claimed" })).await;
    unknown.expect_problem(404, "win_record_not_found");

    redraw(&api, &bag, &wins[0]).await.expect(200);
    for state in ["claimed", "delivered"] {
        let revoked = report(&api, id, json!({ "state": state })).await;
        revoked.expect_problem(409, "win_revoked");
    }

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_prize_cannot_be_taken_back_but_an_expired_one_can() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (bag, wins) = drawn_bag(&world, &api).await;
    report(&api, wins[0].id, json!({ "state": "delivered" }))
        .await
        .expect(200);
    report(&api, wins[1].id, json!({ "state": "expired" }))
        .await
        .expect(200);

    let refused = redraw(&api, &bag, &wins[0]).await;
    let problem = refused.expect_problem(409, "win_delivered");
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains(&wins[0].id.to_string()), "{detail}");
    assert_eq!(world.wins(bag.id).await, wins, "nothing was done");
    let answer = redraw(&api, &bag, &wins[1]).await.expect(200);
    assert_eq!(answer["round"], 2, "{answer}");
    let taken = answer["replaced"][0]["winRecordId"]
        .as_str()
        .expect("an id");
    let state =
        format!("SELECT COUNT(*) FROM win_record WHERE id = {taken} AND fulfilment = 'pending'");
    assert_eq!(world.number(&state).await, 1, "the new win starts anew");

    process.stop().await;
    world.end().await;
}

/// The two exclude each other, whichever comes first.
#[tokio::test(flavor = "multi_thread")]
async fn a_prize_is_either_delivered_or_taken_back() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (bag, wins) = drawn_bag(&world, &api).await;

    for win in &wins {
        let (delivered, revoked) = tokio::join!(
            report(&api, win.id, json!({ "state": "delivered" })),
            redraw(&api, &bag, win)
        );
        if delivered.status == 200 {
            revoked.expect_problem(409, "win_delivered");
        } else {
            revoked.expect(200);
            delivered.expect_problem(409, "win_revoked");
        }
    }
    let both = "SELECT COUNT(*) FROM win_record WHERE status = 'revoked' \
         AND fulfilment = 'delivered'";
    assert_eq!(world.number(both).await, 0);

    process.stop().await;
    world.end().await;
}
