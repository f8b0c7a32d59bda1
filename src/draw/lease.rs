//! The right to draw one activity, as a value.

use std::time::{Duration, Instant};

use crate::kernel::ActivityId;

/// Proof that this process has claimed the draw of one activity.
///
/// Only a committed claim makes one, so what takes a lease cannot run without it. The token is what
/// counts: every write carries it, and `MySQL` refuses those of an older claim.
#[derive(Debug)]
pub(super) struct DrawLease {
    activity_id: ActivityId,
    token: u64,
    claimed_at: Instant,
    length: Duration,
}

impl DrawLease {
    /// `asked_at` is the moment before the claim was sent: the lease runs at least from there.
    pub(super) fn granted(
        activity_id: ActivityId,
        token: u64,
        asked_at: Instant,
        length: Duration,
    ) -> Self {
        Self {
            activity_id,
            token,
            claimed_at: asked_at,
            length,
        }
    }

    pub(super) fn activity_id(&self) -> ActivityId {
        self.activity_id
    }

    /// Grows with every claim.
    pub(super) fn token(&self) -> u64 {
        self.token
    }

    pub(super) fn claimed_at(&self) -> Instant {
        self.claimed_at
    }

    /// How long a claim or a renewal lasts.
    pub(super) fn length(&self) -> Duration {
        self.length
    }
}
