//! What is refused, and that nothing is done then.

use serde_json::{Value, json};

use super::{drawn_bag, order, three_seats, users_of};
use crate::harness::{Api, Bag, World};

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_cannot_be_carried_out_whole_is_refused_whole() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api, 5).await;
    let other = api.open_bag(&three_seats(8002)).await;
    api.join_all(&other, users_of(&other, 3)).await;
    let early = api.redraw(&other, &[7]).await;
    world.draw_soon(&[other]).await;
    world.all_drawn(&[other]).await;
    let ids: Vec<u64> = world.wins(bag.id).await.iter().map(|win| win.id).collect();
    let strange = world.wins(other.id).await[0].id;
    let before = (world.wins(bag.id).await, world.handed_out(&bag).await);

    early.expect_problem(409, "not_drawn");
    let unknown = api.redraw(&bag, &[ids[0], 7, strange]).await;
    assert_eq!(
        unknown.faulty_fields(),
        ["winRecordIds[1]", "winRecordIds[2]"]
    );
    unknown.expect_problem(422, "invalid_request");
    let twice = api.redraw(&bag, &[ids[0], ids[1], ids[0]]).await;
    assert_eq!(twice.faulty_fields(), ["winRecordIds[2]"]);
    twice.expect_problem(422, "invalid_request");
    check_bodies(&api, &bag).await;
    let path = "/v1/activities/7/redraws";
    let nowhere = api.post(&api.operator(), path, Some(order(&ids))).await;
    nowhere.expect_problem(404, "activity_not_found");
    assert_eq!(
        (world.wins(bag.id).await, world.handed_out(&bag).await),
        before
    );

    // Done in part: named, and the rest is left as it is.
    api.redraw(&bag, &ids[..2]).await.expect(200);
    let before = world.wins(bag.id).await;
    for asked in [&ids[..1], &ids[1..], &ids[..]] {
        let refused = api.redraw(&bag, asked).await;
        let problem = refused.expect_problem(409, "already_revoked");
        for id in &ids {
            let is_meant = ids[..2].contains(id) && asked.contains(id);
            assert_eq!(names(&problem, *id), is_meant, "{problem}");
        }
    }
    assert_eq!(world.wins(bag.id).await, before);
    assert_eq!(world.round(&bag).await, 2);

    process.stop().await;
    world.end().await;
}

async fn check_bodies(api: &Api, bag: &Bag) {
    let many: Vec<u64> = (1..=1_001).collect();
    for (body, fields) in [
        (order(&many), &["winRecordIds"][..]),
        (order(&[]), &["winRecordIds"]),
        (
            json!({ "winRecordIds": ["007"], "reason": "x" }),
            &["winRecordIds[0]"],
        ),
        (json!({ "winRecordIds": ["7"], "reason": "" }), &["reason"]),
        (
            json!({ "winRecordIds": ["7"], "reason": "x".repeat(256) }),
            &["reason"],
        ),
        (
            json!({ "winRecordIds": ["7"], "reason": "x", "userId": "5" }),
            &["userId"],
        ),
    ] {
        let path = bag.path("/redraws");
        let answer = api.post(&api.operator(), &path, Some(body)).await;
        assert_eq!(answer.faulty_fields(), fields, "{}", answer.body);
        answer.expect_problem(422, "invalid_request");
    }
}

fn names(problem: &Value, id: u64) -> bool {
    let detail = problem["detail"].as_str().expect("a detail");
    detail.contains(&id.to_string())
}
