//! Every route of the service, and who may call it.

use super::callers::Caller;

/// Who gets more than 401 or 403 from a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Whoever reaches the port.
    Anyone,
    /// Anybody with a token.
    Viewer,
    /// A host of whatever room, and operators.
    AnyHost,
    /// The host of the room in question, and operators.
    RoomHost,
    Operator,
    /// Another system.
    Service,
}

impl Who {
    pub(super) fn includes(self, caller: Caller) -> bool {
        let caller = caller.by_secret();
        match self {
            Self::Anyone => true,
            Self::Viewer => caller.is_known(),
            Self::AnyHost => {
                matches!(caller, Caller::OtherHost | Caller::Host | Caller::Operator)
            }
            Self::RoomHost => matches!(caller, Caller::Host | Caller::Operator),
            Self::Operator => caller == Caller::Operator,
            Self::Service => caller == Caller::Service,
        }
    }
}

/// One route, and what it answers those who may call it about an open activity of the room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) who: Who,
    pub(super) statuses: &'static [u16],
}

const fn route(
    method: &'static str,
    path: &'static str,
    who: Who,
    statuses: &'static [u16],
) -> Route {
    Route {
        method,
        path,
        who,
        statuses,
    }
}

/// In the order in which the test calls them: the activity is cancelled last.
pub(super) const ROUTES: &[Route] = &[
    route("GET", "/healthz", Who::Anyone, &[200]),
    route("GET", "/readyz", Who::Anyone, &[200]),
    route("GET", "/metrics", Who::Anyone, &[200]),
    route("GET", "/openapi.json", Who::Anyone, &[200]),
    route("GET", "/docs", Who::Anyone, &[200]),
    route("GET", "/docs/{file}", Who::Anyone, &[200]),
    route("GET", "/v1/rooms/{roomId}/activities", Who::Viewer, &[200]),
    route("GET", "/v1/activities/{activityId}", Who::Viewer, &[200]),
    route(
        "POST",
        "/v1/activities/{activityId}/join",
        Who::Viewer,
        &[202],
    ),
    route("GET", "/v1/activities/{activityId}/me", Who::Viewer, &[200]),
    route(
        "GET",
        "/v1/activities/{activityId}/result",
        Who::Viewer,
        &[200],
    ),
    route(
        "GET",
        "/v1/activities/{activityId}/events",
        Who::Viewer,
        &[200],
    ),
    route(
        "GET",
        "/v1/activities/{activityId}/winners",
        Who::Viewer,
        &[200],
    ),
    route(
        "GET",
        "/v1/activities/{activityId}/proof",
        Who::Viewer,
        &[409],
    ),
    route(
        "GET",
        "/v1/activities/{activityId}/proof/me",
        Who::Viewer,
        &[409],
    ),
    route("POST", "/v1/events/presence", Who::Service, &[202]),
    route("POST", "/v1/events/tasks", Who::Service, &[202]),
    route(
        "GET",
        "/v1/activities/{activityId}/stats",
        Who::RoomHost,
        &[200],
    ),
    route("GET", "/v1/activities", Who::AnyHost, &[200]),
    route("POST", "/v1/activities", Who::RoomHost, &[201]),
    route(
        "PATCH",
        "/v1/activities/{activityId}",
        Who::RoomHost,
        &[409],
    ),
    route(
        "POST",
        "/v1/activities/{activityId}/submit",
        Who::RoomHost,
        &[409],
    ),
    route(
        "POST",
        "/v1/activities/{activityId}/approve",
        Who::Operator,
        &[409],
    ),
    route(
        "POST",
        "/v1/activities/{activityId}/reject",
        Who::Operator,
        &[409],
    ),
    route(
        "POST",
        "/v1/activities/{activityId}/open",
        Who::RoomHost,
        &[409],
    ),
    route(
        "POST",
        "/v1/activities/{activityId}/draw",
        Who::Operator,
        &[409],
    ),
    route(
        "GET",
        "/v1/activities/{activityId}/audit",
        Who::Operator,
        &[200],
    ),
    route("GET", "/v1/deny-list", Who::Operator, &[200]),
    route("POST", "/v1/deny-list/import", Who::Operator, &[200]),
    route("PUT", "/v1/deny-list/{userId}", Who::Operator, &[200]),
    route("DELETE", "/v1/deny-list/{userId}", Who::Operator, &[204]),
    route(
        "GET",
        "/v1/activities/{activityId}/deny-list",
        Who::RoomHost,
        &[200],
    ),
    route(
        "POST",
        "/v1/activities/{activityId}/deny-list/import",
        Who::RoomHost,
        &[200],
    ),
    route(
        "PUT",
        "/v1/activities/{activityId}/deny-list/{userId}",
        Who::RoomHost,
        &[200],
    ),
    route(
        "DELETE",
        "/v1/activities/{activityId}/deny-list/{userId}",
        Who::RoomHost,
        &[204],
    ),
    route(
        "POST",
        "/v1/activities/{activityId}/redraws",
        Who::Operator,
        &[409],
    ),
    route(
        "POST",
        "/v1/win-records/{winRecordId}/fulfilment",
        Who::Service,
        &[404],
    ),
    route("GET", "/v1/prizes", Who::Operator, &[200]),
    route("POST", "/v1/prizes", Who::Operator, &[201]),
    route("PATCH", "/v1/prizes/{prizeId}", Who::Operator, &[200]),
    route(
        "POST",
        "/v1/activities/{activityId}/cancel",
        Who::RoomHost,
        &[200, 409],
    ),
];
