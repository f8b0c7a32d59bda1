//! A process that dies in the middle, and servers that are away.

use super::{drawn_bag, order, standings, until_all_tell};
use crate::harness::{Api, Bag, Process, Proxies, World, metric, metrics_page};

/// A drawn bag, and a process that dies at `step` of the redraw which it is asked for; the bag is
/// as that left it. Answers the id of the win that was to be revoked, too.
async fn dies_at(world: &World, step: &str) -> (Process, Api, Bag, u64) {
    let other = world.serve().await;
    let api = world.api(&other).await;
    let bag = drawn_bag(world, &api, 5).await;
    let second = world.holder(&bag, 2).await.id;
    let victim = world.serve_with(&[("LUCKYBAG_DIE_AT", step)]).await;
    let asked = world.api(&victim).await;
    let url = format!("{}{}", asked.url, bag.path("/redraws"));
    let request = asked.http.post(url).bearer_auth(asked.operator());
    let answer = request.json(&order(&[second])).send().await;
    assert!(answer.is_err(), "{answer:?}");
    let status = victim.exit_status().await;
    assert!(!status.success(), "it did not die at {step}");
    (other, api, bag, second)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_in_the_transaction_changes_nothing_and_the_same_request_is_made_later() {
    let world = World::new().await;
    let (process, api, bag, second) = dies_at(&world, "redraw.in_transaction").await;
    let best = standings(&world, &bag).await;
    world.assert_drawn_once(&bag).await;

    let answer = api.redraw(&bag, &[second]).await.expect(200);

    assert_eq!(answer["round"], 2);
    assert_eq!(answer["replaced"][0]["userId"], best[3].to_string());
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_behind_the_commit_loses_the_answer_and_nothing_else() {
    let world = World::new().await;
    let amqp = world.amqp().await;
    let (process, api, bag, second) = dies_at(&world, "redraw.committed").await;
    let best = standings(&world, &bag).await;
    assert_eq!(world.round(&bag).await, 2);

    let answer = api.redraw(&bag, &[second]).await.expect(200);

    assert_eq!(answer["round"], 2);
    assert_eq!(answer["revoked"][0]["userId"], best[1].to_string());
    assert_eq!(answer["replaced"][0]["userId"], best[3].to_string());
    assert_eq!(world.round(&bag).await, 2, "not once more");
    world.nothing_owed().await;
    let expected = [(best[1], "revoked"), (best[3], "won")];
    until_all_tell(&[api], &bag, &expected).await;
    amqp.close().await;
    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_and_rabbitmq_may_be_away_during_a_redraw() {
    use fred::interfaces::HashesInterface;

    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let process = world.serve_with(&proxies.changes()).await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api, 5).await;
    let best = standings(&world, &bag).await;
    world.nothing_owed().await;
    proxies.redis.refuse();
    proxies.rabbitmq.refuse();

    let second = world.holder(&bag, 2).await.id;
    let answer = api.redraw(&bag, &[second]).await.expect(200);

    assert_eq!(answer["replaced"][0]["userId"], best[3].to_string());
    let expected = [(best[0], "won"), (best[1], "revoked"), (best[3], "won")];
    until_all_tell(std::slice::from_ref(&api), &bag, &expected).await;
    assert_eq!(api.winners(&bag).await, [best[0], best[3], best[2]]);
    proxies.redis.resume();
    proxies.rabbitmq.resume();
    world.nothing_owed().await;
    let mark: String = world
        .redis
        .hget(world.keys().win_list(bag.id), "-")
        .await
        .unwrap();
    assert!(mark.starts_with(r#"{"round":2,"rows":3,"#), "{mark}");

    process.stop().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redraw_whose_commit_is_answered_by_nobody_is_made_counted_and_told() {
    let world = World::new().await;
    let proxies = Proxies::of(&world).await;
    let process = world.serve_with(&proxies.changes()).await;
    let api = world.api(&process).await;
    let bag = drawn_bag(&world, &api, 5).await;
    let best = standings(&world, &bag).await;
    let second = world.holder(&bag, 2).await.id;
    // The one transaction that writes this into the audit.
    proxies.mysql.lose_answer("activity.redraw", "COMMIT");

    let answer = api.redraw(&bag, &[second]).await.expect(200);

    assert_eq!(answer["round"], 2);
    assert_eq!(answer["replaced"][0]["userId"], best[3].to_string());
    assert_eq!(world.round(&bag).await, 2, "once");
    let lines = process.log_lines();
    let lost = "looking whether the redraw holds";
    let lost = lines.iter().filter(|line| line.contains(lost));
    assert_eq!(lost.count(), 1, "{lines:#?}");
    let page = metrics_page(&api.url).await;
    let counted = metric(&page, "luckybag_redraws_total");
    assert_eq!(counted, Some(1.0), "{page}");
    let expected = [(best[1], "revoked"), (best[3], "won")];
    until_all_tell(&[api], &bag, &expected).await;
    world.nothing_owed().await;
    process.stop().await;
    world.end().await;
}
