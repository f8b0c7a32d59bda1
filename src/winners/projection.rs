//! The winners as Redis shows them to downstream systems; decides nothing.

use std::time::Duration;

use fred::{
    interfaces::{HashesInterface, KeysInterface},
    types::{Expiration, SetOptions},
};
use futures_util::{TryStreamExt, future::BoxFuture, stream};
use rand::RngExt;
use sea_orm::DatabaseConnection;
use serde_json::{Value, json};

use super::{WinRecord, WinStatus, WinnerError, WinnerList, store};
use crate::{
    activity::{self, Activity, Status},
    infra::{
        mysql::DatabaseClock,
        outbox::{Project, ProjectError},
        redis::{LuaScript, Redis},
    },
    kernel::{ActivityId, Timestamp, format_timestamp},
};

/// How long lists and single wins stay.
const LIFE_SECS: i64 = 2 * 24 * 3600;

/// How long an unfinished list stays.
const BUILDING_SECS: i64 = 60;

/// Fields or keys that are written at once.
const BATCH: usize = 500;

/// Scripts that are under way at once.
const PERIODS_AT_ONCE: usize = 50;

/// Brings `lb:win:*` up to date from `MySQL`, after the commit only. Registered as
/// [`WinnerProjection::NAME`].
pub struct WinnerProjection {
    db: DatabaseConnection,
    redis: Redis,
    clock: std::sync::Arc<DatabaseClock>,
    replace_list: LuaScript,
    extend_period: LuaScript,
    forget_period: LuaScript,
}

impl WinnerProjection {
    /// What `Entry::Project { what, .. }` names.
    pub const NAME: &'static str = "winners";

    pub fn new(db: DatabaseConnection, redis: Redis, clock: std::sync::Arc<DatabaseClock>) -> Self {
        Self {
            db,
            redis,
            clock,
            replace_list: LuaScript::new(include_str!("replace_list.lua")),
            extend_period: LuaScript::new(include_str!("extend_period.lua")),
            forget_period: LuaScript::new(include_str!("forget_period.lua")),
        }
    }

    /// Again when a redraw came between reading and writing: single keys carry no round by which a
    /// script could refuse an older one.
    async fn bring_up_to_date(&self, id: ActivityId) -> Result<(), ProjectError> {
        let mut shown_round = None;
        loop {
            let activity = activity::find(&self.db, id).await?;
            let drawn = activity.filter(|activity| activity.status == Status::Drawn);
            let Some(activity) = drawn.filter(|activity| shown_round != Some(activity.round))
            else {
                return Ok(());
            };
            self.show(&activity).await?;
            shown_round = Some(activity.round);
        }
    }

    async fn show(&self, activity: &Activity) -> Result<(), ProjectError> {
        // Read after the round, so the list is never older than the round it is given.
        let wins = store::list_all(&self.db, activity.id).await?;
        let list = WinnerList::new(activity.round, wins);
        self.show_lists(activity, &list).await?;
        self.show_users(activity, &list).await?;
        let now = self.clock.now().await?.at;
        self.show_periods(activity, &list, now).await
    }

    async fn show_lists(&self, activity: &Activity, list: &WinnerList) -> Result<(), ProjectError> {
        let keys = self.redis.keys();
        let all: Vec<&WinRecord> = list.current().collect();
        self.show_list(activity.id, &keys.win_list(activity.id), list.round(), &all)
            .await?;
        for prize in &activity.prizes {
            let key = keys.win_list_of_prize(activity.id, prize.prize_id);
            let of_prize: Vec<&WinRecord> = list
                .current()
                .filter(|win| win.prize_id == prize.prize_id)
                .collect();
            self.show_list(activity.id, &key, list.round(), &of_prize)
                .await?;
        }
        Ok(())
    }

    /// Builds a list beside the shown one and puts it in its place, again when another process
    /// built the same one at the same time.
    async fn show_list(
        &self,
        id: ActivityId,
        key: &str,
        round: u32,
        wins: &[&WinRecord],
    ) -> Result<(), WinnerError> {
        const ATTEMPTS: u32 = 5;

        for attempt in 1.. {
            let answer = self.try_show_list(id, key, round, wins).await?;
            match answer.as_str() {
                "replaced" | "newer" => break,
                "incomplete" if attempt < ATTEMPTS => {
                    let pause_ms = rand::rng().random_range(10..200);
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
                _ => return Err(WinnerError::UnexpectedAnswer { id, answer }),
            }
        }
        Ok(())
    }

    async fn try_show_list(
        &self,
        id: ActivityId,
        key: &str,
        round: u32,
        wins: &[&WinRecord],
    ) -> Result<String, WinnerError> {
        let redis_error = |action| move |source| WinnerError::Redis { action, id, source };
        let building = self.redis.keys().under_construction(key);
        let mark = json!({ "round": round, "rows": wins.len() }).to_string();

        let client = self.redis.next();
        let forget = client.del::<(), _>(building.as_str());
        forget.await.map_err(redis_error("clear a list"))?;
        self.build(&building, vec![("-".to_owned(), mark)])
            .await
            .map_err(redis_error("build a list"))?;
        for batch in wins.chunks(BATCH) {
            let fields = batch
                .iter()
                .map(|win| (win.id.to_string(), shown(win).to_string()));
            self.build(&building, fields.collect())
                .await
                .map_err(redis_error("build a list"))?;
        }
        self.replace_list
            .run(
                &self.redis,
                vec![key.to_owned(), building],
                vec![
                    round.to_string(),
                    wins.len().to_string(),
                    LIFE_SECS.to_string(),
                ],
            )
            .await
            .map_err(redis_error("replace a list"))
    }

    /// Adds fields to a list that is being built, which goes by itself if it is never finished.
    async fn build(
        &self,
        building: &str,
        fields: Vec<(String, String)>,
    ) -> Result<(), fred::error::Error> {
        let pipeline = self.redis.next().pipeline();
        let _: () = pipeline.hset(building, fields).await?;
        let _: () = pipeline.expire(building, BUILDING_SECS, None).await?;
        pipeline.all().await
    }

    /// A win is shown where nothing is yet, a revoked one in any case: so it never comes back.
    async fn show_users(&self, activity: &Activity, list: &WinnerList) -> Result<(), ProjectError> {
        for batch in list.all().chunks(BATCH) {
            let pipeline = self.redis.next().pipeline();
            for win in batch {
                let key = self.redis.keys().win_user(activity.id, win.user_id);
                let life = Some(Expiration::EX(LIFE_SECS));
                let only_if = match win.status {
                    WinStatus::Won => Some(SetOptions::NX),
                    WinStatus::Revoked => None,
                };
                pipeline
                    .set::<(), _, _>(&key, shown(win).to_string(), life, only_if, false)
                    .await?;
                let _: () = pipeline.expire(&key, LIFE_SECS, None).await?;
            }
            pipeline.all::<Vec<fred::types::Value>>().await?;
        }
        Ok(())
    }

    async fn show_periods(
        &self,
        activity: &Activity,
        list: &WinnerList,
        now: Timestamp,
    ) -> Result<(), ProjectError> {
        for win in list.all() {
            if win.status == WinStatus::Revoked {
                let keys = vec![self.redis.keys().win_period(win.user_id)];
                let arguments = vec![win.id.to_string()];
                self.forget_period
                    .run::<i64>(&self.redis, keys, arguments)
                    .await?;
            }
        }
        let current = list
            .current()
            .filter_map(|win| Some((win, period_left(activity.cooldown, win.drawn_at, now)?)));
        stream::iter(current.map(Ok))
            .try_for_each_concurrent(PERIODS_AT_ONCE, async |(win, left_ms)| {
                let keys = vec![self.redis.keys().win_period(win.user_id)];
                let arguments = vec![win.id.to_string(), left_ms.to_string()];
                let shown = self.extend_period.run::<i64>(&self.redis, keys, arguments);
                shown.await.map(|_| ()).map_err(ProjectError::from)
            })
            .await
    }
}

impl Project for WinnerProjection {
    fn project(&self, activity_id: ActivityId) -> BoxFuture<'_, Result<(), ProjectError>> {
        Box::pin(self.bring_up_to_date(activity_id))
    }
}

/// What is left of the cool-down, in milliseconds; `None` when nothing is.
fn period_left(cooldown: Duration, drawn_at: Timestamp, now: Timestamp) -> Option<i64> {
    let left = (drawn_at + cooldown) - now;
    Some(left.num_milliseconds()).filter(|left| *left > 0)
}

/// The form of a win in every list.
fn shown(win: &WinRecord) -> Value {
    json!({
        "winRecordId": win.id,
        "activityId": win.activity_id,
        "userId": win.user_id,
        "seat": win.seat,
        "round": win.round,
        "prizeId": win.prize_id,
        "prizeRank": win.prize_rank,
        "score": win.score,
        "status": win.status.as_str(),
        "drawnAt": format_timestamp(win.drawn_at),
    })
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn the_period_counts_from_the_draw_and_not_from_its_projection() {
        let drawn_at = Timestamp::UNIX_EPOCH;
        let cooldown = Duration::from_secs(10);
        let left = |secs| period_left(cooldown, drawn_at, drawn_at + TimeDelta::seconds(secs));

        assert_eq!(left(0), Some(10_000));
        assert_eq!(left(4), Some(6_000));
        assert_eq!(left(10), None);
        assert_eq!(left(11), None);
    }
}
