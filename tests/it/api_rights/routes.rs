//! Every route against every caller.

use std::collections::BTreeSet;

use reqwest::{Method, header::AUTHORIZATION};
use serde_json::{Value, json};

use super::{
    callers::{Caller, Issuer, ROOM, faulty_headers},
    table::{ROUTES, Route, Who},
};
use crate::harness::{Answer, Api, BagSpec, DOCUMENT, TempFile, World};

const LONG_AGO: &str = "2026-01-31T20:00:00Z";

/// The ids that stand in the paths and bodies under test.
pub(super) struct Places {
    pub(super) room: u64,
    pub(super) activity: String,
    pub(super) prize: String,
}

impl Route {
    pub(super) async fn call(
        &self,
        api: &Api,
        places: &Places,
        authorization: Option<&str>,
    ) -> Answer {
        let path = self
            .path
            .replace("{activityId}", &places.activity)
            .replace("{prizeId}", &places.prize)
            .replace("{userId}", "77")
            .replace("{winRecordId}", "7")
            .replace("{roomId}", &places.room.to_string())
            .replace("{file}", "index.css");
        let method = Method::from_bytes(self.method.as_bytes()).expect("a method");
        let mut request = api.http.request(method, format!("{}{path}", api.url));
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(body) = self.body(places) {
            request = request.json(&body);
        }
        api.send(request).await
    }

    /// The call without the answer's body, which whoever may have the body may make.
    fn head(&self) -> Option<Self> {
        let is_get = self.method == "GET";
        is_get.then_some(Self {
            method: "HEAD",
            ..*self
        })
    }

    fn body(&self, places: &Places) -> Option<Value> {
        let private = json!({ "name": "Mug", "kind": "physical", "quantity": 1 });
        match (self.method, self.path) {
            ("POST", "/v1/activities") => Some(json!({
                "roomId": places.room, "title": "Bag", "prizes": [private], "countdownSeconds": 300,
            })),
            ("POST", "/v1/prizes") => Some(json!({ "name": "Mug", "kind": "physical" })),
            ("POST", path) if path.ends_with("/reject") => Some(json!({ "reason": "no" })),
            ("POST", path) if path.ends_with("/import") => Some(json!({ "userIds": ["78"] })),
            ("POST", path) if path.ends_with("/redraws") => {
                Some(json!({ "winRecordIds": ["7"], "reason": "no" }))
            }
            ("POST", path) if path.ends_with("/fulfilment") => Some(json!({ "state": "claimed" })),
            ("POST", "/v1/events/presence") => Some(json!({ "events": [{
                "roomId": ROOM, "userId": 5, "kind": "leave", "occurredAt": LONG_AGO,
            }] })),
            ("POST", "/v1/events/tasks") => Some(json!({ "events": [{
                "activityId": places.activity, "userId": 5, "taskId": "follow",
                "completedAt": LONG_AGO,
            }] })),
            ("PATCH", _) => Some(json!({})),
            _ => None,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_those_who_may_call_it_and_nobody_else() {
    let world = World::new().await;
    let issuer = Issuer::new();
    let jwks = TempFile::new(&issuer.jwks());
    let changes = [
        ("SWEEPER__ENABLED", "false"),
        ("AUTH__JWKS_FILE", jwks.path()),
    ];
    let process = world.serve_with(&changes).await;
    let api = world.api(&process).await;
    let spec = BagSpec {
        room: ROOM,
        countdown_secs: 600,
        ..BagSpec::default()
    };
    let bag = api.open_bag(&spec).await;
    let draft = api.draft(&spec).await;
    let prize = json!({ "name": "Mug", "kind": "physical" });
    let prize = api.post(&api.operator(), "/v1/prizes", Some(prize)).await;
    let places = Places {
        room: ROOM,
        activity: bag.id.to_string(),
        prize: prize.expect(201)["id"].as_str().expect("an id").to_owned(),
    };

    let with_heads = |route: &Route| std::iter::once(*route).chain(route.head());
    for route in ROUTES.iter().flat_map(with_heads) {
        for caller in Caller::ALL {
            let authorization = caller
                .token(&api, &issuer)
                .map(|token| format!("Bearer {token}"));
            let answer = route.call(&api, &places, authorization.as_deref()).await;
            let case = format!("{} {} by {caller:?}", route.method, route.path);
            expect_right(&route, caller, answer, &case);
        }
    }
    check_faulty_headers(&api, &places, &issuer).await;
    check_other_room(&api, &issuer, &format!("/v1/activities/{draft}")).await;

    process.stop().await;
    world.end().await;
}

fn expect_right(route: &Route, caller: Caller, answer: Answer, case: &str) {
    let status = answer.status.as_u16();
    let has_body = route.method != "HEAD";
    if route.who.includes(caller) {
        assert!(route.statuses.contains(&status), "{case}: {}", answer.body);
    } else if caller.is_known() {
        assert_eq!(status, 403, "{case}: {}", answer.body);
        if has_body {
            answer.expect_problem(403, "forbidden");
        }
    } else {
        assert_eq!(status, 401, "{case}: {}", answer.body);
        assert_eq!(answer.header("www-authenticate"), "Bearer", "{case}");
        if has_body {
            answer.expect_problem(401, "unauthorized");
        }
    }
}

async fn check_faulty_headers(api: &Api, places: &Places, issuer: &Issuer) {
    let is_audit = |route: &&Route| route.path.ends_with("/audit");
    let route = ROUTES.iter().find(is_audit).expect("a route of operators");
    let as_secrets = issuer.public_keys_as_secrets();
    let as_secrets = as_secrets.iter().map(|token| format!("Bearer {token}"));
    for header in faulty_headers(api).into_iter().chain(as_secrets) {
        let answer = route.call(api, places, Some(&header)).await;
        answer.expect_problem(401, "unauthorized");
    }
}

/// A host neither lists nor makes what is in a room of somebody else, and a draft is no secret
/// told to viewers.
async fn check_other_room(api: &Api, issuer: &Issuer, draft: &str) {
    let other = Caller::OtherHost.token(api, issuer).expect("a token");
    let listed = api.get(&other, "/v1/activities").await.expect(200);
    assert_eq!(listed["items"], json!([]), "{listed}");
    let own = api
        .get(&api.host_of(ROOM), "/v1/activities")
        .await
        .expect(200);
    assert_ne!(own["items"], json!([]), "{own}");
    let path = format!("/v1/activities?roomId={ROOM}");
    let listed = api.get(&other, &path).await;
    listed.expect_problem(403, "forbidden");

    api.get(&api.host_of(ROOM), draft).await.expect(200);
    let submitted = api.post(&other, &format!("{draft}/submit"), None).await;
    submitted.expect_problem(404, "activity_not_found");
    for token in [api.viewer(5), other] {
        let shown = api.get(&token, draft).await;
        shown.expect_problem(404, "activity_not_found");
        for rest in ["/me", "/result", "/winners"] {
            let shown = api.get(&token, &format!("{draft}{rest}")).await;
            shown.expect_problem(404, "activity_not_found");
        }
        let joined = api.post(&token, &format!("{draft}/join"), None).await;
        joined.expect_problem(404, "activity_not_found");
    }
}

#[test]
fn the_table_of_rights_has_every_route_of_the_document() {
    let described: BTreeSet<String> = DOCUMENT
        .operations()
        .into_iter()
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();

    let in_table: BTreeSet<String> = ROUTES
        .iter()
        .map(|route| format!("{} {}", route.method, route.path))
        .collect();
    assert_eq!(in_table, described);
    assert_eq!(
        in_table.len(),
        ROUTES.len(),
        "a route stands in the table twice"
    );
}

#[test]
fn the_document_says_of_each_route_who_may_call_it() {
    for (method, path, operation) in DOCUMENT.operations() {
        let mut routes = ROUTES.iter();
        let route = routes
            .find(|route| route.method == method && route.path == path)
            .expect("a route");
        let callers = match route.who {
            Who::Anyone => "anybody; no token is needed",
            Who::Viewer => "anybody with a token",
            Who::AnyHost | Who::RoomHost => "`host` of the room, and `operator`",
            Who::Operator => "`operator`",
            Who::Service => "`service`",
        };
        let description = operation["description"].as_str().expect("text");
        assert!(
            description.ends_with(&format!("**Who:** {callers}.")),
            "{method} {path}: {description}"
        );
        let is_open = operation["security"] == json!([{}]);
        assert_eq!(is_open, route.who == Who::Anyone, "{method} {path}");
    }
}
