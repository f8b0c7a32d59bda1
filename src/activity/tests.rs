//! Tests of the pure parts.

use std::{collections::HashMap, time::Duration};

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{
    Activity, ActivityDetail, ActivityPrize, LibraryPrize, PresenceRule, PrizeKind, Seed, ShardBy,
    Status, Task, commitment,
    draft::{self, Circumstances, Draft, PrizeList},
    form::ActivityForm,
    rules::canonical_rules,
    rules_hash,
};
use crate::{
    http::FieldErrors,
    kernel::{ActivityId, PrizeId, RoomId, Timestamp, UserId, format_timestamp},
};

fn now() -> Timestamp {
    "2026-01-31T20:00:00.123Z".parse().unwrap()
}

fn seconds_from_now(seconds: i64) -> String {
    format_timestamp(now() + TimeDelta::seconds(seconds))
}

fn library() -> HashMap<PrizeId, LibraryPrize> {
    let mug = LibraryPrize {
        id: PrizeId(1),
        name: "Mug".to_owned(),
        kind: PrizeKind::Physical,
        image: Some("https://example.org/mug.png".to_owned()),
        value_cents: None,
        stock_total: Some(10),
        reserved: 0,
        issued: 0,
    };
    HashMap::from([(mug.id, mug)])
}

fn check(form: Value, base: Option<&Activity>) -> Result<Draft, FieldErrors> {
    let form: ActivityForm = serde_json::from_value(form).unwrap();
    draft::validate(
        &form,
        &Circumstances {
            base,
            library: &library(),
            default_cooldown: Duration::from_hours(3),
            now: now(),
        },
    )
}

fn good_form() -> Value {
    json!({
        "roomId": "8001", "title": "Friday bag 🎁",
        "prizes": [
            {"prizeId": "1", "quantity": 3},
            {"name": "Coupon", "kind": "virtual", "quantity": 20},
        ],
        "countdownSeconds": 300,
        "tasks": [{"taskId": "follow", "title": "Follow the host"}],
        "presenceRule": "pause",
    })
}

fn form_with(changes: &Value) -> Value {
    let mut form = good_form();
    for (name, value) in changes.as_object().unwrap() {
        form[name] = value.clone();
    }
    form
}

fn faulty_fields(form: Value) -> Vec<String> {
    let errors = check(form, None).unwrap_err();
    let fields = errors.faults().iter();
    fields.map(|fault| fault.field.clone()).collect()
}

/// What is shown of some activity.
pub(super) fn detail() -> ActivityDetail {
    an_activity().into()
}

pub(super) fn an_activity() -> Activity {
    Activity {
        id: ActivityId(7),
        room_id: RoomId(8001),
        host_id: UserId(5),
        title: "Friday bag".to_owned(),
        conditions: Some("Fans only".to_owned()),
        winner_count: 3,
        prizes: vec![ActivityPrize {
            rank: 1,
            prize_id: PrizeId(1),
            name: "Mug \"Ä\"\u{1f381}".to_owned(),
            kind: PrizeKind::Physical,
            image: None,
            quantity: 3,
        }],
        tasks: vec![Task {
            task_id: "follow".to_owned(),
            title: "Follow".to_owned(),
        }],
        presence_rule: PresenceRule::Pause,
        one_entry_per_device: true,
        shard_by: ShardBy::Mixed,
        cooldown: Duration::from_mins(1),
        trim_after: 700_000,
        trim_floor: 0.99,
        status: Status::Draft,
        countdown: Some(Duration::from_mins(5)),
        start_at: None,
        draw_at: None,
        drawn_at: None,
        status_reason: None,
        seed: None,
        commitment: None,
        rules: None,
        joined_count: None,
        eligible_count: None,
        cutoff_score: None,
        proof_published_at: None,
        participants_removed_at: None,
        wins_removed_at: None,
        round: 0,
        version: 1,
        created_at: now(),
    }
}

#[test]
fn a_good_form_becomes_a_draft_with_defaults() {
    let draft = check(good_form(), None).unwrap();

    assert_eq!(draft.room_id, RoomId(8001));
    assert_eq!(draft.winner_count, 23);
    assert_eq!(draft.countdown, Some(Duration::from_mins(5)));
    assert_eq!((draft.draw_at, draft.start_at), (None, None));
    assert_eq!(draft.presence_rule, PresenceRule::Pause);
    assert!(!draft.one_entry_per_device);
    assert_eq!(draft.shard_by, ShardBy::LowBits);
    assert_eq!(draft.cooldown, Duration::from_hours(3));
    let PrizeList::New(prizes) = draft.prizes else {
        panic!("a new draft has new prizes");
    };
    assert_eq!(
        (prizes[0].library_id, prizes[0].name.as_str()),
        (Some(PrizeId(1)), "Mug")
    );
    assert_eq!(
        (prizes[1].library_id, prizes[1].kind),
        (None, PrizeKind::Virtual)
    );
}

#[test]
fn every_faulty_field_is_named_at_once() {
    let fields = faulty_fields(json!({
        "roomId": "007", "title": "", "conditions": 3,
        "prizes": [
            {"prizeId": "99", "quantity": 1},
            {"prizeId": "1", "name": "Mug", "quantity": 0},
            {"kind": "gold", "quantity": 1001},
            {"name": "a", "kind": "virtual"},
        ],
        "countdownSeconds": 4,
        "startAt": seconds_from_now(0),
        "tasks": [{"taskId": "a b", "title": "x"}, {"taskId": "c"}],
        "presenceRule": "Pause", "oneEntryPerDevice": "yes", "shardBy": "high",
        "cooldownSeconds": -1,
    }));

    assert_eq!(
        fields,
        [
            "roomId",
            "title",
            "conditions",
            "prizes[0].prizeId",
            "prizes[1].quantity",
            "prizes[1].name",
            "prizes[2].quantity",
            "prizes[2].name",
            "prizes[2].kind",
            "prizes[3].quantity",
            "tasks[0].taskId",
            "tasks[1].title",
            "presenceRule",
            "oneEntryPerDevice",
            "shardBy",
            "cooldownSeconds",
            "countdownSeconds",
            "startAt",
        ]
    );
    assert_eq!(
        faulty_fields(json!({
            "roomId": "1", "titel": "x", "prizes": [[], {"quanity": 1}], "tasks": "follow",
            "countdownSeconds": 5,
        })),
        [
            "titel",
            "title",
            "prizes[0]",
            "prizes[1].quanity",
            "prizes[1].quantity",
            "prizes[1].name",
            "prizes[1].kind",
            "tasks",
        ]
    );
    assert_eq!(
        faulty_fields(json!({})),
        ["roomId", "title", "prizes", "countdownSeconds"]
    );
}

#[test]
fn a_title_is_one_line_of_1_to_100_characters() {
    let good = [
        "x",
        "福袋",
        &"🎁".repeat(100),
        "👩\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈",
        "حقيبة 7 \u{200f}الحظ",
        "می\u{200c}خواهم",
    ];
    for good in good {
        assert!(
            check(form_with(&json!({ "title": good })), None).is_ok(),
            "{good}"
        );
    }
    for (bad, fault) in [
        ("a\rb", "CR"),
        ("a\nb", "LF"),
        ("a\u{1b}[31m", "ESC"),
        ("a\u{85}", "U+0085"),
        ("a\u{2028}b", "U+2028"),
        ("a\u{202e}b\u{202c}", "U+202E"),
        ("a\u{2066}b\u{2069}", "U+2066"),
        ("  ", "empty"),
        ("\u{200b}\u{3164} \u{e0061}", "empty"),
        (&"🎁".repeat(101), "100"),
    ] {
        let errors = check(form_with(&json!({ "title": bad })), None).unwrap_err();
        assert!(errors.faults()[0].message.contains(fault), "{bad:?}");
    }
}

#[test]
fn prizes_are_bounded_in_kinds_and_in_number() {
    let prize = json!({"name": "a", "kind": "virtual", "quantity": 1000});
    let prizes = |count| form_with(&json!({ "prizes": vec![prize.clone(); count] }));

    assert_eq!(check(prizes(10), None).unwrap().winner_count, 10_000);
    assert_eq!(faulty_fields(prizes(11)), ["prizes"]);
    assert_eq!(faulty_fields(prizes(0)), ["prizes"]);
    assert_eq!(faulty_fields(prizes(101)), ["prizes"]);
    let twice = json!([{"prizeId": 1, "quantity": 1}, {"prizeId": "1", "quantity": 1}]);
    assert_eq!(
        faulty_fields(form_with(&json!({ "prizes": twice }))),
        ["prizes[1].prizeId"]
    );
}

#[test]
fn draw_at_stands_in_place_of_the_countdown_5_s_to_30_days_ahead() {
    let draw_at = |seconds| {
        let draw_at = seconds_from_now(seconds);
        form_with(&json!({ "countdownSeconds": null, "drawAt": draw_at }))
    };

    for good in [5, 25 * 86_400, 30 * 86_400] {
        let draft = check(draw_at(good), None).unwrap();
        assert_eq!(draft.draw_at, Some(now() + TimeDelta::seconds(good)));
        assert_eq!(draft.countdown, None);
    }
    for bad in [-1, 0, 4, 30 * 86_400 + 1] {
        assert_eq!(faulty_fields(draw_at(bad)), ["drawAt"]);
    }
    let both = form_with(&json!({ "drawAt": seconds_from_now(60) }));
    assert_eq!(faulty_fields(both), ["drawAt"]);
    let mut started_too_late = draw_at(60);
    started_too_late["startAt"] = json!(seconds_from_now(56));
    assert_eq!(faulty_fields(started_too_late), ["startAt"]);
}

#[test]
fn a_change_keeps_what_it_leaves_out_and_null_clears() {
    let activity = an_activity();

    let renamed = check(json!({ "title": "Sunday bag" }), Some(&activity)).unwrap();
    assert_eq!(renamed.title, "Sunday bag");
    assert_eq!(renamed.prizes, PrizeList::Unchanged);
    assert_eq!(renamed.winner_count, 3);
    assert_eq!(renamed.conditions, activity.conditions);
    assert_eq!(renamed.countdown, activity.countdown);
    assert!(renamed.one_entry_per_device);

    let draw_at = seconds_from_now(60);
    let change = json!({ "drawAt": draw_at, "conditions": null, "tasks": [] });
    let rescheduled = check(change, Some(&activity)).unwrap();
    assert_eq!(rescheduled.countdown, None);
    assert!(rescheduled.draw_at.is_some());
    assert_eq!(rescheduled.conditions, None);
    assert_eq!(rescheduled.tasks, []);

    let errors = check(json!({ "roomId": "1", "title": null }), Some(&activity)).unwrap_err();
    let fields: Vec<&str> = errors.faults().iter().map(|f| f.field.as_str()).collect();
    assert_eq!(fields, ["roomId", "title"]);
}

#[test]
fn rules_are_canonical_json() {
    let rules = canonical_rules(&an_activity(), now()).unwrap();

    assert_eq!(
        rules,
        "{\"activityId\":\"7\",\"cooldownSeconds\":60,\"drawAt\":\"2026-01-31T20:00:00.123Z\",\
         \"oneEntryPerDevice\":true,\"presenceRule\":\"pause\",\"prizes\":[{\"kind\":\"physical\",\
         \"name\":\"Mug \\\"Ä\\\"\u{1f381}\",\"prizeId\":\"1\",\"quantity\":3,\"rank\":1}],\
         \"roomId\":\"8001\",\"scoreRuleVersion\":1,\"shardBy\":\"mixed\",\
         \"tasks\":[{\"taskId\":\"follow\",\"title\":\"Follow\"}],\"winnerCount\":3}"
    );
    // Sorted keys without whitespace, which is also how a sorted map is written.
    let sorted: Value = serde_json::from_str(&rules).unwrap();
    assert_eq!(sorted.to_string(), rules);
}

/// Computed with Python's hashlib.
#[test]
fn the_commitment_is_the_published_hash() {
    let seed = Seed::new(std::array::from_fn(|i| u8::try_from(i).unwrap()));

    let commitment = commitment(ActivityId(7), &seed, &rules_hash("{}"));

    assert_eq!(
        hex::encode(commitment),
        "ba732b90f71454cc25b4fb31a599fd24e28e7bab1a2c5e828a2e4557744d5c4e"
    );
}

#[test]
fn a_detail_survives_redis_to_the_last_bit_and_never_holds_the_seed() {
    let mut activity = an_activity();
    activity.seed = Some(Seed::new([0xab; 32]));
    activity.commitment = Some([0x0c; 32]);
    activity.cutoff_score = Some(0.414_455_762_479_675_97);
    activity.draw_at = Some(now());
    let detail = ActivityDetail::from(activity);

    let text = serde_json::to_string(&detail).unwrap();
    let read: ActivityDetail = serde_json::from_str(&text).unwrap();

    assert_eq!(read, detail);
    assert!(!text.contains("abab"));
    let bits = |detail: &ActivityDetail| detail.cutoff_score.map(f64::to_bits);
    assert_eq!(bits(&read), bits(&detail));
}

#[test]
fn only_an_activity_past_its_review_is_public() {
    let detail_in = |status, commitment| {
        let mut activity = an_activity();
        activity.status = status;
        activity.commitment = commitment;
        ActivityDetail::from(activity)
    };
    for hidden in [Status::Draft, Status::InReview, Status::Rejected] {
        assert!(!detail_in(hidden, None).is_public());
    }
    assert!(!detail_in(Status::Cancelled, None).is_public());
    for shown in [
        Status::Open,
        Status::Drawing,
        Status::Drawn,
        Status::Cancelled,
    ] {
        assert!(detail_in(shown, Some([1; 32])).is_public());
    }
}
