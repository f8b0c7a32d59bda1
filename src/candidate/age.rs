//! How old what came in is by the time it is dealt with.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;

use crate::kernel::Timestamp;

/// Tells the time.
type Now = Box<dyn Fn() -> Timestamp + Send + Sync>;

/// The ages of the messages in hand, and of those that were dealt with since the last look.
pub(in crate::candidate) struct Ages {
    now: Now,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    next_number: u64,
    in_hand: BTreeMap<u64, Timestamp>,
    oldest_done: Duration,
}

/// A message in hand until this is dropped.
pub(in crate::candidate) struct InHand<'a> {
    ages: &'a Ages,
    number: u64,
}

impl Ages {
    pub(in crate::candidate) fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self {
            now: Box::new(now),
            held: Mutex::default(),
        }
    }

    /// Takes a message in hand whose newest event happened at `at`.
    pub(in crate::candidate) fn take_up(&self, at: Timestamp) -> InHand<'_> {
        let mut held = self.held.lock();
        let number = held.next_number;
        held.next_number += 1;
        held.in_hand.insert(number, at);
        InHand { ages: self, number }
    }

    /// The age of the oldest; zero when there was none since the last look.
    pub(in crate::candidate) fn look(&self) -> Duration {
        let now = (self.now)();
        let mut held = self.held.lock();
        let done = std::mem::take(&mut held.oldest_done);
        let in_hand = held.in_hand.values().map(|at| age(*at, now));
        in_hand.fold(done, Duration::max)
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let now = (self.ages.now)();
        let mut held = self.ages.held.lock();
        if let Some(at) = held.in_hand.remove(&self.number) {
            held.oldest_done = held.oldest_done.max(age(at, now));
        }
    }
}

fn age(at: Timestamp, now: Timestamp) -> Duration {
    (now - at).to_std().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    };

    use chrono::TimeDelta;

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + TimeDelta::seconds(secs)
    }

    #[test]
    fn a_message_ages_while_it_is_held_and_its_age_is_shown_once_more_after_that() {
        let clock = Arc::new(AtomicI64::new(100));
        let shown = Arc::clone(&clock);
        let ages = Ages::new(move || at(shown.load(Ordering::Relaxed)));
        let after = |secs| {
            clock.store(secs, Ordering::Relaxed);
            ages.look().as_secs()
        };

        assert_eq!(after(100), 0);
        let old = ages.take_up(at(95));
        let ahead = ages.take_up(at(130));
        assert_eq!(after(101), 6);
        assert_eq!(after(120), 25);
        clock.store(121, Ordering::Relaxed);
        drop(old);
        assert_eq!(after(125), 26);
        assert_eq!(after(126), 0, "what is ahead has no age");
        drop(ahead);
        assert_eq!(after(140), 0);
    }
}
