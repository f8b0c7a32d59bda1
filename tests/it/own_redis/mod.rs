//! Whole giveaways on Redis servers that are the test's own: emptied at the worst moments, full, and
//! a cluster.

mod cluster;
mod emptied;
mod full;
mod giveaway;
mod proofs;
