//! What thousands of viewers do at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Range, RangeInclusive},
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use reqwest::StatusCode;

use super::{
    EverySecond,
    client::{Answer, Client},
    story::{PRIZE_COUNT, text},
    tell,
};
use crate::{app::AppError, http::Role, kernel::UserId};

/// Each giveaway has viewers of its own: who has just won would be kept from winning again.
const FIRST_VIEWERS: Range<u64> = 1_000..1_000_000;
const VIEWER_COUNT: u64 = 3_000;
const REPEATED_COUNT: u64 = 300;
const LATE_COUNT: u64 = 50;
/// Requests on their way at once.
const CONCURRENCY: usize = 64;
/// How often, and after how long, a viewer tries again who was told `503`.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(300);

/// The viewers of one giveaway.
pub(super) struct Crowd {
    client: Client,
    first_viewer: u64,
}

/// What became of some joins.
#[derive(Default)]
struct Joins {
    /// How many had each answer.
    answers: BTreeMap<String, u64>,
    accepted: BTreeSet<u64>,
    refused: BTreeSet<u64>,
}

impl Crowd {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            first_viewer: rand::random_range(FIRST_VIEWERS) * 10_000,
        }
    }

    /// Everybody joins, some of them twice; answers how many must take part now, and how many may:
    /// on a slow machine the draw comes first, and who is refused in that moment may be in or not.
    pub(super) async fn join_all(&self, bag: &str) -> Result<RangeInclusive<usize>, AppError> {
        let first = self.first_viewer;
        let everybody = (first..first + VIEWER_COUNT).chain(first..first + REPEATED_COUNT);
        let started = Instant::now();
        let joins = self.join(bag, everybody).await?;
        tell(format!(
            "  {VIEWER_COUNT} viewers join, {REPEATED_COUNT} of them twice, in {:.1} s: {}",
            started.elapsed().as_secs_f64(),
            describe(&joins.answers)
        ))?;
        let in_doubt = joins.refused.difference(&joins.accepted).count();
        Ok(joins.accepted.len()..=joins.accepted.len() + in_doubt)
    }

    /// Joins with each of the viewers and counts the answers.
    async fn join(&self, bag: &str, viewers: impl Iterator<Item = u64>) -> Result<Joins, AppError> {
        let path = format!("/v1/activities/{bag}/join");
        let mut joins = stream::iter(viewers)
            .map(|viewer| {
                let path = &path;
                async move {
                    let answer = self.join_once(path, viewer).await?;
                    Ok::<_, AppError>((viewer, answer))
                }
            })
            .buffer_unordered(CONCURRENCY);
        let mut done = Joins::default();
        let mut every_second = EverySecond::new();
        while let Some(join) = joins.next().await {
            let (viewer, answer) = join?;
            if answer.status == StatusCode::ACCEPTED {
                done.accepted.insert(viewer);
            } else {
                done.refused.insert(viewer);
            }
            let code = answer.body["code"]
                .as_str()
                .or(answer.body["status"].as_str());
            let name = format!("{} {}", answer.status.as_u16(), code.unwrap_or_default());
            *done.answers.entry(name).or_insert(0) += 1;
            if every_second.is_due() {
                tell(format!("    … {}", describe(&done.answers)))?;
            }
        }
        Ok(done)
    }

    /// Viewers join after the draw; each of them has to be refused.
    pub(super) async fn join_too_late(&self, bag: &str) -> Result<(), AppError> {
        let first = self.first_viewer + VIEWER_COUNT;
        let joins = self.join(bag, first..first + LATE_COUNT).await?;
        tell(format!(
            "  {LATE_COUNT} viewers come too late: {}",
            describe(&joins.answers)
        ))?;
        if joins.accepted.is_empty() {
            return Ok(());
        }
        Err(AppError::Demo(
            "a join was accepted after the draw".to_owned(),
        ))
    }

    /// Everybody asks for the result.
    pub(super) async fn ask_for_results(&self, bag: &str) -> Result<(), AppError> {
        let path = format!("/v1/activities/{bag}/result");
        let mut asking = stream::iter(self.first_viewer..self.first_viewer + VIEWER_COUNT)
            .map(|viewer| {
                let path = &path;
                async move {
                    let token = self.client.token(UserId(viewer), Role::Viewer, &[])?;
                    self.client.get(&token, path).await
                }
            })
            .buffer_unordered(CONCURRENCY);
        let mut results: BTreeMap<String, u64> = BTreeMap::new();
        let mut every_second = EverySecond::new();
        while let Some(answer) = asking.next().await {
            let result = answer?.expect(StatusCode::OK, "asking for the result")?;
            *results.entry(text(&result, "result")?).or_insert(0) += 1;
            if every_second.is_due() {
                tell(format!("    … {}", describe(&results)))?;
            }
        }
        tell(format!(
            "  {VIEWER_COUNT} viewers ask for their result: {}",
            describe(&results)
        ))?;
        if results.get("won") == Some(&PRIZE_COUNT) && results.len() == 2 {
            return Ok(());
        }
        Err(AppError::Demo(format!(
            "{PRIZE_COUNT} viewers should have won, the others not"
        )))
    }

    async fn join_once(&self, path: &str, viewer: u64) -> Result<Answer, AppError> {
        let token = self.client.token(UserId(viewer), Role::Viewer, &[])?;
        for _ in 1..TRIES {
            let answer = self.client.post(&token, path, None).await?;
            if answer.status != StatusCode::SERVICE_UNAVAILABLE {
                return Ok(answer);
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.client.post(&token, path, None).await
    }
}

fn describe(counts: &BTreeMap<String, u64>) -> String {
    let parts: Vec<_> = counts
        .iter()
        .map(|(name, count)| format!("{count} × {name}"))
        .collect();
    parts.join(", ")
}
