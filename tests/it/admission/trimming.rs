//! A trimmed pool beside an untrimmed one: the same joins, the same people leaving, the same seed.

use luckybag::candidate::{PresenceKind, SelectionPath, StreamMessage};
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::rig::{Bag, Rig, ranked, users};

const JOINS: u64 = 3_000;
const TRIM_AFTER: u64 = 200;
const FLOOR: f64 = 0.9;
/// About 300 reach the floor, so that this many do not any more once nine in ten have left.
const SEATS: u32 = 30;
/// In per cent.
const LEAVE_RATES: [u64; 7] = [0, 50, 88, 90, 92, 95, 99];
const BATCH: usize = 200;

/// Both pools, and who is still there.
struct Pair {
    trimmed: Rig,
    whole: Rig,
    /// Those who are there; who leaves next stands last.
    present: Vec<u64>,
    now_ms: i64,
}

impl Pair {
    async fn start() -> Self {
        let trimming = Bag {
            trim_after: TRIM_AFTER,
            trim_floor: FLOOR,
            ..Bag::default()
        };
        let (trimmed, whole) = tokio::join!(Rig::start(trimming), Rig::start(Bag::default()));
        let mut present: Vec<u64> = (1..=JOINS).collect();
        present.shuffle(&mut StdRng::seed_from_u64(88));
        Self {
            trimmed,
            whole,
            present,
            now_ms: 100,
        }
    }

    async fn everybody_joins(&self) {
        let all: Vec<u64> = (1..=JOINS).collect();
        for part in all.chunks(BATCH) {
            self.tell(|rig| rig.joins(part.iter().copied())).await;
        }
    }

    /// The same message, as each rig dates it.
    async fn tell(&self, message: impl Fn(&Rig) -> StreamMessage) {
        let (trimmed, whole) = (message(&self.trimmed), message(&self.whole));
        tokio::join!(
            Box::pin(self.trimmed.handle(vec![trimmed])),
            Box::pin(self.whole.handle(vec![whole]))
        );
    }

    async fn tell_presence(&mut self, users: &[u64], kind: PresenceKind) {
        self.now_ms += 100;
        for part in users.chunks(BATCH) {
            self.tell(|rig| StreamMessage::Presence {
                events: part
                    .iter()
                    .map(|user| rig.presence(*user, kind, self.now_ms))
                    .collect(),
            })
            .await;
        }
    }

    /// Lets some go and come back, and others go for good until so many in a hundred have left.
    async fn leave(&mut self, rate: u64) {
        let staying = usize::try_from(JOINS * (100 - rate) / 100).unwrap();
        let leaving = self.present.split_off(staying);
        self.tell_presence(&leaving, PresenceKind::Leave).await;
        let restless: Vec<u64> = self.present.iter().copied().step_by(10).collect();
        self.tell_presence(&restless, PresenceKind::Leave).await;
        self.tell_presence(&restless, PresenceKind::Enter).await;
    }

    /// Asserts that both select the right ones, each on the path that the scores leave it.
    async fn assert_same_winners(&self, seats: u32, rate: u64) -> SelectionPath {
        let case = format!("{seats} seats, {rate} % have left");
        let trimmed = self.trimmed.select(seats).await;
        let whole = self.whole.select(seats).await;
        let mut best = ranked(self.present.iter().copied());
        best.truncate(seats.try_into().unwrap());

        assert_eq!(users(&trimmed), best, "{case}, trimmed");
        assert_eq!(trimmed.ranked, whole.ranked, "{case}");
        for selection in [&trimmed, &whole] {
            assert_eq!(selection.joined_count, JOINS, "{case}");
            assert_eq!(
                selection.eligible_count,
                self.present.len() as u64,
                "{case}"
            );
        }
        assert_eq!(
            whole.path,
            SelectionPath::Fast,
            "{case}: all are in the pool"
        );
        let is_full = trimmed.ranked.len() == usize::try_from(seats).unwrap();
        let last = trimmed.ranked.last().expect("winners").score.value();
        let expected = if is_full && last >= FLOOR {
            SelectionPath::Fast
        } else {
            SelectionPath::Exact
        };
        assert_eq!(trimmed.path, expected, "{case}: the last one has {last}");
        trimmed.path
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trimmed_pool_gives_the_winners_of_an_untrimmed_one_however_many_leave() {
    let mut pair = Pair::start().await;
    pair.everybody_joins().await;
    let trimmed = "SELECT COUNT(*) FROM participation WHERE is_trimmed";
    assert!(pair.trimmed.count(trimmed).await > 2_000);
    assert_eq!(pair.whole.count(trimmed).await, 0);

    let mut paths = Vec::new();
    for rate in LEAVE_RATES {
        pair.leave(rate).await;
        for seats in [1, 7, 400] {
            pair.assert_same_winners(seats, rate).await;
        }
        paths.push(pair.assert_same_winners(SEATS, rate).await);
    }

    assert_eq!(
        paths[..3],
        [SelectionPath::Fast; 3],
        "enough reach the floor"
    );
    assert_eq!(paths[4..], [SelectionPath::Exact; 3], "too few do");
    pair.trimmed.assert_counts_add_up().await;
    pair.trimmed.end().await;
    pair.whole.end().await;
}
