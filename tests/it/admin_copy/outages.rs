//! While the admin database is away, nothing else is.

use luckybag::infra::outbox::EventKind;

use super::{Copied, drawn_bag};
use crate::{
    harness::{authority, eventually, metric, metrics_page, through},
    proxy::Proxy,
};

/// What the proxy does to every connection.
type Harm = fn(&Proxy);

async fn a_bag_runs_without(harm: Harm) {
    let copied = Copied::new().await;
    let world = &copied.world;
    let proxy = Proxy::start(authority(&copied.url)).await;
    let url = through(&copied.url, proxy.addr());
    harm(&proxy);
    let process = world.serve_with(&[("ADMIN_DATABASE__URL", &url)]).await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;
    let exchange = format!("{}.events", world.namespace);
    let mut events = amqp
        .listen(&exchange, EventKind::ActivityDrawn.as_str())
        .await;

    let bag = drawn_bag(world, &api, 8001).await;
    world.assert_drawn_once(&bag).await;
    let told = events.next().await;
    assert_eq!(told["data"]["activityId"], bag.id.to_string());
    eventually("all but the copies to be done", async || {
        const OTHERS: &str = "SELECT COUNT(*) FROM outbox WHERE kind <> 'adminCopy'";
        match world.number(OTHERS).await {
            0 => Ok(()),
            others => Err(others),
        }
    })
    .await;
    assert!(copied.waiting().await >= 3, "the copies wait");
    eventually("the metric to tell", async || {
        let page = metrics_page(&process.url().await).await;
        let age = metric(&page, "luckybag_admin_copy_age_seconds");
        let up = metric(&page, "luckybag_dependency_up{name=\"admin_database\"}");
        if age > Some(0.0) && up == Some(0.0) {
            Ok(())
        } else {
            Err((age, up))
        }
    })
    .await;

    proxy.resume();
    copied.assert_exact().await;
    assert_eq!(copied.count("win_record_copy").await, 2);
    amqp.close().await;
    process.stop().await;
    copied.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bag_runs_while_the_admin_database_refuses_and_is_copied_later() {
    a_bag_runs_without(Proxy::refuse).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bag_runs_while_the_admin_database_says_nothing_and_is_copied_later() {
    a_bag_runs_without(Proxy::stall).await;
}

/// It was there, and falls silent in the middle: a stop does not wait for it either.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_the_admin_database() {
    let copied = Copied::new().await;
    let world = &copied.world;
    let proxy = Proxy::start(authority(&copied.url)).await;
    let url = through(&copied.url, proxy.addr());
    let process = world.serve_with(&[("ADMIN_DATABASE__URL", &url)]).await;
    let api = world.api(&process).await;
    api.draft(&super::spec(8001)).await;
    copied.assert_exact().await;

    proxy.stall();
    api.draft(&super::spec(8001)).await;
    process.stop().await;

    assert_eq!(copied.waiting().await, 1, "it is kept for the next process");
    proxy.resume();
    let process = world.serve_with(&[("ADMIN_DATABASE__URL", &url)]).await;
    // A claim of the process that was stopped has to run out.
    let claims = "UPDATE outbox SET not_before = NOW(3)";
    world.execute(claims).await;
    copied.assert_exact().await;
    process.stop().await;
    copied.end().await;
}
