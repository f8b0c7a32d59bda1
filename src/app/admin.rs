//! What operators do from the command line, beside running processes or without any.

use std::{sync::Arc, time::Duration};

use tokio::sync::Semaphore;

use super::{connections::Connections, error::AppError, services::candidate_service};
use crate::{
    admin_copy, candidate::CandidateService, infra::broker::DeadLetter, kernel::ActivityId,
    settings::Settings,
};

/// How long a server may take to answer at all.
pub(super) const REACH: Duration = Duration::from_secs(10);
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Fills the pool of an activity from `MySQL`; answers how many participations there are.
pub async fn rebuild(settings: Settings, id: ActivityId) -> Result<u64, AppError> {
    let connections = Connections::open(&settings)?;
    reach_redis(&connections).await?;
    let candidates = candidates(&settings, &connections);
    let rebuilt = Box::pin(candidates.rebuild(id)).await?;
    connections.close(REACH).await;
    rebuilt.ok_or(AppError::RebuildUnderWay(id))
}

/// Queues every activity for the running processes to copy to the admin database; answers how many.
pub async fn copy_all(settings: Settings) -> Result<u64, AppError> {
    let connections = Connections::open(&settings)?;
    if connections.admin.is_none() {
        return Err(AppError::NoAdminDatabase);
    }
    let queued = admin_copy::queue_all(&connections.db, &connections.outbox).await;
    connections.close(REACH).await;
    queued.map_err(AppError::QueueCopies)
}

/// What could not be handled, the oldest first.
pub async fn dead_letters(settings: Settings, limit: usize) -> Result<Vec<DeadLetter>, AppError> {
    let broker = Connections::open(&settings)?.broker;
    Ok(broker.dead_letters(limit).await?)
}

/// Sends what could not be handled to where it came from; answers how much went.
pub async fn replay_dead(settings: Settings) -> Result<usize, AppError> {
    let broker = Connections::open(&settings)?.broker;
    Ok(broker.replay_dead(usize::MAX).await?)
}

pub(super) fn candidates(settings: &Settings, connections: &Connections) -> CandidateService {
    let mysql_reads = Arc::new(Semaphore::new(settings.limits.mysql_concurrency.get()));
    candidate_service(settings, connections, mysql_reads)
}

pub(super) async fn reach_redis(connections: &Connections) -> Result<(), AppError> {
    let answers = async {
        while connections.redis.ping().await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(REACH, answers)
        .await
        .map_err(|_| AppError::Away {
            server: "Redis",
            patience_secs: REACH.as_secs(),
        })
}
