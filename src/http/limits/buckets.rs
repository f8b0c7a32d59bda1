//! One token bucket for each caller, in bounded memory.

use std::{hash::Hash, num::NonZeroU32, sync::Arc, time::Duration};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock},
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use moka::{policy::EvictionPolicy, sync::Cache};

/// How full a bucket is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) per_second: NonZeroU32,
    pub(super) burst: NonZeroU32,
}

type Bucket<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// The buckets of all callers that were here of late.
pub(super) struct Buckets<K, C: Clock = DefaultClock> {
    quota: Quota,
    clock: C,
    kept: Cache<K, Arc<Bucket<C>>>,
}

impl<K, C> Buckets<K, C>
where
    K: Copy + Eq + Hash + Send + Sync + 'static,
    C: Clock + Clone + Send + Sync + 'static,
    C::Instant: Send + Sync,
{
    /// A bucket that nobody took from for as long as it takes to fill is full, so it can be
    /// dropped; of more than `buckets_max` those go first that were idle for the longest time.
    pub(super) fn new(rate: Rate, buckets_max: NonZeroU32, clock: C) -> Self {
        let refill = Duration::from_secs((rate.burst.get() / rate.per_second.get()).into());
        Self {
            quota: Quota::per_second(rate.per_second).allow_burst(rate.burst),
            clock,
            kept: Cache::builder()
                .max_capacity(buckets_max.get().into())
                .eviction_policy(EvictionPolicy::lru())
                .time_to_idle(refill + Duration::from_secs(1))
                .build(),
        }
    }

    /// Takes one out of the bucket of `caller`, or tells how long it stays empty.
    pub(super) fn take(&self, caller: K) -> Result<(), Duration> {
        let full = || {
            let clock = self.clock.clone();
            Arc::new(RateLimiter::direct_with_clock(self.quota, clock))
        };
        let bucket = self.kept.get_with(caller, full);
        bucket
            .check()
            .map_err(|until| until.wait_time_from(self.clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    const fn count(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    fn buckets(clock: &FakeRelativeClock, max: u32) -> Buckets<u64, FakeRelativeClock> {
        let rate = Rate {
            per_second: count(2),
            burst: count(3),
        };
        Buckets::new(rate, count(max), clock.clone())
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let clock = FakeRelativeClock::default();
        let buckets = buckets(&clock, 100);

        for _ in 0..3 {
            assert_eq!(buckets.take(1), Ok(()));
        }
        assert_eq!(buckets.take(1), Err(Duration::from_millis(500)));
        clock.advance(Duration::from_millis(499));
        assert_eq!(buckets.take(1), Err(Duration::from_millis(1)));
        clock.advance(Duration::from_millis(1));
        assert_eq!(buckets.take(1), Ok(()));
        assert!(buckets.take(1).is_err());
        clock.advance(Duration::from_mins(1));
        for _ in 0..3 {
            assert_eq!(buckets.take(1), Ok(()));
        }
        assert!(buckets.take(1).is_err(), "no more than the burst is saved");
    }

    #[test]
    fn nobody_takes_from_the_bucket_of_another() {
        let buckets = buckets(&FakeRelativeClock::default(), 100);
        while buckets.take(1).is_ok() {}

        assert_eq!(buckets.take(2), Ok(()));
    }

    #[test]
    fn however_many_come_only_so_many_buckets_are_kept_and_the_busy_stay() {
        let buckets = buckets(&FakeRelativeClock::default(), 100);
        while buckets.take(0).is_ok() {}

        for stranger in 1..5_000 {
            assert_eq!(buckets.take(stranger), Ok(()));
            assert!(buckets.take(0).is_err(), "after {stranger} strangers");
            buckets.kept.run_pending_tasks();
        }

        assert!(buckets.kept.entry_count() <= 100);
    }
}
