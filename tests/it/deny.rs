//! Deny lists over HTTP: what they hold, who may change them, and what is refused.

use serde_json::{Value, json};

use crate::harness::{Api, BagSpec, World};

const PLATFORM: &str = "/v1/deny-list";

/// How often an action was audited in the lists of the platform.
async fn audited(world: &World, action: &str) -> i64 {
    let query = format!(
        "SELECT COUNT(*) FROM audit WHERE activity_id IS NULL AND actor = 'user:1' \
         AND action = '{action}' AND request_id <> ''"
    );
    world.number(&query).await
}

async fn listed(api: &Api, token: &str, path: &str) -> Vec<(String, Value)> {
    let page = api.get(token, path).await.expect(200);
    let items = page["items"].as_array().expect("a list");
    items
        .iter()
        .map(|entry| {
            let user = entry["userId"].as_str().expect("a user id").to_owned();
            (user, entry["reason"].clone())
        })
        .collect()
}

/// What was done to an activity's list, oldest first.
async fn deny_actions(api: &Api, path: &str) -> Vec<String> {
    let audit = api.get(&api.operator(), path).await.expect(200);
    let records = audit["items"].as_array().expect("a list").iter();
    let actions = records.map(|record| record["action"].as_str().expect("a word").to_owned());
    actions
        .filter(|action| action.starts_with("deny."))
        .collect()
}

fn entry(user: &str, reason: Value) -> (String, Value) {
    (user.to_owned(), reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_made_and_taken_away_once_however_often_it_is_asked_for() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let operator = api.operator();
    let ann = format!("{PLATFORM}/1001");

    let made = api.put(&operator, &ann, None).await.expect(200);
    assert_eq!(
        (&made["userId"], &made["createdBy"]),
        (&json!("1001"), &json!("1"))
    );
    assert_eq!(made.get("reason"), None, "{made}");
    assert!(made["createdAt"].is_string(), "{made}");
    let again = api.put(&operator, &ann, Some(json!({}))).await.expect(200);
    assert_eq!(again, made);
    assert_eq!(audited(&world, "deny.add").await, 1);

    let with_reason = Some(json!({ "reason": "fraud" }));
    let told = api
        .put(&operator, &ann, with_reason.clone())
        .await
        .expect(200);
    assert_eq!(told["reason"], "fraud");
    api.put(&operator, &ann, with_reason).await.expect(200);
    let kept = api.put(&operator, &ann, None).await.expect(200);
    assert_eq!(kept, told);
    assert_eq!(audited(&world, "deny.add").await, 1);
    assert_eq!(audited(&world, "deny.change").await, 1);
    assert_eq!(
        listed(&api, &operator, PLATFORM).await,
        [entry("1001", json!("fraud"))]
    );

    for _ in 0..2 {
        api.delete(&operator, &ann).await.expect(204);
    }
    assert_eq!(listed(&api, &operator, PLATFORM).await, []);
    assert_eq!(audited(&world, "deny.remove").await, 1);

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_paged_in_the_order_of_the_ids() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let operator = api.operator();
    let max = i64::MAX.to_string();
    let ids = json!({ "userIds": [max, "7", 1_000_000, "20", "3"], "reason": "bots" });
    let imported = api.post(&operator, "/v1/deny-list/import", Some(ids)).await;
    assert_eq!(
        imported.expect(200),
        json!({ "added": 5, "alreadyListed": 0 })
    );

    let mut shown = Vec::new();
    let mut path = "/v1/deny-list?limit=2".to_owned();
    loop {
        let page = api.get(&operator, &path).await.expect(200);
        let items = page["items"].as_array().expect("a list");
        assert!(items.len() <= 2, "{page}");
        shown.extend(items.iter().map(|entry| entry["userId"].clone()));
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        path = format!("/v1/deny-list?limit=2&cursor={cursor}");
    }
    assert_eq!(json!(shown), json!(["3", "7", "20", "1000000", max]));

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_adds_what_is_new_and_can_be_sent_again() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let operator = api.operator();
    let import = async |body: &Value| {
        api.post(&operator, "/v1/deny-list/import", Some(body.clone()))
            .await
    };
    api.put(
        &operator,
        "/v1/deny-list/7",
        Some(json!({ "reason": "mine" })),
    )
    .await
    .expect(200);

    // A repetition inside the list counts once; who is there keeps the reason.
    let body = json!({ "userIds": ["7", "8", "9", 8], "reason": "bots" });
    let first = import(&body).await.expect(200);
    assert_eq!(first, json!({ "added": 2, "alreadyListed": 1 }));
    let second = import(&body).await.expect(200);
    assert_eq!(second, json!({ "added": 0, "alreadyListed": 3 }));
    assert_eq!(
        listed(&api, &operator, PLATFORM).await,
        [
            entry("7", json!("mine")),
            entry("8", json!("bots")),
            entry("9", json!("bots")),
        ]
    );
    assert_eq!(audited(&world, "deny.import").await, 1);

    // The largest one, all ids as long as they get, twice at the same time.
    let most: Vec<String> = (0..10_000).map(|n| (i64::MAX - n).to_string()).collect();
    let most = json!({ "userIds": most });
    let (one, other) = tokio::join!(import(&most), import(&most));
    let (one, other) = (one.expect(200), other.expect(200));
    let added = |answer: &Value| answer["added"].as_u64().expect("a number");
    assert_eq!(added(&one) + added(&other), 10_000, "{one} {other}");
    assert_eq!(world.number("SELECT COUNT(*) FROM deny_list").await, 10_003);

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_an_import_is_named_and_nothing_is_added() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let operator = api.operator();
    let too_many: Vec<u64> = (1..=10_001).collect();
    let mut bad_ids = vec![json!("5"); 30];
    for (index, bad) in [
        (1, json!("0")),
        (4, json!("007")),
        (9, json!(-1)),
        (12, json!(1.5)),
        (17, json!(null)),
        (21, json!(u64::MAX)),
        (29, json!("x")),
    ] {
        bad_ids[index] = bad;
    }
    let faulty: Vec<String> = [1, 4, 9, 12, 17, 21, 29]
        .iter()
        .map(|index| format!("userIds[{index}]"))
        .collect();
    let mut faulty: Vec<&str> = faulty.iter().map(String::as_str).collect();
    faulty.insert(0, "reason");

    for (body, fields) in [
        (json!({ "userIds": bad_ids, "reason": 5 }), &faulty[..]),
        (
            json!({ "userIds": [], "reason": "" }),
            &["reason", "userIds"],
        ),
        (json!({ "userIds": too_many }), &["userIds"]),
        (json!({ "userIds": "5" }), &["userIds"]),
        (json!({}), &["userIds"]),
        (json!({ "userIds": ["5"], "users": [] }), &["users"]),
    ] {
        let answer = api
            .post(&operator, "/v1/deny-list/import", Some(body))
            .await;
        assert_eq!(answer.faulty_fields(), fields, "{}", answer.body);
        answer.expect_problem(422, "invalid_request");
    }
    let long = json!({ "reason": "x".repeat(256) });
    let answer = api.put(&operator, "/v1/deny-list/5", Some(long)).await;
    assert_eq!(answer.faulty_fields(), ["reason"]);
    let answer = api.put(&operator, "/v1/deny-list/05", None).await;
    assert_eq!(answer.faulty_fields(), ["userId"]);
    let answer = api.delete(&operator, "/v1/deny-list/x").await;
    assert_eq!(answer.faulty_fields(), ["userId"]);
    let filler = " ".repeat(1 << 20);
    let larger = api
        .post(
            &operator,
            "/v1/deny-list/import",
            Some(json!({ "x": filler })),
        )
        .await;
    larger.expect_problem(413, "body_too_large");

    assert_eq!(world.number("SELECT COUNT(*) FROM deny_list").await, 0);
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_keeps_the_lists_of_its_own_rooms_and_each_list_is_for_itself() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let here = api.open_bag(&BagSpec::waiting()).await;
    let there = BagSpec {
        room: 8002,
        ..BagSpec::waiting()
    };
    let there = api.open_bag(&there).await;
    let draft = api.draft(&BagSpec::waiting()).await;
    let (host, other) = (api.host_of(8001), api.host_of(8002));
    let list = here.path("/deny-list");
    let reason = Some(json!({ "reason": "rude" }));

    api.put(&host, &format!("{list}/7"), reason)
        .await
        .expect(200);
    let import = Some(json!({ "userIds": ["7", "8"] }));
    let imported = api.post(&host, &format!("{list}/import"), import).await;
    assert_eq!(
        imported.expect(200),
        json!({ "added": 1, "alreadyListed": 1 })
    );
    api.delete(&host, &format!("{list}/8")).await.expect(204);

    assert_eq!(
        listed(&api, &host, &list).await,
        [entry("7", json!("rude"))]
    );
    let elsewhere = there.path("/deny-list");
    assert_eq!(listed(&api, &other, &elsewhere).await, []);
    assert_eq!(listed(&api, &api.operator(), PLATFORM).await, []);
    let done = deny_actions(&api, &here.path("/audit")).await;
    assert_eq!(done, ["deny.add", "deny.import", "deny.remove"]);

    // A room of somebody else: what is public is refused, a draft is not told of.
    api.put(&other, &format!("{list}/9"), None)
        .await
        .expect_problem(403, "forbidden");
    let hidden = format!("/v1/activities/{draft}/deny-list");
    api.get(&other, &hidden)
        .await
        .expect_problem(404, "activity_not_found");
    api.put(&host, &format!("{hidden}/9"), None)
        .await
        .expect(200);
    let nowhere = "/v1/activities/12345/deny-list/7";
    api.put(&api.operator(), nowhere, None)
        .await
        .expect_problem(404, "activity_not_found");

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_added_for_an_activity_that_takes_no_more_joins() {
    let world = World::new().await;
    let process = world.serve_with(&[("SWEEPER__ENABLED", "false")]).await;
    let api = world.api(&process).await;
    let operator = api.operator();
    let bag = api.open_bag(&BagSpec::waiting()).await;
    let ann = bag.path("/deny-list/7");
    let import = Some(json!({ "userIds": ["8"] }));
    api.put(&operator, &ann, None).await.expect(200);

    for state in ["drawing", "drawn", "cancelled", "rejected"] {
        world
            .execute(&format!(
                "UPDATE activity SET status = '{state}', drawn_at = NOW(3), \
                 cancelled_at = NOW(3) WHERE id = {}",
                bag.id
            ))
            .await;
        let path = bag.path("/deny-list/8");
        for refused in [
            api.put(&operator, &path, None).await,
            api.post(&operator, &bag.path("/deny-list/import"), import.clone())
                .await,
        ] {
            refused.expect_problem(409, "activity_closed");
        }
    }
    let listed = listed(&api, &operator, &bag.path("/deny-list")).await;
    assert_eq!(listed, [entry("7", Value::Null)]);
    api.delete(&operator, &ann).await.expect(204);
    assert_eq!(world.number("SELECT COUNT(*) FROM deny_list").await, 0);

    process.stop().await;
    world.end().await;
}
