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
    list: Call,
    import: Call,
    put: Call,
    delete: Call,
    problems: &'static [KnownProblem],
    /// Besides, of those that put somebody on the list.
    refusals: &'static [KnownProblem],
}

/// Its id and what it does.
struct Call(&'static str, &'static str);

/// The list of the platform.
pub(super) const PLATFORM: Lists = Lists {
    list: Call("listDenied", "Lists who may not take part anywhere"),
    import: Call("importDenied", "Puts many users on the deny list"),
    put: Call("denyUser", "Puts a user on the deny list"),
    delete: Call("allowUser", "Takes a user off the deny list"),
    problems: &[KnownProblem::UNAVAILABLE],
    refusals: &[],
};

/// The list of one activity.
pub(super) const ACTIVITY: Lists = Lists {
    list: Call(
        "listDeniedInActivity",
        "Lists who may not take part in an activity",
    ),
    import: Call(
        "importDeniedInActivity",
        "Puts many users on an activity's deny list",
    ),
    put: Call(
        "denyUserInActivity",
        "Puts a user on an activity's deny list",
    ),
    delete: Call(
        "allowUserInActivity",
        "Takes a user off an activity's deny list",
    ),
    problems: &[KnownProblem::UNAVAILABLE, ACTIVITY_NOT_FOUND],
    refusals: &[CLOSED],
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
    fn operation(&self, Call(id, summary): &Call) -> Operation {
        Operation::new(Tag::DenyLists, id, summary).problems(self.problems)
    }

    fn change(&self, call: &Call) -> Operation {
        self.operation(call)
            .description("It counts for joins that have no verdict yet; what was decided stays.")
    }

    pub(super) fn list(&self) -> Operation {
        self.operation(&self.list)
            .answer_page::<DenyEntry>("A page of users, by id.", json!({ "items": [entry()] }))
    }

    pub(super) fn import(&self) -> Operation {
        self.change(&self.import)
            .problems(self.refusals)
            .body(json!({ "userIds": ["1234567890", "1234567891"], "reason": "multiple accounts" }))
            .answer::<Imported>(
                StatusCode::OK,
                "How many are new on the list.",
                json!({ "added": 1, "alreadyListed": 1 }),
            )
    }

    pub(super) fn put(&self) -> Operation {
        self.change(&self.put)
            .problems(self.refusals)
            .body(json!({ "reason": "multiple accounts" }))
            .answer::<DenyEntry>(StatusCode::OK, "The user as listed.", entry())
    }

    pub(super) fn delete(&self) -> Operation {
        self.change(&self.delete)
            .answer_empty(StatusCode::NO_CONTENT, "The user is not on the list.")
    }
}
