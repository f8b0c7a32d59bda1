//! How the calls about deny lists are described.

use actix_web::http::StatusCode;
use serde_json::{Value, json};

use super::{DenyEntry, Imported};
use crate::{
    activity::ACTIVITY_NOT_FOUND,
    http::{KnownProblem, Operation, Tag},
};

/// One of the two kinds of lists.
pub(super) struct Lists {
    ids: [&'static str; 4],
    summaries: [&'static str; 4],
    problems: &'static [KnownProblem],
}

/// The list of the platform.
pub(super) const PLATFORM: Lists = Lists {
    ids: ["listDenied", "importDenied", "denyUser", "allowUser"],
    summaries: [
        "Lists who may not take part anywhere",
        "Puts many users on the deny list",
        "Puts a user on the deny list",
        "Takes a user off the deny list",
    ],
    problems: &[KnownProblem::UNAVAILABLE],
};

/// The list of one activity.
pub(super) const ACTIVITY: Lists = Lists {
    ids: [
        "listDeniedInActivity",
        "importDeniedInActivity",
        "denyUserInActivity",
        "allowUserInActivity",
    ],
    summaries: [
        "Lists who may not take part in an activity",
        "Puts many users on an activity's deny list",
        "Puts a user on an activity's deny list",
        "Takes a user off an activity's deny list",
    ],
    problems: &[KnownProblem::UNAVAILABLE, ACTIVITY_NOT_FOUND],
};

/// The list decides about joins, and there are none any more.
const CLOSED: KnownProblem =
    KnownProblem::conflict("activity_closed", "The activity takes no more joins");

fn entry() -> Value {
    json!({
        "userId": "1234567890", "reason": "multiple accounts", "createdBy": "1",
        "createdAt": "2026-01-31T19:54:00.000Z",
    })
}

impl Lists {
    fn operation(&self, index: usize) -> Operation {
        let id = self.ids.get(index).copied().unwrap_or_default();
        let summary = self.summaries.get(index).copied().unwrap_or_default();
        Operation::new(Tag::DenyLists, id, summary).problems(self.problems)
    }

    fn change(&self, index: usize) -> Operation {
        let is_of_activity = self.problems.contains(&ACTIVITY_NOT_FOUND);
        let closed: &[KnownProblem] = if is_of_activity { &[CLOSED] } else { &[] };
        self.operation(index)
            .description("It counts for joins that have no verdict yet; what was decided stays.")
            .problems(closed)
    }

    pub(super) fn list(&self) -> Operation {
        self.operation(0)
            .answer_page::<DenyEntry>("A page of users, by id.", json!({ "items": [entry()] }))
    }

    pub(super) fn import(&self) -> Operation {
        self.change(1)
            .body(json!({ "userIds": ["1234567890", "1234567891"], "reason": "multiple accounts" }))
            .answer::<Imported>(
                StatusCode::OK,
                "How many are new on the list.",
                json!({ "added": 1, "alreadyListed": 1 }),
            )
    }

    pub(super) fn put(&self) -> Operation {
        self.change(2)
            .body(json!({ "reason": "multiple accounts" }))
            .answer::<DenyEntry>(StatusCode::OK, "The user as listed.", entry())
    }

    pub(super) fn delete(&self) -> Operation {
        self.change(3)
            .answer_empty(StatusCode::NO_CONTENT, "The user is not on the list.")
    }
}
