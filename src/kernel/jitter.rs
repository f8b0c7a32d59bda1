//! Lives that do not all end in the same moment.

use std::time::Duration;

use rand::RngExt;

/// `life`, or up to a twentieth less: what was kept together does not lapse together.
pub fn jittered(life: Duration) -> Duration {
    life.mul_f64(rand::rng().random_range(0.95..1.0))
}
