//! The calls about a drawn activity and about deny lists.

use serde_json::{Value, json};

use super::{Keyed, all_at_once, twice};
use crate::harness::{Api, Bag, BagSpec, World};

/// A running bag, a drawn one, and the ids of its wins.
async fn two_bags(world: &World, api: &Api) -> ([Bag; 2], Vec<u64>) {
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 1_001..1_009).await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    let wins = world.wins(bag.id).await;
    let running = api.open_bag(&BagSpec::waiting()).await;
    ([running, bag], wins.iter().map(|win| win.id).collect())
}

/// A call of each route, what it is called, and the action that is audited of it.
fn calls(
    api: &Api,
    [running, bag]: &[Bag; 2],
    wins: &[u64],
) -> Vec<(&'static str, Keyed, &'static str)> {
    let (operator, host) = (api.operator(), api.host_of(running.room));
    let redraw = json!({ "winRecordIds": [wins[0].to_string()], "reason": "forged" });
    let fulfilment = format!("/v1/win-records/{}/fulfilment", wins[1]);
    let delivered = json!({ "state": "delivered", "reference": "parcel 9" });
    let users = json!({ "userIds": ["1", "2", "3"] });
    let post =
        |token: &str, path: String, body: &Value| Keyed::post(token, path, Some(body.clone()));
    vec![
        (
            "redraw",
            post(&operator, bag.path("/redraws"), &redraw),
            "activity.redraw",
        ),
        (
            "fulfil",
            post(&api.service(), fulfilment, &delivered),
            "win.fulfilment",
        ),
        (
            "import",
            post(&operator, "/v1/deny-list/import".to_owned(), &users),
            "deny.import",
        ),
        (
            "import-here",
            post(&host, running.path("/deny-list/import"), &users),
            "deny.import",
        ),
    ]
}

async fn assert_audited_once_each(world: &World, calls: &[(&str, Keyed, &str)]) {
    for (_, _, action) in calls {
        let asked = calls.iter().filter(|call| call.2 == *action).count();
        let audited = format!("SELECT COUNT(*) FROM audit WHERE action = '{action}'");
        let audited = world.number(&audited).await;
        assert_eq!(usize::try_from(audited), Ok(asked), "{action}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redraws_fulfilments_and_imports_happen_once_under_a_key() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let (bags, wins) = two_bags(&world, &api).await;
    let calls = calls(&api, &bags, &wins);

    for (name, call, _) in &calls {
        twice(&api, name, call, 200).await;
    }
    // What finds nothing to do keeps its answer, too.
    for (name, call, _) in &calls {
        twice(&api, &format!("{name}-again"), call, 200).await;
    }

    assert_audited_once_each(&world, &calls).await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_same_redraws_fulfilments_and_imports_at_once_one_is_carried_out() {
    let world = World::new().await;
    let processes = [world.serve().await, world.serve().await];
    let apis = [
        world.api(&processes[0]).await,
        world.api(&processes[1]).await,
    ];
    let (bags, wins) = two_bags(&world, &apis[0]).await;
    let calls = calls(&apis[0], &bags, &wins);

    for (name, call, _) in &calls {
        all_at_once(&apis, call, name, 200).await;
    }

    assert_audited_once_each(&world, &calls).await;
    for process in processes {
        process.stop().await;
    }
    world.end().await;
}
