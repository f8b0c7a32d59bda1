//! Every eligible participant has the same chance: thousands of draws with seeds of their own,
//! judged by the tests of goodness of fit, and the same tests against selections that are not fair.
//!
//! All seeds come from one fixed number, so a result never changes unless the code does.

mod crowd;
mod draws;
mod fit;
mod pool;
mod power;
mod statistics;
