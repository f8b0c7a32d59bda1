//! Ids at their limits, and ids that JavaScript takes for the same.

use reqwest::Method;
use serde_json::json;

use super::{draft_with, serve};
use crate::harness::{Api, Bag, BagSpec, World, eventually};

/// Two ids with the same double.
const TWINS: [u64; 2] = [9_007_199_254_740_992, 9_007_199_254_740_993];
const LARGEST: u64 = i64::MAX as u64;

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_whole_numbers_from_1_to_2_63_minus_1_everywhere_and_exact() {
    let world = World::new().await;
    let process = serve(&world).await;
    let api = world.api(&process).await;

    check_ids_in_paths(&api).await;
    check_rooms_in_bodies(&api).await;
    let bags = check_twin_rooms(&api).await;
    check_twin_people(&api, &bags[0]).await;

    process.stop().await;
    world.end().await;
}

async fn check_ids_in_paths(api: &Api) {
    let routes = [
        (Method::GET, "/v1/activities/ID", "activityId", 404),
        (Method::PATCH, "/v1/activities/ID", "activityId", 404),
        (Method::POST, "/v1/activities/ID/submit", "activityId", 404),
        (Method::POST, "/v1/activities/ID/approve", "activityId", 404),
        (Method::POST, "/v1/activities/ID/reject", "activityId", 404),
        (Method::POST, "/v1/activities/ID/open", "activityId", 404),
        (Method::POST, "/v1/activities/ID/cancel", "activityId", 404),
        (Method::POST, "/v1/activities/ID/draw", "activityId", 404),
        (Method::POST, "/v1/activities/ID/redraws", "activityId", 404),
        (Method::POST, "/v1/activities/ID/join", "activityId", 404),
        (Method::GET, "/v1/activities/ID/me", "activityId", 404),
        (Method::GET, "/v1/activities/ID/result", "activityId", 404),
        (Method::GET, "/v1/activities/ID/winners", "activityId", 404),
        (Method::GET, "/v1/activities/ID/proof", "activityId", 404),
        (Method::GET, "/v1/activities/ID/proof/me", "activityId", 404),
        (Method::GET, "/v1/activities/ID/audit", "activityId", 404),
        (Method::PATCH, "/v1/prizes/ID", "prizeId", 404),
        (Method::GET, "/v1/rooms/ID/activities", "roomId", 200),
    ];
    for (method, route, field, of_a_proper_one) in routes {
        let call = async |id: &str| {
            let path = route.replace("ID", id);
            let mut request = api
                .http
                .request(method.clone(), format!("{}{path}", api.url))
                .bearer_auth(api.operator());
            if route.ends_with("/reject") {
                request = request.json(&json!({ "reason": "no" }));
            } else if route.ends_with("/redraws") {
                request = request.json(&json!({ "winRecordIds": ["7"], "reason": "no" }));
            } else if method == Method::PATCH {
                request = request.json(&json!({}));
            }
            api.send(request).await
        };
        for id in [
            "0",
            "-1",
            "007",
            "%30%30%37",
            "9223372036854775808",
            "18446744073709551616",
            "abc",
            "1.5",
            "1e3",
            "%207",
            "null",
        ] {
            let answer = call(id).await;
            assert_eq!(answer.faulty_fields(), [field], "{method} {route} {id}");
            answer.expect_problem(422, "invalid_request");
        }
        call("9223372036854775807").await.expect(of_a_proper_one);
        call("1").await.expect(of_a_proper_one);
    }
}

/// As a string and as a number, both are the same id, and shown as a string.
async fn check_rooms_in_bodies(api: &Api) {
    for room in [1, 8001, TWINS[0], TWINS[1], LARGEST] {
        for written in [json!(room), json!(room.to_string())] {
            let body = draft_with(&json!({ "roomId": written }));
            let answer = api
                .post(&api.host_of(room), "/v1/activities", Some(body))
                .await;
            assert_eq!(answer.expect(201)["roomId"], room.to_string());
        }
    }
}

/// Both rooms have a running activity of their own, and each host has only one of the rooms.
async fn check_twin_rooms(api: &Api) -> Vec<Bag> {
    let mut bags = Vec::new();
    for room in TWINS {
        let spec = BagSpec {
            room,
            countdown_secs: 600,
            ..BagSpec::default()
        };
        bags.push(api.open_bag(&spec).await);
    }
    for (bag, other_room) in bags.iter().zip([TWINS[1], TWINS[0]]) {
        let path = format!("/v1/rooms/{}/activities", bag.room);
        let listed = api.get(&api.viewer(5), &path).await.expect(200);
        assert_eq!(
            listed["items"].as_array().map(Vec::len),
            Some(1),
            "{listed}"
        );
        assert_eq!(listed["items"][0]["id"], bag.id.to_string());
        assert_eq!(listed["items"][0]["roomId"], bag.room.to_string());
        let others = api
            .post(&api.host_of(other_room), &bag.path("/cancel"), None)
            .await;
        others.expect_problem(403, "forbidden");
    }
    bags
}

async fn check_twin_people(api: &Api, bag: &Bag) {
    let people = [TWINS[0], TWINS[1], LARGEST, 1];
    api.join_all(bag, [TWINS[0]]).await;
    api.settled(bag, TWINS[0]).await;
    let other = api.get(&api.viewer(TWINS[1]), &bag.path("/me")).await;
    assert_eq!(other.expect(200)["participation"], "none");

    api.join_all(bag, people).await;

    for person in people {
        let me = api.settled(bag, person).await;
        assert_eq!(me["participation"], "joined", "{person}: {me}");
    }
    eventually("everybody to be counted", async || {
        let shown = api.get(&api.viewer(5), &bag.path("")).await.expect(200);
        let is_counted = shown["participants"] == people.len();
        if is_counted { Ok(()) } else { Err(shown) }
    })
    .await;
}
