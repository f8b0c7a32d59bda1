//! How the calls about rooms, activities and prizes are described.

use actix_web::http::StatusCode;
use serde_json::{Value, json};

use super::{
    super::{AuditRecord, LibraryPrize},
    activities::RoomActivities,
    problem::{
        ACTIVITY_NOT_FOUND, CONFLICT, DRAW_TOO_SOON, ILLEGAL_TRANSITION, PRIZE_NOT_FOUND,
        ROOM_BUSY, STOCK_SHORT,
    },
    schemas::{NewActivity, NewLibraryPrize},
    view::ActivityView,
};
use crate::http::{KnownProblem, Operation, Tag};

const UNAVAILABLE: KnownProblem = KnownProblem::UNAVAILABLE;

/// What a draft looks like.
fn draft() -> Value {
    json!({
        "id": "7265187412320780288",
        "status": "draft",
        "roomId": "8001",
        "hostId": "2",
        "title": "Friday bag",
        "prizes": [
            { "rank": 1, "prizeId": "1", "name": "Headphones", "kind": "physical", "quantity": 3 },
            {
                "rank": 2, "prizeId": "7265187412320780289", "name": "Coupon", "kind": "virtual",
                "quantity": 20,
            },
        ],
        "winnerCount": 23,
        "tasks": [{ "taskId": "follow", "title": "Follow the host" }],
        "presenceRule": "pause",
        "oneEntryPerDevice": false,
        "cooldownSeconds": 10800,
        "countdownSeconds": 300,
        "startAt": null,
        "drawAt": null,
        "drawnAt": null,
        "serverTime": "2026-01-31T19:54:00.000Z",
        "commitment": null,
        "rules": null,
        "round": 0,
        "version": 1,
        "createdAt": "2026-01-31T19:54:00.000Z",
    })
}

/// The same after `changes` of its status.
fn in_status(status: &str, changes: u32) -> Value {
    let mut activity = draft();
    activity["status"] = status.into();
    activity["version"] = (1 + changes).into();
    activity
}

/// The same when it has ended so, and why.
fn ended(status: &str, changes: u32, reason: &str) -> Value {
    let mut activity = in_status(status, changes);
    activity["statusReason"] = reason.into();
    activity
}

/// The same when it has just been opened.
fn open_activity() -> Value {
    let mut activity = in_status("open", 3);
    activity["startAt"] = "2026-01-31T19:55:00.000Z".into();
    activity["drawAt"] = "2026-01-31T20:00:00.000Z".into();
    activity["serverTime"] = "2026-01-31T19:55:00.000Z".into();
    activity["commitment"] =
        "8a54fe9e0c5755e93308a5d3e6350589e7f6ea88e815b2c9b39e63554ef9dcbb".into();
    activity["rules"] = json!({
        "activityId": "7265187412320780288",
        "cooldownSeconds": 10800,
        "drawAt": "2026-01-31T20:00:00.000Z",
        "oneEntryPerDevice": false,
        "presenceRule": "pause",
        "prizes": [
            { "kind": "physical", "name": "Headphones", "prizeId": "1", "quantity": 3, "rank": 1 },
            {
                "kind": "virtual", "name": "Coupon", "prizeId": "7265187412320780289",
                "quantity": 20, "rank": 2,
            },
        ],
        "roomId": "8001",
        "scoreRuleVersion": 1,
        "shardBy": "mixed",
        "tasks": [{ "taskId": "follow", "title": "Follow the host" }],
        "winnerCount": 23,
    });
    activity
}

/// The same a while later.
fn running_activity() -> Value {
    let mut activity = open_activity();
    activity["serverTime"] = "2026-01-31T19:58:00.000Z".into();
    activity["participants"] = 1204.into();
    activity
}

fn prize() -> Value {
    json!({
        "id": "1", "name": "Headphones", "kind": "physical", "image": null, "valueCents": 4900,
        "stockTotal": 50, "reserved": 3, "issued": 12,
    })
}

pub(super) fn of_room() -> Operation {
    Operation::new(
        Tag::Activities,
        "listRoomActivities",
        "Lists the open activities of a room",
    )
    .answer::<RoomActivities<'_>>(
        StatusCode::OK,
        "The activities that are open.",
        json!({ "items": [running_activity()] }),
    )
    .problems(&[UNAVAILABLE])
}

pub(super) fn list() -> Operation {
    Operation::new(
        Tag::Activities,
        "listActivities",
        "Lists activities in every state",
    )
    .description("The newest first. A host sees those of its own rooms.")
    .answer_page::<ActivityView<'_>>(
        "A page of activities.",
        json!({ "items": [draft()], "nextCursor": "223732363531383734313233323037383032383822" }),
    )
    .problems(&[UNAVAILABLE])
}

pub(super) fn create() -> Operation {
    Operation::new(Tag::Activities, "createActivity", "Creates a draft")
        .body_of::<NewActivity>(json!({
            "roomId": "8001",
            "title": "Friday bag",
            "prizes": [
                { "prizeId": "1", "quantity": 3 },
                { "name": "Coupon", "kind": "virtual", "quantity": 20 },
            ],
            "countdownSeconds": 300,
            "tasks": [{ "taskId": "follow", "title": "Follow the host" }],
            "presenceRule": "pause",
            "oneEntryPerDevice": false,
        }))
        .answer::<ActivityView<'_>>(StatusCode::CREATED, "The draft.", draft())
        .located()
        .problems(&[UNAVAILABLE])
}

pub(super) fn show() -> Operation {
    Operation::new(Tag::Activities, "getActivity", "Shows an activity")
        .description(
            "What was never opened shows itself only to those who run the room; what is ready is \
             announced to all.",
        )
        .answer::<ActivityView<'_>>(StatusCode::OK, "The activity.", running_activity())
        .problems(&[ACTIVITY_NOT_FOUND, UNAVAILABLE])
}

/// A change of an activity that answers with the activity.
fn change(
    id: &'static str,
    summary: &'static str,
    description: &'static str,
    after: Value,
) -> Operation {
    Operation::new(Tag::Activities, id, summary)
        .description(description)
        .answer::<ActivityView<'_>>(StatusCode::OK, "The activity as it is now.", after)
        .problems(&[
            ACTIVITY_NOT_FOUND,
            ILLEGAL_TRANSITION,
            CONFLICT,
            UNAVAILABLE,
        ])
}

pub(super) fn update() -> Operation {
    let mut after = in_status("draft", 1);
    after["title"] = "Saturday bag".into();
    after["countdownSeconds"] = 600.into();
    change(
        "updateActivity",
        "Changes a draft",
        "The room cannot be changed.",
        after,
    )
    .body(json!({ "title": "Saturday bag", "countdownSeconds": 600 }))
}

pub(super) fn submit() -> Operation {
    change(
        "submitActivity",
        "Sends a draft to review",
        "",
        in_status("in_review", 1),
    )
    .body(json!({}))
}

pub(super) fn approve() -> Operation {
    change(
        "approveActivity",
        "Approves an activity in review",
        "It is ready then, and opens by itself when it has a `startAt`.",
        in_status("ready", 2),
    )
    .body(json!({}))
}

pub(super) fn reject() -> Operation {
    change(
        "rejectActivity",
        "Rejects an activity in review",
        "This is final.",
        ended("rejected", 2, "the title names another brand"),
    )
    .body(json!({ "reason": "the title names another brand" }))
}

pub(super) fn open() -> Operation {
    change(
        "openActivity",
        "Opens an activity that is ready",
        "Reserves the stock, commits to a seed and publishes the commitment; from now on viewers can \
         join until `drawAt`.",
        open_activity(),
    )
    .body(json!({}))
    .problems(&[ROOM_BUSY, STOCK_SHORT, DRAW_TOO_SOON])
}

pub(super) fn cancel() -> Operation {
    change(
        "cancelActivity",
        "Cancels an activity",
        "While `drawAt` has not come. Frees the stock.",
        ended("cancelled", 3, "the stream ended early"),
    )
    .body(json!({ "reason": "the stream ended early" }))
}

pub(super) fn events() -> Operation {
    Operation::new(
        Tag::Activities,
        "followActivity",
        "Tells what happens in an activity until it is over, as server-sent events",
    )
    .description(
        "The state comes at once, then what changes: `status`, `participants` (at most twice a second), \
         `drawn` (the draw and each redraw), and `end` last of all. HEAD tells whether there would be a \
         stream. `docs/integration.md` says what the events hold.",
    )
    .header(
        "Last-Event-ID",
        "The `id` of the last event that was heard; what it says is not told again.",
        "7265187412320780288.4.0.1372",
    )
    .answer_text(
        StatusCode::OK,
        "text/event-stream",
        "The events, one after another.",
        "retry: 2417\nevent: participants\nid: 7265187412320780288.4.0.1372\ndata: {\"count\":1372}\n\n",
    )
    .answer_empty(
        StatusCode::NO_CONTENT,
        "The activity is over and all of it was heard: do not come again.",
    )
    .problems(&[
        ACTIVITY_NOT_FOUND,
        UNAVAILABLE,
        KnownProblem::unavailable(
            "too_many_streams",
            "This process has no place for another stream",
        ),
        KnownProblem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_own_streams",
            "This user has too many streams open",
        )
        .passing(),
    ])
}

pub(super) fn audit() -> Operation {
    Operation::new(
        Tag::Activities,
        "listAudit",
        "Lists who did what to an activity",
    )
    .description("The oldest first.")
    .answer_page::<AuditRecord>(
        "A page of records.",
        json!({ "items": [{
            "actor": "user:2",
            "action": "activity.create",
            "requestId": "01981f0a-6d8f-7c53-9f0e-2f6f6a3d9c11",
            "at": "2026-01-31T19:54:00.000Z",
        }]}),
    )
    .problems(&[ACTIVITY_NOT_FOUND, UNAVAILABLE])
}

pub(super) fn list_prizes() -> Operation {
    Operation::new(Tag::Prizes, "listPrizes", "Lists the prize library")
        .description("The newest first.")
        .answer_page::<LibraryPrize>("A page of prizes.", json!({ "items": [prize()] }))
        .problems(&[UNAVAILABLE])
}

pub(super) fn create_prize() -> Operation {
    Operation::new(Tag::Prizes, "createPrize", "Adds a prize to the library")
        .body_of::<NewLibraryPrize>(json!({
            "name": "Headphones", "kind": "physical", "valueCents": 4900, "stockTotal": 50,
        }))
        .answer::<LibraryPrize>(StatusCode::CREATED, "The prize.", prize())
        .problems(&[UNAVAILABLE])
}

pub(super) fn update_prize() -> Operation {
    Operation::new(Tag::Prizes, "updatePrize", "Changes a prize of the library")
        .description("Activities that are open keep what they were opened with.")
        .body(json!({ "stockTotal": 80 }))
        .answer::<LibraryPrize>(StatusCode::OK, "The prize as it is now.", prize())
        .problems(&[PRIZE_NOT_FOUND, UNAVAILABLE])
}
