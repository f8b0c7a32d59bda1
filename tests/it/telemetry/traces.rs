//! What a collector of traces gets, and that nothing depends on it.

use reqwest::header::HeaderValue;

use super::collector::{Collector, Span};
use crate::{
    harness::{Answering, Api, Bag, BagSpec, JwksServer, Process, World, eventually},
    proxy::free_address,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// OTLP's numbers of the kinds of spans.
const SERVER: i32 = 2;
const PRODUCER: i32 = 4;
const CONSUMER: i32 = 5;

impl World {
    async fn serve_traced(&self, endpoint: &str, ratio: &str) -> Process {
        self.serve_with(&[
            ("TELEMETRY__OTLP_ENDPOINT", endpoint),
            ("TELEMETRY__OTLP_SAMPLE_RATIO", ratio),
            ("TELEMETRY__OTLP_INSTANCE", "first"),
        ])
        .await
    }
}

/// A join whose caller is part of a trace.
async fn join_in_trace(api: &Api, bag: &Bag, user: u64, flags: &str) -> String {
    let traceparent = format!("00-{TRACE}-{CALLER}-{flags}");
    let request = api
        .http
        .post(format!("{}{}", api.url, bag.path("/join")))
        .header(
            "traceparent",
            HeaderValue::from_str(&traceparent).expect("a header"),
        )
        .bearer_auth(api.viewer(user));
    let answer = api.send(request).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.header("x-request-id").to_owned()
}

/// The only span with this name and parent.
fn child<'a>(spans: &'a [Span], parent: &Span, name: &str) -> &'a Span {
    let is_child = |span: &&Span| span.name == name && span.parent_id == parent.id;
    let found: Vec<&Span> = spans.iter().filter(is_child).collect();
    let [child] = found[..] else {
        panic!(
            "not one {name} in {} but {found:#?} of {spans:#?}",
            parent.name
        )
    };
    assert_eq!(child.trace_id, parent.trace_id);
    child
}

fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    let [one] = found[..] else {
        panic!("not one {name} but {found:#?} of {spans:#?}")
    };
    one
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_and_a_draw_are_connected_traces() {
    let world = World::new().await;
    let collector = Collector::start();
    let process = world.serve_traced(collector.url(), "1").await;
    let api = world.api(&process).await;
    // Its message draws it.
    let spec = BagSpec {
        countdown_secs: 20,
        ..BagSpec::default()
    };
    let bag = api.open_bag(&spec).await;

    let request_id = join_in_trace(&api, &bag, 101, "01").await;
    api.settled(&bag, 101).await;
    api.drawn(&bag).await;
    eventually("the proof to be published", async || {
        let spans = collector.spans();
        let is_published = spans.iter().any(|span| span.name == "draw.publish_proof");
        is_published.then_some(()).ok_or(spans.len())
    })
    .await;
    // The last spans are sent by the stop.
    process.stop().await;

    let spans = collector.spans();
    let join = one(&spans, "POST /v1/activities/{activityId}/join");
    assert_eq!(
        (join.trace_id.as_str(), join.parent_id.as_str()),
        (TRACE, CALLER)
    );
    assert_eq!(join.kind, SERVER);
    assert_eq!(join.attributes["http.response.status_code"], "202");
    assert_eq!(join.attributes["request.id"], request_id);
    assert_eq!(join.resource["service.name"], "luckybag");
    assert_eq!(join.resource["service.instance.id"], "first");
    assert_eq!(join.resource["service.namespace"], world.namespace);
    let publish = child(&spans, join, "join.publish");
    assert_eq!(publish.kind, PRODUCER);
    let handle = child(&spans, publish, "message.handle");
    assert_eq!(handle.kind, CONSUMER);
    child(&spans, handle, "admission.commit");
    child(&spans, handle, "admission.project");

    assert_draw(&spans, &bag);
    assert_discreet(&spans, &world, &api);
    world.end().await;
}

/// The draw is a trace of its own, which says what caused it.
fn assert_draw(spans: &[Span], bag: &Bag) {
    let runs = spans.iter().filter(|span| span.name == "draw.run");
    let fullest = runs.max_by_key(|run| spans.iter().filter(|s| s.parent_id == run.id).count());
    let draw = fullest.expect("a draw");
    assert_eq!(draw.attributes["activity.id"], bag.id.to_string());
    for phase in [
        "draw.claim",
        "draw.drain",
        "draw.freeze",
        "draw.select",
        "draw.commit",
        "draw.proof",
    ] {
        child(spans, draw, phase);
    }
    one(spans, "draw.publish_proof");
    assert!(spans.iter().any(|span| span.name == "outbox.project"));
    let message = spans.iter().find(|span| {
        span.name == "message.handle" && span.attributes["messaging.destination.name"] == "draw"
    });
    let message = message.expect("the draw's message");
    assert_eq!(message.parent_id, "");
    let (trace_id, span_id) = &message.links[0];
    let sender = spans.iter().find(|span| span.id == *span_id);
    assert_eq!(&sender.expect("what sent it").trace_id, trace_id);
}

/// Spans hold no more of anybody than the logs do.
fn assert_discreet(spans: &[Span], world: &World, api: &Api) {
    /// How every token begins.
    const TOKEN: &str = "eyJ";

    let told = format!("{spans:?}");
    for hidden in [
        api.signing_secret(),
        &world.mysql_url,
        "SELECT",
        "Bearer",
        TOKEN,
    ] {
        assert!(!told.contains(hidden), "{hidden} is in {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_of_what_is_not_sampled() {
    let world = World::new().await;
    let (none, all) = (Collector::start(), Collector::start());

    // A caller's wish does not count where nothing is to be sent.
    let process = world.serve_traced(none.url(), "0").await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    join_in_trace(&api, &bag, 101, "01").await;
    api.settled(&bag, 101).await;
    process.stop().await;
    assert_eq!(none.spans().len(), 0, "{:?}", none.spans());

    // Where all is, a caller's "no" does.
    let process = world.serve_traced(all.url(), "1").await;
    let api = world.api(&process).await;
    join_in_trace(&api, &bag, 102, "00").await;
    api.settled(&bag, 102).await;
    process.stop().await;
    let spans = all.spans();
    assert!(
        spans.iter().any(|span| span.name.ends_with("/me")),
        "{spans:?}"
    );
    assert!(spans.iter().all(|span| span.trace_id != TRACE), "{spans:?}");

    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_silent_changes_nothing() {
    let world = World::new().await;
    let silent = JwksServer::start(Answering::Silence).await;
    let nobody = format!("http://{}/v1/traces", free_address());

    for endpoint in [nobody, silent.url()] {
        let process = world.serve_traced(&endpoint, "1").await;
        let api = world.api(&process).await;
        let bag = api.open_bag(&BagSpec::waiting()).await;
        api.join_all(&bag, 101..=110).await;
        world.draw_soon(&[bag]).await;
        api.drawn(&bag).await;
        let lost = || {
            let is_lost = |line: &&String| line.contains("spans are not taken");
            process.log_lines().iter().filter(is_lost).count()
        };
        eventually("the loss to be told", async || match lost() {
            0 => Err(process.log_tail()),
            _ => Ok(()),
        })
        .await;

        process.signal("TERM");
        let status = process.exit_status().await;

        assert!(status.success(), "{}", process.log_tail());
        assert_eq!(lost(), 1, "{}", process.log_tail());
    }
    assert!(silent.asked() > 0);

    world.end().await;
}
