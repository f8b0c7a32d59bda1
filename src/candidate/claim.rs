//! The claim of one process to rebuild a pool: it keeps the others from doing the same work.

use fred::{
    error::Error as RedisError,
    interfaces::KeysInterface,
    types::{Expiration, SetOptions},
};
use uuid::Uuid;

use super::CandidateService;
use crate::{
    infra::redis::{Shard, aside::RELEASE_CLAIM},
    kernel::ActivityId,
};

/// How long a claim lasts, from the last page on that was rebuilt.
const LIFE_MS: i64 = 10_000;

/// The claim to one rebuild. Only its holder renews or gives it back: it may have lapsed and be
/// somebody else's meanwhile. Two rebuilds at once do no harm, only twice the work.
pub(super) struct RebuildClaim {
    key: String,
    holder: String,
}

impl CandidateService {
    /// `None` while another process has it.
    pub(super) async fn claim_rebuild(
        &self,
        id: ActivityId,
    ) -> Result<Option<RebuildClaim>, RedisError> {
        let keys = self.redis().keys();
        let claim = RebuildClaim {
            key: keys.mutex(&keys.candidate(id, Shard::of(0))),
            holder: Uuid::new_v4().to_string(),
        };
        let life = Some(Expiration::PX(LIFE_MS));
        let absent = Some(SetOptions::NX);
        let answer: Option<String> = self
            .redis()
            .set(&claim.key, &claim.holder, life, absent, false)
            .await?;
        Ok(answer.map(|_| claim))
    }

    /// Makes a claim last on; one that was lost stays lost.
    pub(super) async fn renew_rebuild(&self, claim: &RebuildClaim) -> Result<(), RedisError> {
        let arguments = vec![claim.holder.clone(), LIFE_MS.to_string()];
        let renew = &self.shared.scripts.renew_claim;
        renew
            .run::<()>(self.redis(), vec![claim.key.clone()], arguments)
            .await
    }

    /// Lets others rebuild at once; a claim that cannot be given back lapses.
    pub(super) async fn release_rebuild(&self, claim: RebuildClaim) {
        let released = RELEASE_CLAIM
            .run::<()>(self.redis(), vec![claim.key], vec![claim.holder])
            .await;
        if let Err(error) = released {
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "the claim to a rebuild was not given back"
            );
        }
    }
}
