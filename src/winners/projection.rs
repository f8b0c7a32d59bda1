//! The winners as Redis shows them to downstream systems; decides nothing.

use std::time::Duration;

use fred::{
    interfaces::KeysInterface,
    types::{Expiration, SetOptions},
};
use futures_util::{TryStreamExt, future::BoxFuture, stream};
use sea_orm::DatabaseConnection;

use super::{
    WinStatus, WinnerError, WinnerList,
    hot_list::{HotList, LIFE},
    store,
};
use crate::{
    activity::{self, Activity, Status},
    infra::{
        mysql::DatabaseClock,
        outbox::{Project, ProjectError},
        redis::{LuaScript, Redis},
    },
    kernel::{ActivityId, Timestamp, jittered},
};

/// Keys that are written at once.
const BATCH: usize = 500;

/// Scripts that are under way at once.
const PERIODS_AT_ONCE: usize = 50;

/// Brings `lb:win:*` up to date from `MySQL`, after the commit only. Registered as
/// [`WinnerProjection::NAME`].
pub struct WinnerProjection {
    db: DatabaseConnection,
    redis: Redis,
    clock: std::sync::Arc<DatabaseClock>,
    lists: HotList,
    extend_period: LuaScript,
    forget_period: LuaScript,
}

impl WinnerProjection {
    /// What `Entry::Project { what, .. }` names.
    pub const NAME: &'static str = "winners";

    pub fn new(db: DatabaseConnection, redis: Redis, clock: std::sync::Arc<DatabaseClock>) -> Self {
        Self {
            db,
            lists: HotList::new(redis.clone()),
            redis,
            clock,
            extend_period: LuaScript::new(include_str!("extend_period.lua")),
            forget_period: LuaScript::new(include_str!("forget_period.lua")),
        }
    }

    /// Again when a redraw came between reading and writing: single keys carry no round by which a
    /// script could refuse an older one.
    async fn bring_up_to_date(&self, id: ActivityId) -> Result<(), ProjectError> {
        let mut shown_round = None;
        loop {
            let Some(activity) = self.find_drawn(id).await? else {
                return Ok(());
            };
            if shown_round == Some(activity.round) {
                return Ok(());
            }
            self.show(&activity).await?;
            shown_round = Some(activity.round);
        }
    }

    /// The activity if it is drawn and its wins are kept.
    async fn find_drawn(&self, id: ActivityId) -> Result<Option<Activity>, ProjectError> {
        let activity = activity::find(&self.db, id).await?;
        Ok(activity.filter(|activity| {
            activity.status == Status::Drawn && activity.wins_removed_at.is_none()
        }))
    }

    async fn show(&self, activity: &Activity) -> Result<(), ProjectError> {
        // Read after the round, so the list is never older than the round it is given.
        let wins = store::list_all(&self.db, activity.id).await?;
        // What is left of wins whose removal has begun is no list.
        if self.find_drawn(activity.id).await?.is_none() {
            return Ok(());
        }
        let list = WinnerList::new(activity.round, wins);
        self.lists
            .show(activity.id, &activity.prizes, &list)
            .await?;
        self.show_users(activity, &list).await?;
        let now = self.clock.now().await?.at;
        self.show_periods(activity, &list, now).await
    }

    /// A win is shown where nothing is yet, a revoked one in any case: so it never comes back.
    async fn show_users(&self, activity: &Activity, list: &WinnerList) -> Result<(), ProjectError> {
        for batch in list.all().chunks(BATCH) {
            let pipeline = self.redis.next().pipeline();
            for win in batch {
                let key = self.redis.keys().win_user(activity.id, win.user_id);
                let shown = serde_json::to_string(win).map_err(WinnerError::from)?;
                let life_secs = i64::try_from(jittered(LIFE).as_secs()).unwrap_or(i64::MAX);
                let life = Some(Expiration::EX(life_secs));
                let only_if = match win.status {
                    WinStatus::Won => Some(SetOptions::NX),
                    WinStatus::Revoked => None,
                };
                pipeline
                    .set::<(), _, _>(&key, shown, life, only_if, false)
                    .await?;
                let _: () = pipeline.expire(&key, life_secs, None).await?;
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
