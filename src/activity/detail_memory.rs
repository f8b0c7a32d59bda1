//! Details in process memory: how long each is told, and when it is looked at again.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use moka::{future::Cache, ops::compute::Op};
use rand::RngExt;
use tokio::sync::mpsc;

use super::hot_copy::Known;
use crate::kernel::{ActivityId, jittered};

/// What was found of an id.
struct Held {
    known: Known,
    looked_at: Instant,
    /// From then on whoever asks for it has it looked at again.
    renew_at: Instant,
    fresh_until: Instant,
    /// Somebody is asked to look again,
    is_to_be_renewed: AtomicBool,
    /// and has begun.
    is_being_renewed: AtomicBool,
}

impl Held {
    /// What a look at `looked_at` found, to be told for `life` from now on.
    fn new(known: Known, looked_at: Instant, life: Duration) -> Self {
        let now = Instant::now();
        let life = jittered(life);
        Self {
            known,
            looked_at,
            renew_at: now + life.mul_f64(rand::rng().random_range(0.6..0.8)),
            fresh_until: now + life,
            is_to_be_renewed: AtomicBool::new(false),
            is_being_renewed: AtomicBool::new(false),
        }
    }

    /// Whether it is told though it has lapsed: nobody waits for a look that is under way, but neither
    /// does an answer grow old for looks at other ids.
    fn is_told_on(&self, now: Instant) -> bool {
        let is_soon_renewed = self.is_to_be_renewed.load(Ordering::Relaxed)
            && now < self.fresh_until + DetailMemory::QUEUE_PATIENCE;
        let is_being_renewed = self.is_being_renewed.load(Ordering::Relaxed);
        (is_soon_renewed || is_being_renewed) && self.outlives()
    }

    /// Whether it may be told though nothing was learned since: of an id that was unknown, anything
    /// may have become.
    fn outlives(&self) -> bool {
        matches!(self.known, Known::Found(_)) && self.looked_at.elapsed() < DetailMemory::OUTLIVES
    }
}

/// Keeps the newest that this process has seen of each activity.
///
/// What is asked for again and again is renewed in the background before it lapses, so that nobody
/// waits for it: until that has come to an end, it is told as it was.
pub(super) struct DetailMemory {
    held: Cache<ActivityId, Arc<Held>>,
    life: Duration,
    renewals: OnceLock<mpsc::Sender<ActivityId>>,
}

impl DetailMemory {
    const CAPACITY: u64 = 10_000;
    /// How long what was seen last is told, and nothing older believed, when nobody answers.
    const OUTLIVES: Duration = Duration::from_mins(1);
    const UNKNOWN_LIFE: Duration = Duration::from_secs(1);
    const RENEWALS_WAITING: usize = 1_000;
    /// How long what has lapsed is told while its renewal waits for others.
    const QUEUE_PATIENCE: Duration = Duration::from_secs(2);

    pub(super) fn new(life: Duration) -> Self {
        let held = Cache::builder()
            .max_capacity(Self::CAPACITY)
            .time_to_live(Self::OUTLIVES)
            .build();
        Self {
            held,
            life,
            renewals: OnceLock::new(),
        }
    }

    /// What may be told without a look.
    pub(super) async fn get(&self, id: ActivityId) -> Option<Known> {
        let held = self.held.get(&id).await?;
        let now = Instant::now();
        let is_told = if now < held.fresh_until {
            if now >= held.renew_at {
                self.ask_for_renewal(id, &held);
            }
            true
        } else {
            held.is_told_on(now)
        };
        is_told.then(|| held.known.clone())
    }

    /// What may be told without a look and was found by another one than that of `past`.
    pub(super) async fn get_since(&self, id: ActivityId, past: Option<Instant>) -> Option<Known> {
        let held = self.held.get(&id).await?;
        let is_new = Some(held.looked_at) != past && Instant::now() < held.fresh_until;
        is_new.then(|| held.known.clone())
    }

    /// When it was looked at, however long ago.
    pub(super) async fn looked_at(&self, id: ActivityId) -> Option<Instant> {
        Some(self.held.get(&id).await?.looked_at)
    }

    /// The newest that this process has seen lately, however long ago it was looked at.
    pub(super) async fn newest(&self, id: ActivityId) -> Option<Known> {
        Some(self.held.get(&id).await?.known.clone())
    }

    /// Keeps what a look at `looked_at` found, unless something newer is known; answers what is known
    /// then.
    pub(super) async fn remember(
        &self,
        id: ActivityId,
        known: &Known,
        looked_at: Instant,
    ) -> Known {
        let life = match known {
            Known::Found(_) => self.life,
            Known::Unknown => self.life.min(Self::UNKNOWN_LIFE),
        };
        let kept = self.put_if(id, |held| {
            let is_newer = held.is_none_or(|held| known.is_at_least(&held.known));
            is_newer.then(|| Held::new(known.clone(), looked_at, life))
        });
        let kept = kept.await;
        kept.map_or_else(|| known.clone(), |held| held.known.clone())
    }

    /// After a look that found nothing newer than that of `past`, or nothing at all: what is held is
    /// told for another while, as long as it may be; answers it then.
    pub(super) async fn keep_telling(
        &self,
        id: ActivityId,
        past: Option<Instant>,
    ) -> Option<Known> {
        self.put_if(id, |held| {
            let held = held.filter(|held| Some(held.looked_at) == past && held.outlives())?;
            Some(Held::new(held.known.clone(), held.looked_at, self.life))
        })
        .await;
        self.get(id).await
    }

    /// Where renewals are asked for from now on; `None` if somebody else has it.
    pub(super) fn take_renewals(&self) -> Option<mpsc::Receiver<ActivityId>> {
        let (sender, receiver) = mpsc::channel(Self::RENEWALS_WAITING);
        self.renewals.set(sender).ok().map(|()| receiver)
    }

    /// Begins a renewal that was asked for; answers when the id was looked at before, `None` when
    /// somebody else has looked since.
    pub(super) async fn begin_renewal(&self, id: ActivityId) -> Option<Instant> {
        let held = self.held.get(&id).await?;
        if !held.is_to_be_renewed.load(Ordering::Relaxed) {
            return None;
        }
        held.is_being_renewed.store(true, Ordering::Relaxed);
        Some(held.looked_at)
    }

    fn ask_for_renewal(&self, id: ActivityId, held: &Held) {
        let Some(renewals) = self.renewals.get() else {
            return;
        };
        let is_asked_for = held.is_to_be_renewed.swap(true, Ordering::Relaxed);
        if !is_asked_for && renewals.try_send(id).is_err() {
            held.is_to_be_renewed.store(false, Ordering::Relaxed);
        }
    }

    /// Answers what is held then.
    async fn put_if(
        &self,
        id: ActivityId,
        decide: impl FnOnce(Option<&Held>) -> Option<Held>,
    ) -> Option<Arc<Held>> {
        let putting = self.held.entry(id).and_compute_with(|held| {
            let held = held.map(moka::Entry::into_value);
            let decided = decide(held.as_deref());
            std::future::ready(decided.map_or(Op::Nop, |held| Op::Put(Arc::new(held))))
        });
        putting.await.into_entry().map(moka::Entry::into_value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::detail;
    use super::*;

    const ID: ActivityId = ActivityId(7);

    fn version(version: u32) -> Known {
        let mut detail = detail();
        detail.version = version;
        Known::Found(Arc::new(detail))
    }

    async fn told(memory: &DetailMemory) -> Option<u32> {
        match memory.get(ID).await? {
            Known::Found(detail) => Some(detail.version),
            Known::Unknown => Some(0),
        }
    }

    #[tokio::test]
    async fn an_older_version_is_not_remembered_and_a_known_activity_never_unknown() {
        let memory = DetailMemory::new(Duration::from_hours(1));

        memory.remember(ID, &Known::Unknown, Instant::now()).await;
        assert_eq!(told(&memory).await, Some(0));
        for (found, newest) in [
            (version(3), 3),
            (version(2), 3),
            (Known::Unknown, 3),
            (version(4), 4),
        ] {
            let answered = memory.remember(ID, &found, Instant::now()).await;
            assert!(matches!(answered, Known::Found(detail) if detail.version == newest));
            assert_eq!(told(&memory).await, Some(newest));
        }
    }

    #[tokio::test]
    async fn what_lapses_is_told_on_while_it_is_renewed_or_nobody_answers() {
        let memory = DetailMemory::new(Duration::ZERO);
        let mut renewals = memory.take_renewals().unwrap();
        assert!(memory.take_renewals().is_none(), "it is taken");
        let looked_at = Instant::now();
        memory.remember(ID, &version(1), looked_at).await;

        assert_eq!(told(&memory).await, None, "it has lapsed");
        let held = memory.held.get(&ID).await.unwrap();
        memory.ask_for_renewal(ID, &held);
        memory.ask_for_renewal(ID, &held);
        assert_eq!(told(&memory).await, Some(1), "it is to be renewed");
        assert_eq!(renewals.try_recv().ok(), Some(ID));
        assert!(renewals.try_recv().is_err(), "asked for twice");

        memory.keep_telling(ID, Some(looked_at)).await;
        assert_eq!(told(&memory).await, None, "the renewal has ended");
        let held = memory.held.get(&ID).await.unwrap();
        assert_eq!(held.looked_at, looked_at, "nothing was seen since");
        memory.remember(ID, &version(2), Instant::now()).await;
        memory.keep_telling(ID, Some(looked_at)).await;
        let held = memory.held.get(&ID).await.unwrap();
        assert_ne!(held.looked_at, looked_at, "it was looked at meanwhile");
    }

    #[tokio::test]
    async fn what_has_lapsed_waits_two_seconds_for_the_renewal_of_others_and_longer_for_its_own() {
        let memory = DetailMemory::new(Duration::ZERO);
        let _renewals = memory.take_renewals().unwrap();
        let looked_at = Instant::now();
        memory.remember(ID, &version(1), looked_at).await;
        assert_eq!(memory.begin_renewal(ID).await, None, "nobody asked for it");
        let held = memory.held.get(&ID).await.unwrap();
        memory.ask_for_renewal(ID, &held);

        let soon = held.fresh_until + Duration::from_millis(1_900);
        let later = held.fresh_until + Duration::from_millis(2_100);
        assert!(held.is_told_on(soon));
        assert!(!held.is_told_on(later));
        assert_eq!(memory.begin_renewal(ID).await, Some(looked_at));
        assert!(held.is_told_on(later), "somebody is looking");
        memory.keep_telling(ID, Some(looked_at)).await;
        assert_eq!(memory.begin_renewal(ID).await, None, "it has ended");
    }

    #[tokio::test]
    async fn what_was_seen_too_long_ago_or_unknown_is_not_told_on() {
        let memory = DetailMemory::new(Duration::from_hours(1));
        let long_ago = Instant::now().checked_sub(DetailMemory::OUTLIVES).unwrap();
        memory.remember(ID, &version(1), long_ago).await;
        let unknown = ActivityId(8);
        let now = Instant::now();
        memory.remember(unknown, &Known::Unknown, now).await;

        for (id, past) in [(ID, long_ago), (unknown, now)] {
            let before = memory.held.get(&id).await.unwrap();
            memory.keep_telling(id, Some(past)).await;
            let after = memory.held.get(&id).await.unwrap();
            assert!(Arc::ptr_eq(&before, &after), "{id} is told on");
        }
        let held = memory.held.get(&unknown).await.unwrap();
        let left = held.fresh_until - now;
        assert!(left <= DetailMemory::UNKNOWN_LIFE, "unknown for {left:?}");
    }

    #[tokio::test]
    async fn what_was_seen_together_does_not_lapse_together() {
        let memory = DetailMemory::new(Duration::from_secs(1));
        let mut lapses = std::collections::BTreeSet::new();
        let now = Instant::now();
        for id in 1..=50 {
            let id = ActivityId(id);
            memory.remember(id, &version(1), now).await;
            let held = memory.held.get(&id).await.unwrap();
            assert!(held.renew_at < held.fresh_until);
            lapses.insert((held.fresh_until - now).as_millis());
        }
        assert!(lapses.len() > 10, "{lapses:?}");
    }
}
