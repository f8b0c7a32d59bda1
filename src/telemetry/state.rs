//! Metrics of how things stand: what timers look at, and what needs somebody to act.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

const BUILD_INFO: &str = "luckybag_build_info";
const QUEUE_MESSAGES: &str = "luckybag_queue_messages";
const STREAM_LAG: &str = "luckybag_stream_lag_seconds";
const MESSAGES_HELD: &str = "luckybag_messages_held";
const POOL_DRIFT: &str = "luckybag_pool_drift_shards";
const OUTBOX_ROWS: &str = "luckybag_outbox_rows";
const DRAWS_OVERDUE: &str = "luckybag_draws_overdue";
const DRAWS_LATE: &str = "luckybag_draws_late_total";
const DRAWS_FAILED: &str = "luckybag_draws_failed_total";
const DRAW_LEASES_LOST: &str = "luckybag_draw_leases_lost_total";
const RESULTS_WRONG: &str = "luckybag_results_wrong";
const STOCK_WRONG: &str = "luckybag_stock_wrong_prizes";
const SWEEPER_RUNS: &str = "luckybag_sweeper_runs_total";
const MYSQL_TURNS_IN_USE: &str = "luckybag_mysql_turns_in_use";
const MYSQL_TURNS_WAITING: &str = "luckybag_mysql_turns_waiting";
const MYSQL_TURNS_REFUSED: &str = "luckybag_mysql_turns_refused_total";
const MYSQL_CONNECTIONS: &str = "luckybag_mysql_connections";
const DB_CLOCK_UNCERTAINTY: &str = "luckybag_db_clock_uncertainty_seconds";
const SPANS_EXPORTED: &str = "luckybag_spans_exported_total";

/// A draw committed this long after drawAt is on time.
pub(super) const ON_TIME: Duration = Duration::from_secs(1);

/// Describes them, and tells which version this is.
pub(super) fn describe() {
    describe_gauge!(BUILD_INFO, "1, with the version of this process");
    gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    describe_messages();
    describe_draws();
    describe_mysql();
    // From zero on, so that the first one shows as an increase.
    for alarming in [
        DRAWS_LATE,
        DRAWS_FAILED,
        DRAW_LEASES_LOST,
        MYSQL_TURNS_REFUSED,
    ] {
        counter!(alarming).increment(0);
    }
    describe_counter!(
        SWEEPER_RUNS,
        "Runs of the sweeper's steps, by task and outcome: done or failed"
    );
    describe_counter!(
        SPANS_EXPORTED,
        "Spans for the collector of traces, by outcome: taken, or lost because it did not take them or too many waited"
    );
}

fn describe_messages() {
    describe_gauge!(
        QUEUE_MESSAGES,
        "Messages that wait in each queue, without those in a consumer's hands; NaN while RabbitMQ does not say"
    );
    describe_gauge!(
        STREAM_LAG,
        Unit::Seconds,
        "Age of the oldest accepted join in the hands of a partition's consumer without a verdict: alarm"
    );
    describe_gauge!(
        MESSAGES_HELD,
        "Runs of messages that are held because a server is away, by what they are: alarm"
    );
    describe_gauge!(
        OUTBOX_ROWS,
        "Outbox rows that wait, by kind; of more than 10,000 only so many are counted; NaN while MySQL does not say"
    );
}

fn describe_draws() {
    describe_gauge!(
        POOL_DRIFT,
        "Shards of open activities that Redis had less of than MySQL, at the last look; NaN while one of them does not say"
    );
    describe_gauge!(
        DRAWS_OVERDUE,
        "Activities more than 30 s past drawAt and not drawn, 20 at most; NaN while MySQL does not say: alarm"
    );
    describe_counter!(
        DRAWS_LATE,
        "Draws committed more than a second after drawAt"
    );
    describe_counter!(
        DRAWS_FAILED,
        "Attempts to draw that failed and are repeated"
    );
    describe_counter!(
        DRAW_LEASES_LOST,
        "Draws that were given up because their lease was lost"
    );
    describe_gauge!(
        RESULTS_WRONG,
        "Draws of the last 10 minutes with another number of wins than of seats that could be filled; NaN while MySQL does not say: alarm"
    );
    describe_gauge!(
        STOCK_WRONG,
        "Prizes whose stock does not add up, 20 at most; NaN while MySQL does not say: alarm"
    );
}

fn describe_mysql() {
    describe_gauge!(
        MYSQL_TURNS_IN_USE,
        "Callers of the API that read or change MySQL now"
    );
    describe_gauge!(
        MYSQL_TURNS_WAITING,
        "Callers of the API that wait for their turn at MySQL"
    );
    describe_counter!(
        MYSQL_TURNS_REFUSED,
        "Callers of the API whose turn at MySQL did not come in time"
    );
    describe_gauge!(
        MYSQL_CONNECTIONS,
        "Connections to MySQL, by state: used or idle"
    );
    describe_gauge!(
        DB_CLOCK_UNCERTAINTY,
        Unit::Seconds,
        "How far the database's clock may be from what this process believes; above 1 s joins are refused"
    );
}

#[expect(
    clippy::cast_precision_loss,
    reason = "none of what is counted here comes near 2^52"
)]
const fn as_value(count: u64) -> f64 {
    count as f64
}

/// What a gauge says while nobody knows: in Prometheus that is neither more nor less than anything.
pub(super) const UNKNOWN: f64 = f64::NAN;

fn as_value_if_known(count: Option<usize>) -> f64 {
    count.map_or(UNKNOWN, |count| as_value(count as u64))
}

/// Sets how many messages wait in a queue of ours, named without the namespace; `None` when the
/// broker does not say.
pub fn queue_messages(queue: String, count: Option<u64>) {
    gauge!(QUEUE_MESSAGES, "queue" => queue).set(count.map_or(UNKNOWN, as_value));
}

/// Sets the age of the oldest join without a verdict in the hands of a consumer; zero when it has none.
pub fn stream_lag(partition: u16, lag: Duration) {
    gauge!(STREAM_LAG, "partition" => partition.to_string()).set(lag.as_secs_f64());
}

/// Messages are held while this lives: a server is away.
#[derive(Debug)]
pub struct Held(&'static str);

impl Held {
    /// `what` is held from now on.
    pub fn begin(what: &'static str) -> Self {
        gauge!(MESSAGES_HELD, "what" => what).increment(1.0);
        Self(what)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        gauge!(MESSAGES_HELD, "what" => self.0).decrement(1.0);
    }
}

/// Sets in how many shards of open activities something is missing; `None` when nobody knows.
pub fn pool_drift(shards: Option<usize>) {
    gauge!(POOL_DRIFT).set(as_value_if_known(shards));
}

/// Sets how many outbox rows of a kind wait; `None` when `MySQL` does not say.
pub fn outbox_rows(kind: &'static str, count: Option<u64>) {
    gauge!(OUTBOX_ROWS, "kind" => kind).set(count.map_or(UNKNOWN, as_value));
}

/// Sets how many activities should have been drawn long ago; `None` when `MySQL` does not say.
pub fn draws_overdue(count: Option<usize>) {
    gauge!(DRAWS_OVERDUE).set(as_value_if_known(count));
}

/// Counts a draw that was not on time.
pub fn draw_late() {
    counter!(DRAWS_LATE).increment(1);
}

/// Counts an attempt to draw that failed.
pub fn draw_failed() {
    counter!(DRAWS_FAILED).increment(1);
}

/// Counts a draw that was given up because its lease was lost.
pub fn draw_lease_lost() {
    counter!(DRAW_LEASES_LOST).increment(1);
}

/// Sets of how many recent draws the winners do not add up; `None` when `MySQL` does not say.
pub fn results_wrong(count: Option<usize>) {
    gauge!(RESULTS_WRONG).set(as_value_if_known(count));
}

/// Sets of how many prizes the stock does not add up; `None` when `MySQL` does not say.
pub fn stock_wrong(count: Option<usize>) {
    gauge!(STOCK_WRONG).set(as_value_if_known(count));
}

/// Counts a run of one of the sweeper's steps.
pub fn sweeper_ran(task: &'static str, outcome: &'static str) {
    counter!(SWEEPER_RUNS, "task" => task, "outcome" => outcome).increment(1);
}

/// Sets how many callers are at MySQL, in turn.
pub fn mysql_turns_in_use(count: usize) {
    gauge!(MYSQL_TURNS_IN_USE).set(as_value(count as u64));
}

/// A caller waits for a turn at MySQL while this lives.
#[derive(Debug)]
pub struct WaitingForTurn(());

impl WaitingForTurn {
    /// The wait begins.
    pub fn begin() -> Self {
        gauge!(MYSQL_TURNS_WAITING).increment(1.0);
        Self(())
    }

    /// Counts a turn that did not come in time.
    pub fn refused() {
        counter!(MYSQL_TURNS_REFUSED).increment(1);
    }
}

impl Drop for WaitingForTurn {
    fn drop(&mut self) {
        gauge!(MYSQL_TURNS_WAITING).decrement(1.0);
    }
}

/// Sets how many connections to MySQL are used and idle.
pub fn mysql_connections(used: u64, idle: u64) {
    gauge!(MYSQL_CONNECTIONS, "state" => "used").set(as_value(used));
    gauge!(MYSQL_CONNECTIONS, "state" => "idle").set(as_value(idle));
}

/// Sets how far the database's clock may be from what this process believes.
pub fn db_clock_uncertainty(uncertainty: Duration) {
    gauge!(DB_CLOCK_UNCERTAINTY).set(uncertainty.as_secs_f64());
}

/// Counts spans that the collector has `taken`, or that are `lost` because it did not or too many waited.
pub fn spans_exported(outcome: &'static str, count: u64) {
    counter!(SPANS_EXPORTED, "outcome" => outcome).increment(count);
}
