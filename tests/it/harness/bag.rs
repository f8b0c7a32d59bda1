//! Opening activities and taking part in them.

use futures_util::{StreamExt, stream};
use luckybag::kernel::{ActivityId, Timestamp};
use serde_json::{Value, json};

use super::{Api, eventually};

/// What a test's activity is like; everything else is the service's default.
#[derive(Clone, Debug)]
pub(crate) struct BagSpec {
    pub(crate) room: u64,
    pub(crate) winners: u32,
    pub(crate) countdown_secs: u64,
    /// Fields of the create body that are not named above.
    pub(crate) extra: Value,
}

impl Default for BagSpec {
    fn default() -> Self {
        Self {
            room: 8001,
            winners: 3,
            countdown_secs: 5,
            extra: json!({}),
        }
    }
}

impl BagSpec {
    /// Not due in the time of a test, unless `World::draw_soon` makes it so: there is time for
    /// everything that has to come before the draw, however busy the machine is.
    pub(crate) fn waiting() -> Self {
        Self {
            countdown_secs: 3_600,
            ..Self::default()
        }
    }
}

/// An open activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bag {
    pub(crate) id: ActivityId,
    pub(crate) room: u64,
    pub(crate) draw_at: Timestamp,
}

impl Bag {
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/v1/activities/{}{rest}", self.id)
    }
}

impl Api {
    /// Creates a draft and answers its id.
    pub(crate) async fn draft(&self, spec: &BagSpec) -> ActivityId {
        let mut body = json!({
            "roomId": spec.room.to_string(),
            "title": "Friday bag",
            "prizes": [{ "name": "Coupon", "kind": "virtual", "quantity": spec.winners }],
            "countdownSeconds": spec.countdown_secs,
        });
        let fields = body.as_object_mut().expect("an object");
        for (name, value) in spec.extra.as_object().expect("extra fields") {
            if name == "drawAt" {
                fields.remove("countdownSeconds");
            }
            fields.insert(name.clone(), value.clone());
        }
        let draft = self
            .post(&self.host_of(spec.room), "/v1/activities", Some(body))
            .await;
        serde_json::from_value(draft.expect(201)["id"].clone()).expect("an id")
    }

    /// Opens an activity like `spec`.
    pub(crate) async fn open_bag(&self, spec: &BagSpec) -> Bag {
        let id = self.ready(spec).await;
        self.open(spec, id).await
    }

    /// Opens activities like `specs`, all at about the same moment.
    pub(crate) async fn open_bags(&self, specs: &[BagSpec]) -> Vec<Bag> {
        const AT_ONCE: usize = 8;
        let ready: Vec<ActivityId> = stream::iter(specs)
            .map(|spec| self.ready(spec))
            .buffered(AT_ONCE)
            .collect()
            .await;
        stream::iter(specs.iter().zip(ready))
            .map(|(spec, id)| self.open(spec, id))
            .buffered(AT_ONCE)
            .collect()
            .await
    }

    /// Creates an activity that can be opened.
    pub(crate) async fn ready(&self, spec: &BagSpec) -> ActivityId {
        let id = self.draft(spec).await;
        let host = self.host_of(spec.room);
        self.post(&host, &format!("/v1/activities/{id}/submit"), None)
            .await
            .expect(200);
        id
    }

    /// Opens one that is ready.
    pub(crate) async fn open(&self, spec: &BagSpec, id: ActivityId) -> Bag {
        let host = self.host_of(spec.room);
        let opened = self
            .post(&host, &format!("/v1/activities/{id}/open"), None)
            .await
            .expect(200);
        assert_eq!(opened["status"], "open", "{opened}");
        let draw_at = opened["drawAt"]
            .as_str()
            .expect("drawAt")
            .parse()
            .expect("a time");
        Bag {
            id,
            room: spec.room,
            draw_at,
        }
    }

    /// Joins with each user and expects 202.
    pub(crate) async fn join_all(&self, bag: &Bag, users: impl IntoIterator<Item = u64>) {
        let path = bag.path("/join");
        stream::iter(users)
            .for_each_concurrent(32, |user| {
                let path = &path;
                async move {
                    self.post(&self.viewer(user), path, None).await.expect(202);
                }
            })
            .await;
    }

    /// The answer of `/me` once the user's join has been settled.
    pub(crate) async fn settled(&self, bag: &Bag, user: u64) -> Value {
        let (token, path) = (self.viewer(user), bag.path("/me"));
        eventually("the join to be settled", async || {
            let me = self.get(&token, &path).await.expect(200);
            if ["none", "processing"]
                .iter()
                .any(|pending| me["participation"] == *pending)
            {
                Err(me)
            } else {
                Ok(me)
            }
        })
        .await
    }

    /// The activity's detail once it is drawn.
    pub(crate) async fn drawn(&self, bag: &Bag) -> Value {
        let (token, path) = (self.operator(), bag.path(""));
        eventually("the draw", async || {
            let detail = self.get(&token, &path).await.expect(200);
            if detail["status"] == "drawn" {
                Ok(detail)
            } else {
                Err(detail)
            }
        })
        .await
    }

    /// The user ids of the winners, by seat.
    pub(crate) async fn winners(&self, bag: &Bag) -> Vec<u64> {
        let path = bag.path("/winners?limit=200");
        let page = self.get(&self.operator(), &path).await.expect(200);
        let winners = page["items"].as_array().expect("a list");
        let user_id = |winner: &Value| winner["userId"].as_str().expect("a user id").parse();
        winners
            .iter()
            .map(|winner| user_id(winner).expect("a number"))
            .collect()
    }
}
