//! Erasing one user, activity by activity.

use std::collections::BTreeSet;

use sea_orm::{DatabaseConnection, DbErr, TransactionTrait};
use serde::Serialize;
use serde_json::json;

use super::export::{self, UserData};
use crate::{
    activity::{self, Activity, Actor, audit},
    app::{
        AppError,
        admin::{candidates, reach_redis},
        connections::Connections,
    },
    candidate::{self, CandidateService, Erasure, RemovedRows},
    infra::{
        idempotency,
        mysql::{TransactionRetry, within_limit},
    },
    kernel::{ActivityId, UserId},
    settings::Settings,
};

/// How long Redis holds what it shows of an activity's participants, and a day more.
const REDIS_DAYS: u32 = 8;

/// Activities that are read at once.
const PAGE: u64 = 500;

/// What was removed of a user, and what stays, as `luckybag user erase` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Erased {
    pub user_id: UserId,
    pub removed: Removed,
    pub kept: Vec<Kept>,
}

/// How many rows were removed.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    #[serde(flatten)]
    pub rows: RemovedRows,
    pub deny_entries: u64,
    pub idempotency_keys: u64,
    /// The leaf hashes that were put in the place of entries.
    #[serde(skip)]
    leaves_kept: u64,
}

/// What stays of a user, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    pub what: &'static str,
    pub count: u64,
    pub why: &'static str,
}

/// Erases a user; again it finds nothing left.
///
/// # Errors
///
/// [`AppError::UserNeeded`] while an activity that the user takes part in runs, or its proof is not
/// published; nothing is removed then.
pub async fn erase_user(settings: Settings, user_id: UserId) -> Result<Erased, AppError> {
    let connections = Connections::open(&settings)?;
    reach_redis(&connections).await?;
    let work = Erasing {
        candidates: candidates(&settings, &connections),
        db: connections.db.clone(),
        user_id,
    };
    let erased = work.run().await?;
    connections.close(std::time::Duration::from_secs(5)).await;
    Ok(erased)
}

struct Erasing {
    candidates: CandidateService,
    db: DatabaseConnection,
    user_id: UserId,
}

impl Erasing {
    async fn run(&self) -> Result<Erased, AppError> {
        let before = self.read().await?;
        let mut activities = Vec::new();
        for id in before.participant.activities() {
            let found = within_limit(activity::find(&self.db, id)).await;
            activities.extend(found.map_err(AppError::UserData)?);
        }
        let needed: BTreeSet<ActivityId> = activities
            .iter()
            .filter(|activity| candidate::needs_participants(activity))
            .map(|activity| activity.id)
            .filter(|id| before.participant.takes_part_in(*id))
            .collect();
        self.refuse_if_needed(needed)?;

        if !activities.is_empty() || !before.idempotency_keys.is_empty() {
            self.record().await?;
        }
        let keys = idempotency::forget_user(&self.db, self.user_id).await;
        let mut removed = Removed {
            idempotency_keys: keys.map_err(AppError::UserData)?,
            ..Removed::default()
        };
        let mut needed = BTreeSet::new();
        for activity in &activities {
            match self.erase_from(activity.id).await? {
                Some(more) => removed.add(&more),
                None => drop(needed.insert(activity.id)),
            }
        }
        self.forget_in_redis(&activities).await?;
        let after = self.read().await?;
        // Whoever joined meanwhile is told so; the next attempt removes the rest.
        needed.retain(|id| after.participant.takes_part_in(*id));
        self.refuse_if_needed(needed)?;
        Ok(Erased {
            user_id: self.user_id,
            kept: kept(&after, &removed),
            removed,
        })
    }

    /// Says that it happened, but not from which activities: that is what is to be forgotten.
    async fn record(&self) -> Result<(), AppError> {
        let detail = json!({ "userId": self.user_id });
        let done = Actor::service("cli").did("user.erase", None, Some(detail));
        within_limit(audit::record(&self.db, &done))
            .await
            .map_err(AppError::UserData)
    }

    async fn read(&self) -> Result<UserData, AppError> {
        export::read(&self.db, self.user_id)
            .await
            .map_err(AppError::UserData)
    }

    fn refuse_if_needed(&self, needed: BTreeSet<ActivityId>) -> Result<(), AppError> {
        if needed.is_empty() {
            return Ok(());
        }
        Err(AppError::UserNeeded {
            user_id: self.user_id,
            activities: needed.into_iter().collect(),
        })
    }

    /// `None` when the activity needs the user now.
    async fn erase_from(&self, id: ActivityId) -> Result<Option<Removed>, AppError> {
        let mut retry = TransactionRetry::new();
        loop {
            match within_limit(self.erase_once(id)).await {
                Err(error) if retry.again(&error).await => (),
                outcome => return outcome.map_err(AppError::UserData),
            }
        }
    }

    async fn erase_once(&self, id: ActivityId) -> Result<Option<Removed>, DbErr> {
        let tx = self.db.begin().await?;
        // Locked, so that neither a redraw nor a removal begins meanwhile.
        let Some(activity) = activity::find_for_update(&tx, id).await? else {
            return Ok(Some(Removed::default()));
        };
        let Erasure::Erased {
            rows,
            deny_entries,
            leaves_kept,
        } = candidate::erase_user(&tx, &activity, self.user_id).await?
        else {
            return Ok(None);
        };
        tx.commit().await?;
        Ok(Some(Removed {
            rows,
            deny_entries,
            leaves_kept,
            ..Removed::default()
        }))
    }

    /// Of the activities in question and of those that Redis may still know, so that an erasure
    /// which was cut short leaves nothing there either.
    async fn forget_in_redis(&self, activities: &[Activity]) -> Result<(), AppError> {
        for activity in activities {
            self.forget_in(activity).await?;
        }
        let mut after = ActivityId(0);
        loop {
            let recent =
                within_limit(activity::list_recent(&self.db, after, REDIS_DAYS, PAGE)).await;
            let recent = recent.map_err(AppError::UserData)?;
            let Some(last) = recent.last() else {
                return Ok(());
            };
            after = last.id;
            for activity in &recent {
                self.forget_in(activity).await?;
            }
        }
    }

    async fn forget_in(&self, activity: &Activity) -> Result<(), AppError> {
        if candidate::needs_participants(activity) {
            return Ok(());
        }
        self.candidates
            .forget_user(activity, self.user_id)
            .await
            .map_err(AppError::UserInRedis)
    }
}

fn kept(after: &UserData, removed: &Removed) -> Vec<Kept> {
    let count = |rows: usize| u64::try_from(rows).unwrap_or(u64::MAX);
    let kept = [
        (
            "winRecords",
            count(after.win_records.len()),
            "who received a prize is kept for retention.win_records_days",
        ),
        (
            "leafHashes",
            removed.leaves_kept,
            "others prove their entries with them; nobody is found from a hash",
        ),
        (
            "denyEntries",
            count(after.participant.deny_entries.len()),
            "they keep the user out until they are taken off the list",
        ),
        (
            "hostedActivities",
            count(after.hosted_activities.len()),
            "an activity names its host",
        ),
        (
            "audit",
            count(after.audit.len()),
            "who did what is kept for retention.audit_days",
        ),
    ];
    let kept = kept.into_iter().filter(|(_, count, _)| *count > 0);
    kept.map(|(what, count, why)| Kept { what, count, why })
        .collect()
}

impl Removed {
    fn add(&mut self, more: &Self) {
        self.rows += more.rows;
        self.deny_entries += more.deny_entries;
        self.idempotency_keys += more.idempotency_keys;
        self.leaves_kept += more.leaves_kept;
    }
}
