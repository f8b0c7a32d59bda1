//! The tables: one wrong value a line, and the field that the answer has to name.

use std::time::Duration;

use luckybag::kernel::{Clock, SystemClock, Timestamp, format_timestamp};
use serde_json::{Value, json};

/// A body with one fault, and where it is.
pub(super) type Fault = (Value, &'static str);

/// What an id must not be, as text and as a number.
pub(super) fn bad_ids() -> Vec<Value> {
    vec![
        json!("0"),
        json!("-1"),
        json!("007"),
        json!("+7"),
        json!("7 "),
        json!("0x10"),
        json!("1e3"),
        json!(""),
        json!("abc"),
        json!("٧"),
        json!("9223372036854775808"),
        json!("18446744073709551616"),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(9_223_372_036_854_775_808_u64),
        json!(18_446_744_073_709_551_616_f64),
        json!(true),
        json!([1]),
        json!({ "id": 1 }),
    ]
}

/// What one line of text with at most `longest` characters must not be.
fn bad_lines(longest: usize) -> Vec<Value> {
    vec![
        json!(""),
        json!(" \u{2003} "),
        json!("x".repeat(longest + 1)),
        json!("🎁".repeat(longest + 1)),
        json!("carriage\rreturn"),
        json!("line\nfeed"),
        json!("escape\u{1b}[31m"),
        json!("nothing\0"),
        json!("bell\u{7}"),
        json!("next\u{85}line"),
        json!("line\u{2028}separator"),
        json!("\u{202e}turned round\u{202c}"),
        json!("\u{2067}set apart\u{2069}"),
        json!("\u{200b}\u{feff}\u{3164}\u{ad}"),
        json!(5),
        json!(false),
        json!(["x"]),
        json!({ "text": "x" }),
    ]
}

/// What a whole number within bounds must not be.
fn bad_numbers(too_small: i64, too_large: u64) -> Vec<Value> {
    vec![
        json!(too_small),
        json!(too_large),
        json!(u64::MAX),
        json!(1e300),
        json!(7.5),
        json!("7"),
        json!(true),
        json!([7]),
    ]
}

/// What one of a few words must not be.
fn bad_words(almost: &str) -> Vec<Value> {
    vec![
        json!(almost),
        json!(""),
        json!("x".repeat(5_000)),
        json!(5),
        json!([almost]),
    ]
}

fn bad_times() -> Vec<Value> {
    vec![
        json!("tomorrow"),
        json!(""),
        json!("2036-01-31"),
        json!("2036-02-30T20:00:00Z"),
        json!("2036-01-31T20:00:00"),
        json!("+262142-12-31T23:59:59Z"),
        json!(2_085_000_000),
        json!([]),
    ]
}

fn from_now(seconds: u64) -> Timestamp {
    SystemClock.now() + Duration::from_secs(seconds)
}

fn before_now(seconds: u64) -> Timestamp {
    SystemClock.now() - Duration::from_secs(seconds)
}

fn times(times: impl IntoIterator<Item = Timestamp>) -> Vec<Value> {
    times
        .into_iter()
        .map(|at| json!(format_timestamp(at)))
        .collect()
}

/// Each value in the place of `field`.
fn each(field: &'static str, values: Vec<Value>) -> Vec<Fault> {
    let with = |value| (json!({ field: value }), field);
    values.into_iter().map(with).collect()
}

const DAY: u64 = 86_400;

/// Faults of a draft that a change of one has too.
pub(super) fn of_drafts() -> Vec<Fault> {
    [
        each("roomId", bad_ids()),
        each("title", bad_lines(100)),
        each(
            "conditions",
            vec![
                json!(""),
                json!("x".repeat(2_001)),
                json!("\u{1b}"),
                json!(5),
            ],
        ),
        each("presenceRule", bad_words("Pause")),
        each(
            "oneEntryPerDevice",
            vec![json!("true"), json!(1), json!([])],
        ),
        each("shardBy", bad_words("low_bits")),
        each("cooldownSeconds", bad_numbers(-1, 30 * DAY + 1)),
        each("countdownSeconds", bad_numbers(4, 30 * DAY + 1)),
        each("countdownSeconds", vec![json!(0), json!(-300)]),
        each("startAt", bad_times()),
        each("startAt", times([before_now(1), from_now(366 * DAY)])),
        each("bogus", vec![json!(1), Value::Null]),
        each("roomid", vec![json!("8001")]),
        each("userId", vec![json!("5")]),
        each("hostId", vec![json!("5")]),
        each("status", vec![json!("ready")]),
        each("winnerCount", vec![json!(5)]),
        of_prizes(),
        of_tasks(),
        of_draw_times(),
    ]
    .concat()
}

/// Faults that only a new draft has: what must be there.
pub(super) fn of_new_drafts() -> Vec<Fault> {
    ["roomId", "title", "prizes", "countdownSeconds"]
        .map(|field| (json!({ field: null }), field))
        .to_vec()
}

fn of_draw_times() -> Vec<Fault> {
    let draw_at = |at| (json!({ "countdownSeconds": null, "drawAt": at }), "drawAt");
    let outside = times([
        before_now(60),
        before_now(0),
        from_now(3),
        from_now(30 * DAY + 600),
    ]);
    let mut faults: Vec<Fault> = bad_times()
        .into_iter()
        .chain(outside)
        .map(draw_at)
        .collect();
    let (near, far) = (
        format_timestamp(from_now(600)),
        format_timestamp(from_now(604)),
    );
    faults.push((json!({ "countdownSeconds": 300, "drawAt": near }), "drawAt"));
    faults.push((
        json!({ "countdownSeconds": null, "startAt": near, "drawAt": far }),
        "startAt",
    ));
    faults
}

fn of_prizes() -> Vec<Fault> {
    let private = json!({ "name": "Mug", "kind": "physical", "quantity": 1 });
    let thousand = json!({ "name": "Coupon", "kind": "virtual", "quantity": 1_000 });
    let mut faults = each(
        "prizes",
        vec![
            json!(5),
            json!("mug"),
            json!({ "0": private }),
            json!([]),
            json!(vec![private.clone(); 101]),
            json!(vec![thousand; 11]),
        ],
    );
    let mut of_second = |field: &'static str, name: &str, values: Vec<Value>| {
        for value in values {
            let mut prize = private.clone();
            prize[name] = value;
            faults.push((json!({ "prizes": [private, prize] }), field));
        }
    };
    let absent = || vec![Value::Null];
    of_second("prizes[1].quantity", "quantity", bad_numbers(0, 1_001));
    of_second("prizes[1].quantity", "quantity", absent());
    of_second("prizes[1].name", "name", bad_lines(100));
    of_second("prizes[1].name", "name", absent());
    of_second("prizes[1].kind", "kind", bad_words("Physical"));
    of_second("prizes[1].kind", "kind", absent());
    of_second("prizes[1].image", "image", bad_lines(500));
    of_second("prizes[1].bogus", "bogus", vec![json!(1), Value::Null]);
    for item in [json!(5), json!("mug"), json!([]), Value::Null] {
        faults.push((json!({ "prizes": [private, item] }), "prizes[1]"));
    }
    let mut ids = bad_ids();
    // Proper ids that no prize of the library has.
    ids.extend([json!("5"), json!(i64::MAX)]);
    for id in ids {
        let prize = json!({ "prizeId": id, "quantity": 1 });
        faults.push((json!({ "prizes": [private, prize] }), "prizes[1].prizeId"));
    }
    faults
}

fn of_tasks() -> Vec<Fault> {
    let task = json!({ "taskId": "follow", "title": "Follow" });
    let numbered = |number| json!({ "taskId": format!("task-{number}"), "title": "Follow" });
    let many: Vec<Value> = (0..21).map(numbered).collect();
    let mut faults = each(
        "tasks",
        vec![json!(5), json!("follow"), json!({}), json!(many)],
    );
    let mut of_second = |field: &'static str, name: &str, values: Vec<Value>| {
        for value in values {
            let mut other = json!({ "taskId": "share", "title": "Share" });
            other[name] = value;
            faults.push((json!({ "tasks": [task, other] }), field));
        }
    };
    let ids = ["", "a b", "é", "a/b", "a\n", "follow", &"x".repeat(65)].map(|id| json!(id));
    of_second("tasks[1].taskId", "taskId", ids.to_vec());
    of_second(
        "tasks[1].taskId",
        "taskId",
        vec![json!(5), Value::Null, json!([])],
    );
    of_second("tasks[1].title", "title", bad_lines(100));
    of_second("tasks[1].title", "title", vec![Value::Null]);
    of_second("tasks[1].bogus", "bogus", vec![json!(1)]);
    for item in [json!(5), json!("follow"), json!([]), Value::Null] {
        faults.push((json!({ "tasks": [task, item] }), "tasks[1]"));
    }
    faults
}

/// Faults of a prize of the library, and of its changes.
pub(super) fn of_library_prizes() -> Vec<Fault> {
    let beyond_javascript = 1 << 53;
    [
        each("name", bad_lines(100)),
        each("kind", bad_words("Virtual")),
        each("image", bad_lines(500)),
        each("valueCents", bad_numbers(-1, beyond_javascript)),
        each("stockTotal", bad_numbers(-1, beyond_javascript)),
        each("reserved", vec![json!(0)]),
        each("issued", vec![json!(0)]),
        each("id", vec![json!("5")]),
        each("name", vec![Value::Null]),
        each("kind", vec![Value::Null]),
    ]
    .concat()
}

/// Faults of a reason for a cancellation, and of one for a rejection.
pub(super) fn of_reasons() -> Vec<Fault> {
    [
        each("reason", bad_lines(255)),
        each("bogus", vec![json!(1)]),
        each("Reason", vec![json!("late")]),
    ]
    .concat()
}

/// Faults of a join of an activity whose only task is `follow`.
pub(super) fn of_joins() -> Vec<Fault> {
    let devices = ["", " a", "a ", "a\n", "é", &"x".repeat(65)].map(|id| json!(id));
    [
        each("deviceId", devices.to_vec()),
        each("deviceId", vec![json!(5), json!(["a"])]),
        each(
            "completedTasks",
            vec![json!(5), json!("follow"), Value::Null],
        ),
        each("completedTasks", vec![json!(vec!["follow"; 21])]),
        vec![
            (
                json!({ "completedTasks": ["follow", 5] }),
                "completedTasks[1]",
            ),
            (
                json!({ "completedTasks": ["follow", "share"] }),
                "completedTasks[1]",
            ),
            (json!({ "completedTasks": [""] }), "completedTasks[0]"),
        ],
        each("userId", vec![json!("5"), json!(5)]),
        each("activityId", vec![json!("5")]),
        each("acceptedAt", vec![json!("2026-01-31T20:00:00.000Z")]),
        each("bogus", vec![Value::Null]),
    ]
    .concat()
}

/// Faults of a presence event.
pub(super) fn of_presence_events() -> Vec<Fault> {
    let ahead = times([from_now(90), from_now(DAY)]);
    [
        each("roomId", bad_ids()),
        each("userId", bad_ids()),
        each("kind", bad_words("Enter")),
        each("occurredAt", bad_times()),
        each("occurredAt", ahead),
        each(
            "occurredAt",
            vec![json!("0999-12-31T23:59:59Z"), Value::Null],
        ),
        each("completedAt", vec![json!("2026-01-31T20:00:00Z")]),
        each("activityId", vec![json!("5")]),
        each("bogus", vec![Value::Null]),
    ]
    .concat()
}

/// Faults of a task event.
pub(super) fn of_task_events() -> Vec<Fault> {
    let tasks = ["", " ", "a b", "follow\n", "任务", &"x".repeat(65)].map(|id| json!(id));
    [
        each("activityId", bad_ids()),
        each("userId", bad_ids()),
        each("taskId", tasks.to_vec()),
        each("taskId", vec![json!(5), json!(["follow"]), Value::Null]),
        each("completedAt", bad_times()),
        each("completedAt", times([from_now(90)])),
        each("kind", vec![json!("enter")]),
    ]
    .concat()
}
