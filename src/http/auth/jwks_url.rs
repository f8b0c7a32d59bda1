//! Public keys from a URL, fetched again from time to time and for a key that nobody knows.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::Uri;
use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{AuthError, jwks_fetch::Fetcher, key_slot::KeySlot};
use crate::settings::AuthSettings;

/// How long a source that has never answered is left alone.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A URL of keys.
#[derive(Debug)]
pub(super) struct JwksUrl {
    fetcher: Fetcher,
    keys: Arc<KeySlot>,
    refresh: Duration,
    /// Least time between two fetches, whoever wants them.
    least_pause: Duration,
    timeout: Duration,
    gate: Mutex<Gate>,
    wanted: Notify,
    /// Counts the fetches that have ended.
    ended: watch::Sender<u64>,
}

/// Lets one fetch through at a time, and none too soon after the last.
#[derive(Debug, Default)]
struct Gate {
    /// A fetch is under way or about to begin.
    is_taken: bool,
    not_before: Option<Instant>,
}

impl JwksUrl {
    /// `None` when no URL is configured.
    pub(super) fn new(settings: &AuthSettings) -> Result<Option<Self>, AuthError> {
        let url = settings.jwks_url.expose_secret();
        if url.is_empty() {
            return Ok(None);
        }
        let uri: Uri = url
            .parse()
            .map_err(|_| AuthError::JwksUrl("it is not a URL".to_owned()))?;
        let timeout = settings.jwks_timeout_ms.duration();
        Ok(Some(Self {
            fetcher: Fetcher::new(uri, timeout).map_err(AuthError::JwksUrl)?,
            keys: Arc::new(KeySlot::new("jwks_url")),
            refresh: settings.jwks_refresh_secs.duration(),
            least_pause: settings.jwks_least_pause_secs.duration(),
            timeout,
            gate: Mutex::default(),
            wanted: Notify::new(),
            ended: watch::Sender::new(0),
        }))
    }

    pub(super) fn keys(&self) -> Arc<KeySlot> {
        Arc::clone(&self.keys)
    }

    /// Resolves once there are keys.
    pub(super) async fn wait_for_keys(&self) {
        let mut ended = self.ended.subscribe();
        while !self.keys.is_loaded() {
            // The sender lives as long as we do.
            if ended.changed().await.is_err() {
                return;
            }
        }
    }

    /// Fetches until `stop`: this task alone, so that no caller who goes away ends a fetch.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(self.fetch()).await.is_some() {
            let next = Instant::now() + self.pause();
            if stop.run_until_cancelled(self.wait(next)).await.is_none() {
                return;
            }
        }
    }

    /// Whether a fetch has ended since this was called: one that is under way, or one that is begun
    /// for it, unless the last is too short a time ago.
    pub(super) async fn was_fetched_again(&self) -> bool {
        let mut ended = {
            let mut gate = self.gate.lock();
            if !gate.is_taken {
                if gate.not_before.is_some_and(|at| Instant::now() < at) {
                    return false;
                }
                gate.is_taken = true;
                self.wanted.notify_one();
            }
            self.ended.subscribe()
        };
        // A little more than the fetch itself may take.
        let patience = self.timeout + Duration::from_millis(200);
        let fetched = tokio::time::timeout(patience, ended.changed()).await;
        matches!(fetched, Ok(Ok(())))
    }

    async fn fetch(&self) {
        self.gate.lock().is_taken = true;
        match self.fetcher.fetch().await {
            Ok(bytes) => {
                if let Err(error) = self.keys.adopt(&bytes) {
                    self.keys.failed(&error);
                }
            }
            Err(error) => self.keys.failed(&error as &(dyn Error + 'static)),
        }
        *self.gate.lock() = Gate {
            is_taken: false,
            not_before: Some(Instant::now() + self.least_pause),
        };
        self.ended.send_modify(|count| *count += 1);
    }

    /// The time to the next fetch that nobody asks for.
    fn pause(&self) -> Duration {
        if self.keys.is_fresh() {
            self.refresh
        } else if self.keys.is_loaded() {
            self.refresh.min(self.least_pause)
        } else {
            FIRST_PAUSE
        }
    }

    /// Resolves when the next fetch is due or asked for.
    async fn wait(&self, next: Instant) {
        let due = tokio::time::sleep_until(next.into());
        tokio::pin!(due);
        loop {
            tokio::select! {
                () = &mut due => return,
                () = self.wanted.notified() => {
                    // Else the wish was granted by a fetch that was due at the same moment.
                    if self.gate.lock().is_taken {
                        return;
                    }
                }
            }
        }
    }
}
