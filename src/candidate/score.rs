//! A user's place in the draw, a pure function of the seed and the user id.

use std::cmp::Ordering;

use rand_chacha::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};

use crate::{activity::Seed, kernel::UserId};

/// Uniform in [0, 1): a multiple of 2^-53, so it is exact as a double.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Score(f64);

impl Score {
    pub const fn value(self) -> f64 {
        self.0
    }

    /// The shortest text that reads back as the same number, as scripts and Redis take it.
    pub fn to_text(self) -> String {
        self.0.to_string()
    }
}

/// Where a user stands among all entrants of an activity.
///
/// The same on every call: a redelivery, a return to the room and a rebuilt pool all give the same.
/// Rule version 1: `ChaCha20` with the activity's seed as key and the user id as stream; the first
/// 64-bit word gives the score, the second breaks ties, then the lower user id wins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    pub score: Score,
    pub tie_breaker: u64,
    pub user_id: UserId,
}

impl Standing {
    pub fn of(seed: &Seed, user_id: UserId) -> Self {
        let mut keystream = ChaCha20Rng::from_seed(seed.bytes());
        keystream.set_stream(user_id.0);
        let u = keystream.next_u64() >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
        let score = u as f64 / (1_u64 << 53) as f64;
        Self {
            score: Score(score),
            tie_breaker: keystream.next_u64(),
            user_id,
        }
    }

    /// Best first: higher score, then higher tie breaker, then lower user id.
    pub fn rank(&self, other: &Self) -> Ordering {
        other
            .score
            .0
            .total_cmp(&self.score.0)
            .then(other.tie_breaker.cmp(&self.tie_breaker))
            .then(self.user_id.cmp(&other.user_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::MAX_ID;

    fn golden_seed() -> Seed {
        Seed::new(std::array::from_fn(|i| u8::try_from(i).unwrap()))
    }

    /// The published vectors: a library update must not change who would win.
    #[test]
    fn scores_are_the_published_ones() {
        #[expect(clippy::unreadable_literal, reason = "as published")]
        let vectors = [
            (0, 0.41445576247967597),
            (1, 0.5373306460705352),
            (12345, 0.8402442844105557),
            (1000000007, 0.35505634199088143),
            (MAX_ID, 0.3086432433660947),
        ];
        for (user_id, score) in vectors {
            let standing = Standing::of(&golden_seed(), UserId(user_id));
            assert_eq!(
                standing.score.value().to_bits(),
                f64::to_bits(score),
                "user {user_id}"
            );
        }
    }

    #[test]
    fn a_score_survives_its_text() {
        for user_id in 1..2_000 {
            let score = Standing::of(&golden_seed(), UserId(user_id)).score;
            assert_eq!(
                score.to_text().parse::<f64>().unwrap().to_bits(),
                score.value().to_bits()
            );
        }
    }

    #[test]
    fn equal_scores_are_ranked_by_the_second_word_and_then_by_user_id() {
        let score = Score(0.5);
        let a = Standing {
            score,
            tie_breaker: 9,
            user_id: UserId(8),
        };
        let b = Standing {
            score,
            tie_breaker: 4,
            user_id: UserId(1),
        };
        let c = Standing {
            score,
            tie_breaker: 4,
            user_id: UserId(2),
        };
        let mut ranked = [c, b, a];

        ranked.sort_by(Standing::rank);

        assert_eq!(ranked, [a, b, c]);
    }
}
