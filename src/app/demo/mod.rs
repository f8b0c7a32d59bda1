//! One small giveaway against a running service, told as it happens.

mod client;
mod crowd;
mod story;

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use self::{client::Client, story::Story};
use super::AppError;
use crate::settings::Settings;

/// Plays one giveaway against the service at `url` with some thousand simulated viewers and prints
/// what happens, ending with the winners.
///
/// # Errors
///
/// [`AppError::Demo`] when the service refuses a call or the story ends otherwise than promised.
pub async fn demo(settings: Settings, url: &str) -> Result<(), AppError> {
    let client = Client::new(url, settings.auth)?;
    Story::new(client).tell().await
}

/// Prints one line of the story.
fn tell(line: impl AsRef<str>) -> Result<(), AppError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", line.as_ref())
        .and_then(|()| out.flush())
        .map_err(|error| AppError::Demo(format!("cannot print: {error}")))
}

/// Lets one line through a second, so that a long step shows its progress.
struct EverySecond(Instant);

impl EverySecond {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn is_due(&mut self) -> bool {
        let is_due = self.0.elapsed() >= Duration::from_secs(1);
        if is_due {
            self.0 = Instant::now();
        }
        is_due
    }
}
