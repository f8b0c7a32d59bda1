//! Whatever callers send is answered with what is wrong about it, and never with a 500.

mod bodies;
mod faults;
mod fields;
mod ids;
mod urls;

use serde_json::{Value, json};

use crate::harness::{Process, World};

/// A process that does nothing but answer.
async fn serve(world: &World) -> Process {
    world.serve_with(&[("SWEEPER__ENABLED", "false")]).await
}

/// The body of a draft in room 8001.
fn good_draft() -> Value {
    json!({
        "roomId": "8001",
        "title": "Friday bag",
        "conditions": "Fans only",
        "prizes": [
            { "name": "Mug", "kind": "physical", "quantity": 3, "image": "https://example.org/mug" },
            { "name": "Coupon", "kind": "virtual", "quantity": 20 },
        ],
        "countdownSeconds": 300,
        "tasks": [{ "taskId": "follow", "title": "Follow the host" }],
        "presenceRule": "pause",
        "oneEntryPerDevice": false,
        "shardBy": "lowBits",
        "cooldownSeconds": 60,
    })
}

/// The same with other fields; those that are null are left out.
fn draft_with(changes: &Value) -> Value {
    let mut draft = good_draft();
    let fields = draft.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        if value.is_null() {
            fields.remove(name);
        } else {
            fields.insert(name.clone(), value.clone());
        }
    }
    draft
}
