//! Two rooms, each with its host and its viewer, over all routes: nobody reads or changes what is of
//! the other room.

use luckybag::{
    http::Role,
    kernel::{ActivityId, RoomId, UserId},
};
use serde_json::{Value, json};

use super::{
    callers::Caller,
    routes::Places,
    table::{ROUTES, Route, Who},
};
use crate::harness::{Answer, Api, Bag, BagSpec, World, eventually};

/// One room with what happens in it.
struct Side {
    room: u64,
    host: u64,
    viewer: u64,
    drawn: Bag,
    open: Bag,
    draft: ActivityId,
}

fn spec(room: u64) -> BagSpec {
    BagSpec {
        room,
        winners: 1,
        extra: json!({ "cooldownSeconds": 0, "title": format!("Bag of room {room}") }),
        ..BagSpec::waiting()
    }
}

/// An open activity of the room that the viewer has joined.
async fn joined(api: &Api, room: u64, viewer: u64) -> Bag {
    let bag = api.open_bag(&spec(room)).await;
    api.join_all(&bag, [viewer]).await;
    let me = api.settled(&bag, viewer).await;
    assert_eq!(me["participation"], "joined", "{me}");
    bag
}

/// Waits for the proof, with which the activity changes for the last time.
async fn published(api: &Api, bag: &Bag) {
    eventually("the proof", async || {
        let detail = api.get(&api.operator(), &bag.path("")).await.expect(200);
        if detail["proofPublishedAt"].is_string() {
            Ok(())
        } else {
            Err(detail)
        }
    })
    .await;
}

impl Side {
    /// Two rooms, with the host and the viewer of each.
    async fn both(world: &World, api: &Api, people: [(u64, u64, u64); 2]) -> [Self; 2] {
        let mut drawn = Vec::new();
        for (room, _, viewer) in people {
            drawn.push(joined(api, room, viewer).await);
        }
        world.draw_soon(&drawn).await;
        let mut sides = Vec::new();
        for ((room, host, viewer), drawn) in people.into_iter().zip(drawn) {
            api.drawn(&drawn).await;
            published(api, &drawn).await;
            sides.push(Self {
                open: joined(api, room, viewer).await,
                draft: api.draft(&spec(room)).await,
                room,
                host,
                viewer,
                drawn,
            });
        }
        sides.try_into().unwrap_or_else(|_| unreachable!())
    }

    fn activities(&self) -> [ActivityId; 3] {
        [self.drawn.id, self.open.id, self.draft]
    }

    /// The host and the viewer, with a token each.
    fn people(&self, api: &Api) -> [(Caller, String); 2] {
        let rooms = [RoomId(self.room)];
        let host = api.token(UserId(self.host), Role::Host, &rooms);
        [
            (Caller::OtherHost, host),
            (Caller::Viewer, api.viewer(self.viewer)),
        ]
    }

    /// Everything that people of the room and operators see of its activities.
    async fn seen(&self, api: &Api) -> Vec<(String, Value)> {
        let (operator, viewer) = (api.operator(), api.viewer(self.viewer));
        let mut paths = vec![(&operator, format!("/v1/activities?roomId={}", self.room))];
        for id in self.activities() {
            for rest in ["", "/audit", "/winners"] {
                paths.push((&operator, format!("/v1/activities/{id}{rest}")));
            }
            for rest in ["/me", "/result"] {
                paths.push((&viewer, format!("/v1/activities/{id}{rest}")));
            }
        }
        let mut seen = Vec::new();
        for (token, path) in paths {
            let mut answer = api.get(token, &path).await;
            settle(&mut answer.body);
            seen.push((path, answer.body));
        }
        seen
    }
}

/// Leaves out what differs from one call to the next, and how many others joined.
fn settle(body: &mut Value) {
    match body {
        Value::Object(fields) => {
            for name in ["participants", "nextPollMs", "requestId", "serverTime"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(settle);
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reads_or_changes_what_is_of_another_room() {
    let world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let people = [
        (8101, 1_234_560_001, 1_234_560_101),
        (8202, 9_876_540_002, 9_876_540_202),
    ];
    let [here, there] = Side::both(&world, &api, people).await;

    for (own, other) in [(&here, &there), (&there, &here)] {
        let before = other.seen(&api).await;
        assert!(format!("{before:?}").contains(&other.viewer.to_string()));
        for person in own.people(&api) {
            for activity in other.activities() {
                try_every_route(&api, &person, other, activity, &before).await;
            }
        }
    }

    process.stop().await;
    world.end().await;
}

async fn try_every_route(
    api: &Api,
    (caller, token): &(Caller, String),
    other: &Side,
    activity: ActivityId,
    before: &[(String, Value)],
) {
    let places = Places {
        room: other.room,
        activity: activity.to_string(),
        prize: "1".to_owned(),
    };
    let authorization = format!("Bearer {token}");
    for route in ROUTES.iter().filter(|route| route.who != Who::Anyone) {
        let answer = route.call(api, &places, Some(&authorization)).await;

        let case = format!(
            "{} {} of {activity} by {caller:?}",
            route.method, route.path
        );
        check(route, *caller, &answer, other, &case);
        for (now, before) in other.seen(api).await.iter().zip(before) {
            assert_eq!(now, before, "{case}");
        }
    }
}

/// Refused, or without a word about the other room's people and what they have not shown.
fn check(route: &Route, caller: Caller, answer: &Answer, other: &Side, case: &str) {
    let status = answer.status.as_u16();
    let text = answer.body.to_string();
    if !route.who.includes(caller) || route.who == Who::RoomHost {
        assert!(matches!(status, 403 | 404), "{case}: {status} {text}");
    }
    // Everybody may check a result, and so learns who won it; of its own entry everybody learns alone.
    if route.path.ends_with("/proof") {
        return;
    }
    let own_lists = route.who == Who::AnyHost;
    let hidden = [other.viewer.to_string(), other.draft.to_string()]
        .into_iter()
        .chain(own_lists.then(|| other.open.id.to_string()));
    for value in hidden {
        assert!(!text.contains(&format!("\"{value}\"")), "{case}: {text}");
    }
}
