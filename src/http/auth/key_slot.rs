//! The keys that one source gave last.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use sha2::{Digest, Sha256};

use super::key_set::{KeySet, KeySetFault};
use crate::telemetry::metrics;

/// Holds the last good keys of a source, whatever happens to the source.
#[derive(Debug)]
pub(super) struct KeySlot {
    /// The setting that names the source.
    source: &'static str,
    keys: RwLock<Option<Arc<KeySet>>>,
    digest: Mutex<Option<[u8; 32]>>,
    is_fresh: AtomicBool,
    /// Whether the present trouble was told at `warn`.
    is_told: AtomicBool,
}

impl KeySlot {
    pub(super) fn new(source: &'static str) -> Self {
        metrics::jwks_keys(source, 0);
        Self {
            source,
            keys: RwLock::default(),
            digest: Mutex::default(),
            is_fresh: AtomicBool::default(),
            is_told: AtomicBool::default(),
        }
    }

    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        self.keys.read().clone()
    }

    /// Whether the source has ever given keys.
    pub(super) fn is_loaded(&self) -> bool {
        self.keys.read().is_some()
    }

    /// Whether the source gave keys when it was asked last.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh.load(Ordering::Relaxed)
    }

    /// Takes the keys of `bytes` in place of the present ones.
    pub(super) fn adopt(&self, bytes: &[u8]) -> Result<(), KeySetFault> {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        let is_known = *self.digest.lock() == Some(digest);
        if !is_known {
            let set = KeySet::parse(bytes)?;
            self.tell(&set);
            *self.keys.write() = Some(Arc::new(set));
            *self.digest.lock() = Some(digest);
        }
        metrics::jwks_refreshed(self.source, if is_known { "unchanged" } else { "changed" });
        let was_told = self.is_told.swap(false, Ordering::Relaxed);
        if was_told && is_known {
            tracing::info!(
                jwks.source = self.source,
                "the keys of tokens can be read again"
            );
        }
        self.is_fresh.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps the present keys; says so once.
    pub(super) fn failed(&self, error: &(dyn Error + 'static)) {
        metrics::jwks_refreshed(self.source, "failed");
        self.is_fresh.store(false, Ordering::Relaxed);
        let was_told = self.is_told.swap(true, Ordering::Relaxed);
        if was_told {
            tracing::debug!(
                jwks.source = self.source,
                error,
                "still no fresh keys of tokens"
            );
        } else if self.is_loaded() {
            tracing::warn!(
                jwks.source = self.source,
                error,
                "cannot refresh the keys of tokens; the present ones stay"
            );
        } else {
            tracing::warn!(
                jwks.source = self.source,
                error,
                "waiting for the keys of tokens"
            );
        }
    }

    fn tell(&self, set: &KeySet) {
        for skipped in &set.skipped {
            tracing::warn!(
                jwks.source = self.source,
                jwks.kid = %skipped.kid,
                error = &skipped.why as &dyn Error,
                "a key of the set is not used"
            );
        }
        let kids: Vec<&str> = set
            .keys
            .iter()
            .map(|key| key.kid().unwrap_or("(no kid)"))
            .collect();
        metrics::jwks_keys(self.source, kids.len());
        tracing::info!(
            jwks.source = self.source,
            jwks.kids = %kids.join(" "),
            "keys of tokens read"
        );
    }
}
