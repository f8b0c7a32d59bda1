//! Every metric of the service: its name, its meaning and the one function that writes it.

use std::{sync::OnceLock, time::Duration};

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

use super::state;

const HTTP_REQUESTS: &str = "luckybag_http_requests_total";
const HTTP_DURATION: &str = "luckybag_http_request_duration_seconds";
const TOKENS_REFUSED: &str = "luckybag_tokens_refused_total";
const JWKS_REFRESHES: &str = "luckybag_jwks_refreshes_total";
const JWKS_KEYS: &str = "luckybag_jwks_keys";
const RATE_LIMITED: &str = "luckybag_rate_limited_total";
const CACHE_READS: &str = "luckybag_cache_reads_total";
const JOINS_ACCEPTED: &str = "luckybag_joins_accepted_total";
const JOINS_REFUSED: &str = "luckybag_joins_refused_total";
const JOINS_SETTLED: &str = "luckybag_joins_settled_total";
const JOIN_BATCH_SIZE: &str = "luckybag_join_batch_size";
const JOIN_QUEUE_LENGTH: &str = "luckybag_join_queue_length";
const STREAM_MESSAGES: &str = "luckybag_stream_messages_total";
const STREAM_LATE: &str = "luckybag_stream_late_total";
const PROJECTIONS_SKIPPED: &str = "luckybag_projections_skipped_total";
const EVENTS_DROPPED: &str = "luckybag_events_dropped_total";
const INGRESS_MESSAGES: &str = "luckybag_ingress_messages_total";
const INGRESS_EVENTS: &str = "luckybag_ingress_events_total";
const INGRESS_REFUSED: &str = "luckybag_ingress_refused_total";
const INGRESS_AGE: &str = "luckybag_ingress_age_seconds";
const STATS: &str = "luckybag_stats_total";
const EXPORTS: &str = "luckybag_exports_total";
const DRAW_LATENESS: &str = "luckybag_draw_lateness_seconds";
const DRAW_DURATION: &str = "luckybag_draw_duration_seconds";
const DRAW_DRAIN: &str = "luckybag_draw_drain_seconds";
const DRAWS: &str = "luckybag_draws_total";
const REDRAWS: &str = "luckybag_redraws_total";
const SEATS_REVOKED: &str = "luckybag_seats_revoked_total";
const PROOF_DURATION: &str = "luckybag_proof_duration_seconds";
const PROOFS_UNPUBLISHED: &str = "luckybag_proofs_unpublished";
const DRAINS_CUT_SHORT: &str = "luckybag_drains_cut_short_total";
const OUTBOX_AGE: &str = "luckybag_outbox_age_seconds";
const ADMIN_COPY_AGE: &str = "luckybag_admin_copy_age_seconds";
const OUTBOX_DONE: &str = "luckybag_outbox_done_total";
const NOTIFICATIONS: &str = "luckybag_notifications_total";
const SWEEPER_REPAIRS: &str = "luckybag_sweeper_repairs_total";
const ROWS_EXPIRED: &str = "luckybag_rows_expired_total";
const DEAD_LETTERED: &str = "luckybag_dead_lettered_total";
const DB_RETRIES: &str = "luckybag_db_retries_total";
const RECONNECTS: &str = "luckybag_reconnects_total";
const DEPENDENCY_UP: &str = "luckybag_dependency_up";
const LIVE_STREAMS: &str = "luckybag_live_streams";
const LIVE_REFUSED: &str = "luckybag_live_refused_total";

/// From an answer out of memory to a publish that ran into its limit.
const REQUEST_BUCKETS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0,
];

/// From a draw on the second to one after an outage.
const DRAW_BUCKETS: [f64; 12] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 30.0, 60.0, 300.0, 3600.0,
];

const SIZE_BUCKETS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// How often memory that the histograms gathered is given back.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The page that Prometheus reads.
#[derive(Clone)]
pub struct MetricsPage(PrometheusHandle);

impl MetricsPage {
    /// Starts recording; later calls return the page of the first.
    pub fn install() -> Result<Self, BuildError> {
        static PAGE: OnceLock<MetricsPage> = OnceLock::new();
        if let Some(page) = PAGE.get() {
            return Ok(page.clone());
        }
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full(HTTP_DURATION.to_owned()), &REQUEST_BUCKETS)?
            .set_buckets_for_metric(Matcher::Full(JOIN_BATCH_SIZE.to_owned()), &SIZE_BUCKETS)?
            .set_buckets_for_metric(Matcher::Full(DRAW_LATENESS.to_owned()), &DRAW_BUCKETS)?
            .set_buckets_for_metric(Matcher::Full(DRAW_DURATION.to_owned()), &DRAW_BUCKETS)?
            .set_buckets_for_metric(Matcher::Full(DRAW_DRAIN.to_owned()), &DRAW_BUCKETS)?
            .set_buckets_for_metric(Matcher::Full(PROOF_DURATION.to_owned()), &DRAW_BUCKETS)?
            .build_recorder();
        let page = PAGE.get_or_init(|| Self(recorder.handle()));
        // Fails only when another thread was first, whose recorder then serves both.
        if metrics::set_global_recorder(recorder).is_ok() {
            describe();
        }
        Ok(page.clone())
    }

    /// The metrics in Prometheus' text format.
    pub fn render(&self) -> String {
        process().collect();
        self.0.render()
    }

    /// Keeps the recorder small until `stop`.
    pub async fn run_upkeep(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.0.run_upkeep();
            tokio::select! {
                () = stop.cancelled() => (),
                () = tokio::time::sleep(UPKEEP_INTERVAL) => (),
            }
        }
    }
}

fn describe() {
    describe_http_and_joins();
    describe_ingress();
    describe_tokens();
    describe_draws();
    describe_live();
    describe_base();
    state::describe();
    process().describe();
}

/// What the operating system knows about this process: `process_…`.
fn process() -> metrics_process::Collector {
    metrics_process::Collector::default()
}

fn describe_live() {
    describe_gauge!(LIVE_STREAMS, "Open streams of what happens in an activity");
    describe_counter!(
        LIVE_REFUSED,
        "Streams that were not opened, by whose limit was reached: process or user"
    );
}

fn describe_http_and_joins() {
    describe_counter!(HTTP_REQUESTS, "HTTP requests by route, method and status");
    describe_histogram!(
        HTTP_DURATION,
        Unit::Seconds,
        "How long HTTP requests took, by route"
    );
    describe_counter!(RATE_LIMITED, "Calls answered 429, by what was counted");
    describe_counter!(
        CACHE_READS,
        "Details and lists of winners, by cache and by the layer that had them: memory, redis or mysql"
    );
    describe_counter!(JOINS_ACCEPTED, "Joins answered 202: confirmed by RabbitMQ");
    describe_counter!(JOINS_REFUSED, "Joins not accepted, by reason");
    describe_counter!(
        JOINS_SETTLED,
        "Joins that got their verdict, by outcome; `repeated` ones had it before"
    );
    describe_histogram!(JOIN_BATCH_SIZE, "Joins in one message of the stream");
    describe_gauge!(JOIN_QUEUE_LENGTH, "Joins that wait for their message");
    describe_counter!(
        STREAM_MESSAGES,
        "Messages of the stream that were handled, by queue and kind"
    );
    describe_counter!(
        STREAM_LATE,
        "What reached the stream after its activity's freeze"
    );
    describe_counter!(
        PROJECTIONS_SKIPPED,
        "Batches of an activity that Redis did not take; the pool is rebuilt later"
    );
    describe_counter!(
        EVENTS_DROPPED,
        "Presence and task events not used, by reason"
    );
}

fn describe_ingress() {
    describe_counter!(
        INGRESS_MESSAGES,
        "Calls and messages with presence or task events that were dealt with"
    );
    describe_counter!(
        INGRESS_EVENTS,
        "Presence and task events put into the stream, confirmed"
    );
    describe_counter!(
        INGRESS_REFUSED,
        "Presence and task events that were not taken, by reason"
    );
    describe_gauge!(
        INGRESS_AGE,
        Unit::Seconds,
        "How old the events of the slowest message were, or are, by the time they are in the stream: alarm"
    );
    describe_counter!(
        STATS,
        "Statistics counted for hosts, by where they were counted"
    );
    describe_counter!(EXPORTS, "Exports that ended, by kind and how");
}

fn describe_tokens() {
    describe_counter!(
        TOKENS_REFUSED,
        "Calls whose token was not believed, by reason"
    );
    describe_counter!(
        JWKS_REFRESHES,
        "Readings of a JWKS, by source and outcome; `failed` keeps the old keys"
    );
    describe_gauge!(JWKS_KEYS, "Usable keys of a JWKS, by source");
}

fn describe_draws() {
    describe_histogram!(
        DRAW_LATENESS,
        Unit::Seconds,
        "Time from drawAt to the draw's commit"
    );
    describe_histogram!(
        DRAW_DURATION,
        Unit::Seconds,
        "Time from a draw's claim to its commit"
    );
    describe_histogram!(
        PROOF_DURATION,
        Unit::Seconds,
        "From the entries of a draw to their published root"
    );
    describe_gauge!(
        PROOFS_UNPUBLISHED,
        "Drawn activities whose proof should have been published by now; NaN while MySQL does not say: alarm"
    );
    describe_histogram!(
        DRAW_DRAIN,
        Unit::Seconds,
        "How long a draw waited for the stream"
    );
    describe_counter!(DRAWS, "Draws committed, by path of the selection");
    describe_counter!(REDRAWS, "Redraws committed");
    describe_counter!(
        SEATS_REVOKED,
        "Seats whose win was revoked, by what became of them: filled or empty"
    );
    describe_counter!(
        DRAINS_CUT_SHORT,
        "Draws that stopped waiting for the stream: alarm"
    );
    // From zero on, so that the first one shows as an increase.
    counter!(DRAINS_CUT_SHORT).increment(0);
    describe_counter!(NOTIFICATIONS, "Result events published, by event");
    describe_counter!(
        SWEEPER_REPAIRS,
        "What the sweeper found undone and did, by task"
    );
    describe_counter!(
        ROWS_EXPIRED,
        "Rows removed at the end of their life, by table"
    );
}

fn describe_base() {
    describe_gauge!(
        OUTBOX_AGE,
        Unit::Seconds,
        "Age of the oldest outbox row that is not for the admin database; NaN while MySQL does not say"
    );
    describe_gauge!(
        ADMIN_COPY_AGE,
        Unit::Seconds,
        "Age of the oldest copy that the admin database has not taken; NaN while MySQL does not say"
    );
    describe_counter!(OUTBOX_DONE, "Outbox rows dealt with, by kind");
    describe_counter!(
        DEAD_LETTERED,
        "Messages that could not be handled, by queue"
    );
    describe_counter!(
        DB_RETRIES,
        "Transactions tried again after a deadlock or lock time-out"
    );
    describe_counter!(
        RECONNECTS,
        "Servers that were reached again after a failure"
    );
    describe_gauge!(DEPENDENCY_UP, "1 while a dependency answers, else 0");
}

/// Counts one answered request; `route` is the pattern, never the path.
pub fn http_request(route: &str, method: &'static str, status: u16, duration: Duration) {
    let route = route.to_owned();
    let status = status.to_string();
    counter!(HTTP_REQUESTS, "route" => route.clone(), "method" => method, "status" => status)
        .increment(1);
    histogram!(HTTP_DURATION, "route" => route, "method" => method).record(duration);
}

/// Counts one call whose token was not believed.
pub fn token_refused(reason: &'static str) {
    counter!(TOKENS_REFUSED, "reason" => reason).increment(1);
}

/// Counts one reading of a JWKS.
pub fn jwks_refreshed(source: &'static str, outcome: &'static str) {
    counter!(JWKS_REFRESHES, "source" => source, "outcome" => outcome).increment(1);
}

/// Sets how many usable keys a JWKS has.
#[expect(
    clippy::cast_precision_loss,
    reason = "a JWKS has far fewer than 2^52 keys"
)]
pub fn jwks_keys(source: &'static str, count: usize) {
    gauge!(JWKS_KEYS, "source" => source).set(count as f64);
}

/// Counts a call that was refused because its `user` or its `address` calls too often.
pub fn rate_limited(by: &'static str) {
    counter!(RATE_LIMITED, "by" => by).increment(1);
}

/// Counts one read of the cache `detail` or `winners`; `layer` had it: `memory`, `redis` or `mysql`.
pub fn cache_read(cache: &'static str, layer: &'static str) {
    counter!(CACHE_READS, "cache" => cache, "layer" => layer).increment(1);
}

/// Counts joins that were confirmed in time.
pub fn joins_accepted(count: u64) {
    counter!(JOINS_ACCEPTED).increment(count);
}

/// Counts joins that were turned away at the door.
pub fn joins_refused(reason: &'static str, count: u64) {
    counter!(JOINS_REFUSED, "reason" => reason).increment(count);
}

/// Counts joins that became joined, rejected or late, and those that were so before: `repeated`.
pub fn joins_settled(outcome: &'static str, count: u64) {
    counter!(JOINS_SETTLED, "outcome" => outcome).increment(count);
}

/// Records how many joins went into one message.
#[expect(
    clippy::cast_precision_loss,
    reason = "a batch has far fewer than 2^52 joins"
)]
pub fn join_batch(size: usize) {
    histogram!(JOIN_BATCH_SIZE).record(size as f64);
}

/// Sets how many joins wait for their message.
#[expect(
    clippy::cast_precision_loss,
    reason = "the queue holds far fewer than 2^52 joins"
)]
pub fn join_queue_length(length: usize) {
    gauge!(JOIN_QUEUE_LENGTH).set(length as f64);
}

/// Counts a message of the stream that was handled; the queue is named without the namespace.
pub fn stream_message(queue: String, kind: &'static str) {
    counter!(STREAM_MESSAGES, "queue" => queue, "kind" => kind).increment(1);
}

/// Counts what reached the stream after the freeze.
pub fn stream_late(count: u64) {
    counter!(STREAM_LATE).increment(count);
}

/// Counts batches that Redis did not take.
pub fn projections_skipped(count: u64) {
    counter!(PROJECTIONS_SKIPPED).increment(count);
}

/// Counts presence and task events that were not used.
pub fn events_dropped(reason: &'static str, count: u64) {
    counter!(EVENTS_DROPPED, "reason" => reason).increment(count);
}

/// Counts a call (`http`) or message (`amqp`) with events of a kind that was dealt with.
pub fn ingress_message(source: &'static str, kind: &'static str) {
    counter!(INGRESS_MESSAGES, "source" => source, "kind" => kind).increment(1);
}

/// Counts events that were put into the stream.
pub fn ingress_events(source: &'static str, kind: &'static str, count: u64) {
    counter!(INGRESS_EVENTS, "source" => source, "kind" => kind).increment(count);
}

/// Counts events that were not taken.
pub fn ingress_refused(source: &'static str, kind: &'static str, reason: &'static str, count: u64) {
    counter!(INGRESS_REFUSED, "source" => source, "kind" => kind, "reason" => reason)
        .increment(count);
}

/// Sets how old the events of the slowest ingress message of a kind are; zero when there is none.
pub fn ingress_age(kind: &'static str, age: Duration) {
    gauge!(INGRESS_AGE, "kind" => kind).set(age.as_secs_f64());
}

/// Counts statistics that were counted for a host.
pub fn stats_counted(path: &'static str) {
    counter!(STATS, "path" => path).increment(1);
}

/// Counts an export that ended; only a `complete` one was taken to its last row.
pub fn export_ended(kind: &'static str, outcome: &'static str) {
    counter!(EXPORTS, "kind" => kind, "outcome" => outcome).increment(1);
}

/// Records how long after drawAt a draw was committed.
pub fn draw_lateness(lateness: Duration) {
    histogram!(DRAW_LATENESS).record(lateness);
    if lateness > state::ON_TIME {
        state::draw_late();
    }
}

/// Counts a committed draw; `path` says how its winners were selected.
pub fn draw_committed(path: &'static str, duration: Duration) {
    counter!(DRAWS, "path" => path).increment(1);
    histogram!(DRAW_DURATION).record(duration);
}

/// Counts a committed redraw and what became of its seats.
pub fn redraw_committed(filled: u64, empty: u64) {
    counter!(REDRAWS).increment(1);
    counter!(SEATS_REVOKED, "outcome" => "filled").increment(filled);
    counter!(SEATS_REVOKED, "outcome" => "empty").increment(empty);
}

/// Counts a published proof, by how long it took.
pub fn proof_published(duration: Duration) {
    histogram!(PROOF_DURATION).record(duration);
}

/// Sets how many proofs should have been published by now; `None` when `MySQL` does not say.
#[expect(
    clippy::cast_precision_loss,
    reason = "there are far fewer than 2^52 activities"
)]
pub fn proofs_unpublished(count: Option<u64>) {
    gauge!(PROOFS_UNPUBLISHED).set(count.map_or(state::UNKNOWN, |count| count as f64));
}

/// Records how long a draw waited for the stream.
pub fn draw_drained(duration: Duration) {
    histogram!(DRAW_DRAIN).record(duration);
}

/// Counts a draw that stopped waiting for the stream.
pub fn drain_cut_short() {
    counter!(DRAINS_CUT_SHORT).increment(1);
}

/// Sets the age of the oldest event, draw message or projection that waits; zero when none does,
/// `None` when `MySQL` does not say.
pub fn outbox_age(age: Option<Duration>) {
    gauge!(OUTBOX_AGE).set(seconds_if_known(age));
}

/// Sets the age of the oldest copy that waits for the admin database; zero when none does, `None` when
/// `MySQL` does not say.
pub fn admin_copy_age(age: Option<Duration>) {
    gauge!(ADMIN_COPY_AGE).set(seconds_if_known(age));
}

fn seconds_if_known(age: Option<Duration>) -> f64 {
    age.map_or(state::UNKNOWN, |age| age.as_secs_f64())
}

/// Counts outbox rows that were dealt with.
pub fn outbox_done(kind: &'static str, count: u64) {
    counter!(OUTBOX_DONE, "kind" => kind).increment(count);
}

/// Counts published result events.
pub fn notifications_sent(event: &'static str, count: u64) {
    counter!(NOTIFICATIONS, "event" => event).increment(count);
}

/// Counts what the sweeper found undone and did.
pub fn sweeper_repaired(task: &'static str, count: u64) {
    counter!(SWEEPER_REPAIRS, "task" => task).increment(count);
}

/// Counts rows that were removed at the end of their life.
pub fn rows_expired(table: &'static str, count: u64) {
    counter!(ROWS_EXPIRED, "table" => table).increment(count);
}

/// Counts one message that could not be handled.
pub fn dead_lettered(queue: &str) {
    counter!(DEAD_LETTERED, "queue" => queue.to_owned()).increment(1);
}

/// Counts one transaction that is tried again.
pub fn db_retries() {
    counter!(DB_RETRIES).increment(1);
}

/// Counts one connection that was lost and opened again.
pub fn reconnected(server: &'static str) {
    counter!(RECONNECTS, "server" => server).increment(1);
}

/// Sets how many streams are open.
#[expect(
    clippy::cast_precision_loss,
    reason = "a process has far fewer than 2^52 streams"
)]
pub fn live_streams(count: usize) {
    gauge!(LIVE_STREAMS).set(count as f64);
}

/// Counts a stream that was not opened, by the limit that was reached.
pub fn live_refused(limit: &'static str) {
    counter!(LIVE_REFUSED, "limit" => limit).increment(1);
}

/// A dependency answers.
pub fn dependency_up(name: &'static str) {
    gauge!(DEPENDENCY_UP, "name" => name).set(1.0);
}

/// A dependency does not answer.
pub fn dependency_down(name: &'static str) {
    gauge!(DEPENDENCY_UP, "name" => name).set(0.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_on_the_page_with_its_meaning_and_buckets() {
        let page = MetricsPage::install().unwrap();
        MetricsPage::install().unwrap();

        draw_lateness(Duration::from_millis(80));
        joins_settled("joined", 3);

        let text = page.render();
        assert!(
            text.contains("# HELP luckybag_draw_lateness_seconds Time from drawAt"),
            "{text}"
        );
        assert!(
            text.contains(r#"luckybag_draw_lateness_seconds_bucket{le="0.1"}"#),
            "{text}"
        );
        assert!(
            text.contains(r#"luckybag_joins_settled_total{outcome="joined"} 3"#),
            "{text}"
        );
    }
}
