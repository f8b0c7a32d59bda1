//! Waiting for a value, never for a duration.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// Long enough for a busy machine; a test that needs it all has failed anyway.
const PATIENCE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(25);

/// Asks until `ask` answers `Ok`, and panics with its last `Err` when that takes too long.
#[track_caller]
pub(crate) fn eventually<T, E: Debug>(
    what: &str,
    ask: impl AsyncFn() -> Result<T, E>,
) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let started = Instant::now();
        loop {
            match ask().await {
                Ok(value) => return value,
                Err(last) if started.elapsed() > PATIENCE => {
                    panic!("{caller}: waited in vain for {what}; last: {last:?}")
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
