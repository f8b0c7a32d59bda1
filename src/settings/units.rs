//! Durations of the configuration, never zero.

use std::{num::NonZeroU32, time::Duration};

use serde::{Deserialize, Serialize};

/// A number of seconds above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Secs(NonZeroU32);

impl Secs {
    pub fn get(self) -> u32 {
        self.0.get()
    }

    pub fn duration(self) -> Duration {
        Duration::from_secs(self.0.get().into())
    }
}

/// A number of milliseconds above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Millis(NonZeroU32);

impl Millis {
    pub fn get(self) -> u32 {
        self.0.get()
    }

    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0.get().into())
    }
}
