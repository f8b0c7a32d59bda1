//! No one acts for another, or sees what is another's.

use reqwest::header::AUTHORIZATION;
use serde_json::json;

use crate::harness::{Api, Bag, BagSpec, World};

const WINNER: u64 = 1_234_567_001;
const LATECOMER: u64 = 1_234_567_002;

#[tokio::test(flavor = "multi_thread")]
async fn everybody_joins_for_itself_and_sees_its_own_result_only() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api
        .open_bag(&BagSpec {
            winners: 1,
            ..BagSpec::waiting()
        })
        .await;

    check_nobody_joins_for(&api, &bag, WINNER).await;
    api.join_all(&bag, [WINNER]).await;
    let joined = api.settled(&bag, WINNER).await;
    let other = api.get(&api.viewer(LATECOMER), &bag.path("/me")).await;
    assert_eq!(joined["participation"], "joined", "{joined}");
    assert_eq!(other.expect(200), json!({ "participation": "none" }));
    check_nobody_sees_with(&api, &bag, WINNER).await;

    world.draw_soon(&[bag]).await;
    api.drawn(&bag).await;
    check_results(&api, &bag).await;
    check_names_of_winners(&api, &bag).await;

    process.stop().await;
    world.end().await;
}

/// Whatever a caller says in its body, it cannot join for somebody else.
async fn check_nobody_joins_for(api: &Api, bag: &Bag, user: u64) {
    let token = api.viewer(LATECOMER);
    for name in ["userId", "user_id", "sub", "user"] {
        let body = json!({ name: user.to_string() });
        let answer = api.post(&token, &bag.path("/join"), Some(body)).await;
        assert_eq!(answer.faulty_fields(), [name], "{}", answer.body);
        answer.expect(422);
    }
}

/// Whatever a caller says beside its token, it is shown nothing of somebody else, who has joined.
async fn check_nobody_sees_with(api: &Api, bag: &Bag, user: u64) {
    let token = api.viewer(LATECOMER);
    let ask = |query: &str| {
        let url = format!("{}{}{query}", api.url, bag.path("/me"));
        api.http.get(url).bearer_auth(&token)
    };
    let second = format!("Bearer {}", api.viewer(user));
    for request in [
        ask(&format!("?userId={user}")),
        ask("").header("x-user-id", user.to_string()),
        ask("").header(AUTHORIZATION, second),
    ] {
        let me = api.send(request).await.expect(200);
        assert_eq!(me, json!({ "participation": "none" }));
    }
}

async fn check_results(api: &Api, bag: &Bag) {
    let result_of = async |user| {
        let answer = api.get(&api.viewer(user), &bag.path("/result")).await;
        answer.expect(200)
    };
    let (own, others) = (result_of(WINNER).await, result_of(LATECOMER).await);
    assert_eq!(own["result"], "won", "{own}");
    assert_eq!(own["win"]["rank"], 1, "{own}");
    assert_eq!(others["result"], "notWon", "{others}");
    let path = bag.path(&format!("/result?userId={WINNER}"));
    let asked = api.get(&api.viewer(LATECOMER), &path).await.expect(200);
    assert_eq!(asked["result"], "notWon", "{asked}");
    assert!(others.get("win").is_none(), "{others}");
    let win_record = own["win"]["winRecordId"].as_str().expect("an id");
    assert!(!others.to_string().contains(win_record), "{others}");
}

/// Winners are named to the room's host and to operators; others see the ends of their ids.
async fn check_names_of_winners(api: &Api, bag: &Bag) {
    for (token, shown) in [
        (api.operator(), "1234567001"),
        (api.host_of(bag.room), "1234567001"),
        (api.host_of(bag.room + 1), "12****01"),
        (api.viewer(LATECOMER), "12****01"),
        (api.viewer(WINNER), "12****01"),
    ] {
        let winners = api.get(&token, &bag.path("/winners")).await.expect(200);
        assert_eq!(winners["items"][0]["userId"], shown, "{winners}");
        assert_eq!(winners["items"].as_array().map(Vec::len), Some(1));
    }
}
