//! Everything stored about one user.

use sea_orm::{DatabaseConnection, DbErr};
use serde::Serialize;

use crate::{
    activity::{self, audit},
    app::{AppError, connections},
    candidate::ParticipantData,
    infra::{
        idempotency::{self, StoredKey},
        mysql::within_limit,
    },
    kernel::{ActivityId, UserId},
    settings::Settings,
    winners::{self, StoredWin},
};

/// Activities that are looked at with one statement.
const PAGE: u64 = 1_000;

/// Everything stored about one user, as `luckybag user export` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserData {
    pub user_id: UserId,
    #[serde(flatten)]
    pub participant: ParticipantData,
    pub win_records: Vec<StoredWin>,
    /// Activities of which the user is the host.
    pub hosted_activities: Vec<ActivityId>,
    /// What the user did as a host or an operator.
    pub audit: Vec<audit::ActorRecord>,
    /// The keys of calls that the user made within the last day.
    pub idempotency_keys: Vec<StoredKey>,
}

/// Reads everything stored about one user.
pub async fn export_user(settings: Settings, user_id: UserId) -> Result<UserData, AppError> {
    let db = connections::open_mysql(&settings)?;
    read(&db, user_id).await.map_err(AppError::UserData)
}

pub(super) async fn read(db: &DatabaseConnection, user_id: UserId) -> Result<UserData, DbErr> {
    let mut participant = ParticipantData::default();
    within_limit(participant.read_platform(db, user_id)).await?;
    let mut after = ActivityId(0);
    loop {
        let ids = within_limit(activity::list_ids(db, after, PAGE)).await?;
        let Some(last) = ids.last() else { break };
        after = *last;
        within_limit(participant.read(db, &ids, user_id)).await?;
    }
    Ok(UserData {
        user_id,
        participant,
        win_records: within_limit(winners::list_of_user(db, user_id)).await?,
        hosted_activities: within_limit(activity::list_ids_hosted_by(db, user_id)).await?,
        audit: within_limit(audit::list_of_user(db, user_id)).await?,
        idempotency_keys: within_limit(idempotency::list_of_user(db, user_id)).await?,
    })
}
