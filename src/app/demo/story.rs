//! What the demo plays.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use chrono::DateTime;
use futures_util::{StreamExt, stream};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{EverySecond, client::Client, tell};
use crate::{
    app::AppError,
    http::Role,
    kernel::{RoomId, UserId},
};

const ROOM: RoomId = RoomId(8001);
const HOST: UserId = UserId(42);
const OPERATOR: UserId = UserId(1);
const FIRST_VIEWER: u64 = 1_000_000;
const VIEWER_COUNT: u64 = 3_000;
const REPEATED_COUNT: u64 = 300;
const LATE_COUNT: u64 = 50;
const COUNTDOWN_SECS: u64 = 15;
/// Requests on their way at once.
const CONCURRENCY: usize = 64;
const POLL: Duration = Duration::from_millis(100);
/// A join is settled, and a due bag drawn, long before this.
const PATIENCE: Duration = Duration::from_mins(1);

/// One giveaway from its draft to its winners.
pub(super) struct Story {
    client: Client,
}

impl Story {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) async fn tell(&self) -> Result<(), AppError> {
        let host = self.client.token(HOST, Role::Host, &[ROOM])?;
        let operator = self.client.token(OPERATOR, Role::Operator, &[])?;

        let bag = self.open_a_bag(&host, &operator).await?;
        self.join_all(&bag).await?;
        self.watch_the_count(&bag, &host).await?;
        self.wait_for_the_draw(&bag, &host).await?;
        self.join_too_late(&bag).await?;
        self.ask_for_results(&bag).await?;
        self.show_the_winners(&bag, &operator).await
    }

    async fn open_a_bag(&self, host: &str, operator: &str) -> Result<String, AppError> {
        let draft = json!({
            "roomId": ROOM,
            "title": "Friday bag",
            "prizes": [
                { "name": "Headphones", "kind": "physical", "quantity": 1 },
                { "name": "Coupon", "kind": "virtual", "quantity": 9 },
            ],
            "countdownSeconds": COUNTDOWN_SECS,
        });
        let answer = self
            .client
            .post(host, "/v1/activities", Some(draft))
            .await?;
        let activity = answer.expect(StatusCode::CREATED, "creating the bag")?;
        let bag = text(&activity, "id")?;
        for (token, action) in [(host, "submit"), (operator, "approve"), (host, "open")] {
            let path = format!("/v1/activities/{bag}/{action}");
            let answer = self.client.post(token, &path, None).await?;
            let activity = answer.expect(StatusCode::OK, action)?;
            tell(format!("  {action:<8} -> {}", text(&activity, "status")?))?;
        }
        tell(format!(
            "  host {HOST} opened bag {bag} in room {ROOM}: 10 prizes, draw in {COUNTDOWN_SECS} s"
        ))?;
        Ok(bag)
    }

    async fn join_all(&self, bag: &str) -> Result<(), AppError> {
        let repeated = FIRST_VIEWER..FIRST_VIEWER + REPEATED_COUNT;
        let everybody = (FIRST_VIEWER..FIRST_VIEWER + VIEWER_COUNT).chain(repeated);
        let started = Instant::now();
        let answers = self.join(bag, everybody).await?;
        tell(format!(
            "  {VIEWER_COUNT} viewers joined, {REPEATED_COUNT} of them twice, in {:.1} s: {}",
            started.elapsed().as_secs_f64(),
            describe(&answers)
        ))
    }

    /// Joins with each of the viewers and counts the answers.
    async fn join(
        &self,
        bag: &str,
        viewers: impl Iterator<Item = u64>,
    ) -> Result<BTreeMap<String, u64>, AppError> {
        let path = format!("/v1/activities/{bag}/join");
        let mut joins = stream::iter(viewers)
            .map(|viewer| {
                let path = &path;
                async move {
                    let token = self.client.token(UserId(viewer), Role::Viewer, &[])?;
                    self.client.post(&token, path, None).await
                }
            })
            .buffer_unordered(CONCURRENCY);
        let mut answers = BTreeMap::new();
        let mut every_second = EverySecond::new();
        while let Some(answer) = joins.next().await {
            let answer = answer?;
            let code = answer.body["code"]
                .as_str()
                .or(answer.body["status"].as_str());
            let name = format!("{} {}", answer.status.as_u16(), code.unwrap_or_default());
            *answers.entry(name).or_insert(0) += 1;
            if every_second.is_due() {
                tell(format!("    … {}", describe(&answers)))?;
            }
        }
        Ok(answers)
    }

    /// Until everybody who was accepted has also been counted, once.
    async fn watch_the_count(&self, bag: &str, host: &str) -> Result<(), AppError> {
        let started = Instant::now();
        let mut every_second = EverySecond::new();
        loop {
            let participants = self.detail(bag, host).await?["participants"]
                .as_u64()
                .unwrap_or(0);
            if participants == VIEWER_COUNT {
                return tell(format!("  {participants} participants, each counted once"));
            }
            if participants > VIEWER_COUNT || started.elapsed() > PATIENCE {
                return Err(AppError::Demo(format!(
                    "{participants} participants, {VIEWER_COUNT} joined"
                )));
            }
            if every_second.is_due() {
                tell(format!("    … {participants} participants"))?;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn wait_for_the_draw(&self, bag: &str, host: &str) -> Result<(), AppError> {
        let started = Instant::now();
        let mut every_second = EverySecond::new();
        loop {
            let detail = self.detail(bag, host).await?;
            if text(&detail, "status")? == "drawn" {
                let lateness = moment(&detail, "drawnAt")? - moment(&detail, "drawAt")?;
                return tell(format!(
                    "  drawn {} ms after the announced second",
                    lateness.num_milliseconds()
                ));
            }
            if started.elapsed() > PATIENCE {
                return Err(AppError::Demo(format!(
                    "the bag is still {}",
                    detail["status"]
                )));
            }
            if every_second.is_due() {
                let left = moment(&detail, "drawAt")? - moment(&detail, "serverTime")?;
                tell(format!("    … draw in {} s", left.num_seconds().max(0)))?;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn join_too_late(&self, bag: &str) -> Result<(), AppError> {
        let first = FIRST_VIEWER + VIEWER_COUNT;
        let answers = self.join(bag, first..first + LATE_COUNT).await?;
        tell(format!(
            "  {LATE_COUNT} viewers came too late: {}",
            describe(&answers)
        ))
    }

    /// Everybody asks for the result.
    async fn ask_for_results(&self, bag: &str) -> Result<(), AppError> {
        let path = format!("/v1/activities/{bag}/result");
        let mut asking = stream::iter(FIRST_VIEWER..FIRST_VIEWER + VIEWER_COUNT)
            .map(|viewer| {
                let path = &path;
                async move {
                    let token = self.client.token(UserId(viewer), Role::Viewer, &[])?;
                    self.client.get(&token, path).await
                }
            })
            .buffer_unordered(CONCURRENCY);
        let mut results: BTreeMap<String, u64> = BTreeMap::new();
        while let Some(answer) = asking.next().await {
            let result = answer?.expect(StatusCode::OK, "asking for the result")?;
            *results.entry(text(&result, "result")?).or_insert(0) += 1;
        }
        tell(format!(
            "  {VIEWER_COUNT} viewers asked for their result: {}",
            describe(&results)
        ))?;
        if results.get("won") == Some(&10) && results.len() == 2 {
            return Ok(());
        }
        Err(AppError::Demo(
            "10 viewers should have won, the others not".to_owned(),
        ))
    }

    async fn show_the_winners(&self, bag: &str, operator: &str) -> Result<(), AppError> {
        let path = format!("/v1/activities/{bag}/winners");
        let answer = self.client.get(operator, &path).await?;
        let page = answer.expect(StatusCode::OK, "asking for the winners")?;
        tell("  the winners:")?;
        for winner in page["items"].as_array().into_iter().flatten() {
            tell(format!(
                "    seat {:>2}  viewer {}  {}  (score {})",
                winner["seat"],
                text(winner, "userId")?,
                text(&winner["prize"], "name")?,
                winner["score"]
            ))?;
        }
        tell(format!("  {}{path}", self.client.url()))
    }

    async fn detail(&self, bag: &str, token: &str) -> Result<Value, AppError> {
        let answer = self
            .client
            .get(token, &format!("/v1/activities/{bag}"))
            .await?;
        answer.expect(StatusCode::OK, "reading the bag")
    }
}

fn describe(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<_> = counts
        .iter()
        .map(|(name, count)| format!("{count} × {name}"))
        .collect();
    parts.join(", ")
}

fn text(value: &Value, field: &str) -> Result<String, AppError> {
    value[field]
        .as_str()
        .map(ToOwned::to_owned)
        .ok_or_else(|| AppError::Demo(format!("{field} is missing in {value}")))
}

fn moment(value: &Value, field: &str) -> Result<chrono::DateTime<chrono::FixedOffset>, AppError> {
    let text = text(value, field)?;
    DateTime::parse_from_rfc3339(&text).map_err(|_| AppError::Demo(format!("{text} is not a time")))
}
