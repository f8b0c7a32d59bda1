//! Whole giveaways on Redis servers that are the test's own: emptied at the worst moments, and a
//! cluster.

mod cluster;
mod emptied;
mod giveaway;
mod proofs;
