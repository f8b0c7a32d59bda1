//! The samples of what others send, sent as they are.

use luckybag::infra::broker::Queue;

use super::{FEEDS, sample, sample_text};
use crate::harness::{Api, World, eventually, metric, metrics_page};

async fn taken_from(api: &Api, source: &str, feed: &str) -> f64 {
    let page = metrics_page(&api.url).await;
    let series = format!("luckybag_ingress_events_total{{source=\"{source}\",kind=\"{feed}\"}}");
    metric(&page, &series).unwrap_or(0.0)
}

#[expect(clippy::cast_precision_loss, reason = "a handful")]
fn events_in(feed: &str) -> f64 {
    sample(feed)["events"].as_array().expect("events").len() as f64
}

#[tokio::test(flavor = "multi_thread")]
async fn the_samples_of_what_others_send_are_taken_from_both_ways() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let amqp = world.amqp().await;

    for feed in FEEDS {
        api.report_body(feed, sample(feed)).await.expect(202);
        let exchange = format!("{}.v1.{feed}", world.namespace);
        amqp.send(&exchange, "", sample_text(feed).as_bytes()).await;
        for source in ["http", "amqp"] {
            eventually(
                &format!("the {feed} from {source}"),
                async || match taken_from(&api, source, feed).await {
                    taken if taken >= events_in(feed) => Ok(()),
                    taken => Err(taken),
                },
            )
            .await;
        }
    }

    process.stop().await;
    let dead = world.topology().queue_name(Queue::Dead);
    assert_eq!(
        amqp.look(&dead).await.waiting,
        0,
        "some of it was set aside"
    );
    amqp.close().await;
    world.end().await;
}
