//! What the demo plays.

use std::{
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use chrono::DateTime;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{EverySecond, client::Client, crowd::Crowd, tell};
use crate::{
    app::AppError,
    http::Role,
    kernel::{RoomId, UserId},
};

const ROOM: RoomId = RoomId(8001);
const HOST: UserId = UserId(42);
const OPERATOR: UserId = UserId(1);
pub(super) const PRIZE_COUNT: u64 = 10;
const COUNTDOWN_SECS: u64 = 15;
const POLL: Duration = Duration::from_millis(100);
/// A join is settled, and a due bag drawn, long before this.
const PATIENCE: Duration = Duration::from_mins(1);

/// One giveaway from its draft to its winners.
pub(super) struct Story {
    client: Client,
    crowd: Crowd,
}

impl Story {
    pub(super) fn new(client: Client) -> Self {
        Self {
            crowd: Crowd::new(client.clone()),
            client,
        }
    }

    pub(super) async fn tell(&self) -> Result<(), AppError> {
        let host = self.client.token(HOST, Role::Host, &[ROOM])?;
        let operator = self.client.token(OPERATOR, Role::Operator, &[])?;

        let bag = self.open_a_bag(&host, &operator).await?;
        let expected = self.crowd.join_all(&bag).await?;
        self.watch_the_count(&bag, &host, &expected).await?;
        self.wait_for_the_draw(&bag, &host).await?;
        self.crowd.join_too_late(&bag).await?;
        self.crowd.ask_for_results(&bag).await?;
        self.show_the_winners(&bag, &operator).await
    }

    async fn open_a_bag(&self, host: &str, operator: &str) -> Result<String, AppError> {
        let draft = json!({
            "roomId": ROOM,
            "title": "Friday bag",
            "prizes": [
                { "name": "Headphones", "kind": "physical", "quantity": 1 },
                { "name": "Coupon", "kind": "virtual", "quantity": PRIZE_COUNT - 1 },
            ],
            "countdownSeconds": COUNTDOWN_SECS,
        });
        let answer = self
            .client
            .post(host, "/v1/activities", Some(draft))
            .await?;
        let activity = answer.expect(StatusCode::CREATED, "creating the bag")?;
        let bag = text(&activity, "id")?;
        tell(format!(
            "  host {HOST} drafts bag {bag} for room {ROOM}: 1 × Headphones, {} × Coupon",
            PRIZE_COUNT - 1
        ))?;
        let mut status = self.step(&bag, host, "submit", "host submits it").await?;
        if status == "in_review" {
            let told = "operator approves it";
            status = self.step(&bag, operator, "approve", told).await?;
        }
        if status == "ready" {
            self.step(&bag, host, "open", "host opens it").await?;
        }
        tell(format!("  the draw is in {COUNTDOWN_SECS} s"))?;
        Ok(bag)
    }

    /// Moves the bag on and answers its new status.
    async fn step(
        &self,
        bag: &str,
        token: &str,
        action: &str,
        told: &str,
    ) -> Result<String, AppError> {
        let path = format!("/v1/activities/{bag}/{action}");
        let answer = self.client.post(token, &path, None).await?;
        let status = text(&answer.expect(StatusCode::OK, action)?, "status")?;
        tell(format!("  {told}: {}", status.replace('_', " ")))?;
        Ok(status)
    }

    /// Until everybody who was accepted has also been counted, once.
    async fn watch_the_count(
        &self,
        bag: &str,
        host: &str,
        expected: &RangeInclusive<usize>,
    ) -> Result<(), AppError> {
        let started = Instant::now();
        let mut every_second = EverySecond::new();
        loop {
            let shown = &self.detail(bag, host).await?["participants"];
            let participants = shown.as_u64().and_then(|count| usize::try_from(count).ok());
            if participants.is_some_and(|participants| expected.contains(&participants)) {
                return tell(format!("  {shown} participants, each counted once"));
            }
            if participants > Some(*expected.end()) || started.elapsed() > PATIENCE {
                return Err(AppError::Demo(format!(
                    "the bag shows {shown} participants, but {} have joined",
                    expected.start()
                )));
            }
            if every_second.is_due() {
                tell(format!("    … {shown} participants"))?;
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

    async fn show_the_winners(&self, bag: &str, operator: &str) -> Result<(), AppError> {
        let path = format!("/v1/activities/{bag}/winners");
        let answer = self.client.get(operator, &path).await?;
        let page = answer.expect(StatusCode::OK, "asking for the winners")?;
        tell("  the winners:")?;
        for winner in page["items"].as_array().into_iter().flatten() {
            tell(format!(
                "    seat {:>2}  viewer {}  {}  (score {})",
                winner["seat"].to_string(),
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

pub(super) fn text(value: &Value, field: &str) -> Result<String, AppError> {
    value[field]
        .as_str()
        .map(ToOwned::to_owned)
        .ok_or_else(|| AppError::Demo(format!("{field} is missing in {value}")))
}

fn moment(value: &Value, field: &str) -> Result<chrono::DateTime<chrono::FixedOffset>, AppError> {
    let text = text(value, field)?;
    DateTime::parse_from_rfc3339(&text).map_err(|_| AppError::Demo(format!("{text} is not a time")))
}
