//! The whole story, once.

use crate::harness::{BagSpec, World};

#[tokio::test(flavor = "multi_thread")]
async fn viewers_join_and_as_many_win_as_there_are_prizes() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;

    let bag = api
        .open_bag(&BagSpec {
            winners: 3,
            ..BagSpec::waiting()
        })
        .await;
    api.join_all(&bag, 101..=120).await;
    let me = api.settled(&bag, 101).await;
    world.draw_soon(&[bag]).await;
    let detail = api.drawn(&bag).await;

    assert_eq!(me["participation"], "joined", "{me}");
    assert_eq!(me["eligibility"], "eligible", "{me}");
    assert_eq!(detail["participants"], 20, "{detail}");
    let winners = api.winners(&bag).await;
    assert_eq!(winners.len(), 3);
    for user in 101..=120 {
        let result = api
            .get(&api.viewer(user), &bag.path("/result"))
            .await
            .expect(200);
        let expected = if winners.contains(&user) {
            "won"
        } else {
            "notWon"
        };
        assert_eq!(result["result"], expected, "{result}");
    }

    process.stop().await;
    world.end().await;
}
