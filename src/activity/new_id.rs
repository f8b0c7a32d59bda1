//! Ids that sort by time and have random low bits.

use rand::RngExt;

use crate::kernel::Timestamp;

const RANDOM_BITS: u32 = 20;

/// A new id: milliseconds since 1970, then 20 random bits; two of one millisecond may collide, so
/// whoever inserts it tries again on a duplicate key.
pub(super) fn new_id(now: Timestamp) -> u64 {
    let millis = u64::try_from(now.timestamp_millis()).unwrap_or(0);
    let random = rand::rng().random_range(0..1_u64 << RANDOM_BITS);
    (millis << RANDOM_BITS) | random
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::MAX_ID;

    #[test]
    fn ids_fit_for_two_centuries_and_grow_with_time() {
        let (early, late) = (
            "2026-01-01T00:00:00Z".parse().unwrap(),
            "2226-01-01T00:00:00Z".parse().unwrap(),
        );

        assert!(new_id(early) < new_id(late));
        assert!(new_id(late) <= MAX_ID);
    }
}
