//! Two versions side by side: what a newer one leaves behind, an older one leaves alone.

mod migrations;
mod newer_things;
mod side_by_side;
