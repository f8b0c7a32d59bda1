//! What users are told: one participation, and how many there are. From Redis, else from `MySQL`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fred::{
    error::Error as RedisError,
    interfaces::{KeysInterface, SetsInterface},
};
use futures_util::future::BoxFuture;
use moka::future::Cache;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{
    CandidateError, CandidateService, ParticipantState, PoolCount, Rules, SettledActivity,
    SettledUser, UserRows, needs_participants,
    projection::timed_out,
    store::{self, Lock},
};
use crate::{
    activity::{self, Activity, CountParticipants},
    infra::{mysql::read_in_turn, redis::Shard},
    kernel::{self, ActivityId, UserId},
};

/// What callers read from `MySQL`: one flight for each question, the answer kept for a moment, and
/// not so many at once that admission and draws find no connection.
pub(super) struct FallbackReads {
    permits: Arc<Semaphore>,
    /// `None` for whoever has no participation, which Redis does not remember.
    participants: Cache<(ActivityId, UserId), Option<ParticipantState>>,
    joined_counts: Cache<ActivityId, u64>,
    /// What is told, mostly from Redis.
    counts: Cache<ActivityId, u64>,
    /// What has been shown, for longer than a rebuild takes to be seen to and done.
    highest_counts: Cache<ActivityId, u64>,
    /// When a first count has last waited for `MySQL` as long as it may, in vain.
    silent_at: Mutex<Option<Instant>>,
}

impl FallbackReads {
    /// How old an answer may be.
    const MEMORY: Duration = Duration::from_secs(1);
    const COUNT_MEMORY: Duration = Duration::from_millis(400);
    /// How long the first count waits for `MySQL`, where Redis knows of some participants.
    const FIRST_COUNT: Duration = Duration::from_secs(2);
    /// For how long nobody waits like that again after one has waited in vain.
    const SILENCE: Duration = Duration::from_secs(5);
    const HIGHEST_COUNT_KEPT: Duration = Duration::from_mins(1);
    const PARTICIPANTS_KEPT: u64 = 50_000;
    const COUNTS_KEPT: u64 = 10_000;

    pub(super) fn new(permits: Arc<Semaphore>) -> Self {
        Self {
            permits,
            participants: Cache::builder()
                .max_capacity(Self::PARTICIPANTS_KEPT)
                .time_to_live(Self::MEMORY)
                .build(),
            joined_counts: Cache::builder()
                .max_capacity(Self::COUNTS_KEPT)
                .time_to_live(Self::MEMORY)
                .build(),
            counts: Cache::builder()
                .max_capacity(Self::COUNTS_KEPT)
                .time_to_live(Self::COUNT_MEMORY)
                .build(),
            highest_counts: Cache::builder()
                .max_capacity(Self::COUNTS_KEPT)
                .time_to_live(Self::HIGHEST_COUNT_KEPT)
                .build(),
            silent_at: Mutex::default(),
        }
    }

    /// How long the first count of an activity waits for `MySQL`; others wait for `usual`.
    fn first_patience(&self, now: Instant, usual: Duration) -> Duration {
        let silent_at = *self.silent_at.lock();
        let is_silent = silent_at.is_some_and(|at| now < at + Self::SILENCE);
        if is_silent {
            usual.min(Self::FIRST_COUNT)
        } else {
            Self::FIRST_COUNT
        }
    }
}

impl CandidateService {
    /// What became of a user's join; `None` when none has been handled, or not more than a second
    /// ago.
    pub async fn participant(
        &self,
        id: ActivityId,
        user_id: UserId,
    ) -> Result<Option<ParticipantState>, CandidateError> {
        if let Some(state) = self.shown_participant(id, user_id).await {
            return Ok(Some(state));
        }
        // Boxed, so that the common case stays small.
        let read = Box::pin(self.stored_participant(id, user_id));
        let participants = &self.shared.fallback.participants;
        let known = participants.try_get_with((id, user_id), read).await;
        known.map_err(CandidateError::Shared)
    }

    async fn stored_participant(
        &self,
        id: ActivityId,
        user_id: UserId,
    ) -> Result<Option<ParticipantState>, CandidateError> {
        let Some(rows) = self.stored_rows(id, user_id).await? else {
            return Ok(None);
        };
        let permits = &self.shared.fallback.permits;
        let activity = read_in_turn(permits, activity::find(self.db(), id))
            .await
            .map_err(CandidateError::database("read the rules", id))?
            .ok_or(CandidateError::UnknownActivity(id))?;
        let rules = Rules::of(&activity);
        let Some(user) = SettledUser::of(rules.as_ref(), user_id, &rows) else {
            return Ok(None);
        };
        let state = user.state.clone();
        let settled = SettledActivity {
            activity,
            users: std::iter::once((user_id, user.clone())).collect(),
        };
        kernel::step("participant.read");
        // What could not be kept is read again next time.
        drop(
            self.ask_redis(self.write_state(&settled, user_id, &user))
                .await,
        );
        let is_erased = self.forget_if_erased(&settled.activity, user_id).await?;
        Ok((!is_erased).then_some(state))
    }

    async fn stored_rows(
        &self,
        id: ActivityId,
        user_id: UserId,
    ) -> Result<Option<UserRows>, CandidateError> {
        let users = [user_id];
        let read = store::read_rows(self.db(), id, &users, Lock::None);
        let mut rows = read_in_turn(&self.shared.fallback.permits, read)
            .await
            .map_err(CandidateError::database("read a participation", id))?;
        let rows = rows.remove(&user_id);
        Ok(rows.filter(|rows| rows.participation.is_some()))
    }

    /// An erasure may have emptied Redis after the rows were read and before their summary was written;
    /// one that comes later empties it again. Answers whether the user has been erased.
    async fn forget_if_erased(
        &self,
        activity: &Activity,
        user_id: UserId,
    ) -> Result<bool, CandidateError> {
        let id = activity.id;
        if needs_participants(activity) {
            return Ok(false);
        }
        let forgotten = match self.stored_rows(id, user_id).await {
            Ok(Some(_)) => return Ok(false),
            Ok(None) => self.forget_user(activity, user_id).await,
            Err(error) => {
                // Without the rows nobody knows: it is read again next time.
                let summary = self.redis().keys().user_state(id, user_id);
                drop(self.redis().del::<(), _>(summary).await);
                return Err(error);
            }
        };
        forgotten.map_err(CandidateError::redis("forget an erased user", id))?;
        Ok(true)
    }

    async fn shown_participant(&self, id: ActivityId, user_id: UserId) -> Option<ParticipantState> {
        let key = self.redis().keys().user_state(id, user_id);
        let json: Option<String> = self.ask_redis(self.redis().get(key)).await.ok()?;
        ParticipantState::parse(&json?)
    }

    /// How many participants there are to show; what is told is at most 400 ms old.
    pub async fn participant_count(&self, id: ActivityId) -> Result<u64, CandidateError> {
        let counts = &self.shared.fallback.counts;
        let known = counts.try_get_with(id, Box::pin(self.count_now(id))).await;
        known.map_err(CandidateError::Shared)
    }

    /// As many as Redis knows. It may have lost some that are put back meanwhile: where it knows fewer
    /// than were counted before, and where nobody has counted yet, `MySQL` is asked too.
    async fn count_now(&self, id: ActivityId) -> Result<u64, CandidateError> {
        let highest = &self.shared.fallback.highest_counts;
        let before = highest.get(&id).await;
        let shown = self.ask_redis(self.shown_count(id)).await.ok();
        if let (Some(shown), Some(before)) = (shown, before)
            && shown >= before
        {
            highest.insert(id, shown).await;
            return Ok(shown);
        }
        let known = shown.max(before).unwrap_or(0);
        let within = async |limit| {
            let answer = tokio::time::timeout(limit, self.stored_count(id)).await;
            answer.ok().and_then(Result::ok)
        };
        let fallback = &self.shared.fallback;
        let usual = self.redis().patience();
        let stored = match before {
            Some(_) => within(usual).await,
            None if known > 0 => {
                let patience = fallback.first_patience(Instant::now(), usual);
                let began_at = Instant::now();
                let stored = within(patience).await;
                if stored.is_none() && began_at.elapsed() >= FallbackReads::FIRST_COUNT {
                    *fallback.silent_at.lock() = Some(Instant::now());
                }
                stored
            }
            None => Some(self.stored_count(id).await?),
        };
        let Some(stored) = stored else {
            // Not kept: as long as `MySQL` has not said so, it may be too low.
            return Ok(known);
        };
        let count = known.max(stored);
        if Some(count) > before {
            highest.insert(id, count).await;
        }
        Ok(count)
    }

    /// As committed up to a second ago.
    async fn stored_count(&self, id: ActivityId) -> Result<u64, CandidateError> {
        let read = Box::pin(async move {
            let read = store::read_pool_counts(self.db(), id);
            let counts = read_in_turn(&self.shared.fallback.permits, read)
                .await
                .map_err(CandidateError::database("count the participants", id))?;
            Ok(counts.values().map(PoolCount::joined).sum())
        });
        let counts = &self.shared.fallback.joined_counts;
        let known = counts.try_get_with(id, read).await;
        known.map_err(CandidateError::Shared)
    }

    /// How many users Redis knows to be in.
    async fn shown_count(&self, id: ActivityId) -> Result<u64, RedisError> {
        let keys = self.redis().keys();
        let pipeline = self.redis().next().pipeline();
        for shard in Shard::all() {
            let _: () = pipeline.scard(keys.partake(id, shard)).await?;
        }
        let shown: Vec<u64> = pipeline.all().await?;
        Ok(shown.into_iter().sum())
    }

    /// Asks Redis, but not for long, and not at all while it is known to be away.
    pub(super) async fn ask_redis<T>(
        &self,
        question: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        if !self.redis().is_connected() {
            return Err(timed_out());
        }
        tokio::time::timeout(self.redis().patience(), question)
            .await
            .unwrap_or_else(|_| Err(timed_out()))
    }
}

impl CountParticipants for CandidateService {
    fn count_participants(&self, id: ActivityId) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async move { self.participant_count(id).await.ok() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_first_count_in_five_seconds_waits_for_a_server_that_says_nothing() {
        const USUAL: Duration = Duration::from_millis(500);
        let reads = FallbackReads::new(Arc::new(Semaphore::new(1)));
        let now = Instant::now();
        assert_eq!(reads.first_patience(now, USUAL), FallbackReads::FIRST_COUNT);

        *reads.silent_at.lock() = Some(now);
        for (after, patience) in [(0, USUAL), (4, USUAL), (5, FallbackReads::FIRST_COUNT)] {
            let later = now + Duration::from_secs(after);
            assert_eq!(reads.first_patience(later, USUAL), patience, "{after} s");
        }
    }
}
