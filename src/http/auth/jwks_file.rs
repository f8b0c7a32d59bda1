//! Public keys from a file, read again when it changes.

use std::{
    fs::{File, Metadata},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{error::JwksFileError, key_set::SIZE_LIMIT_BYTES, key_slot::KeySlot};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A file of keys.
#[derive(Debug)]
pub(super) struct JwksFile {
    path: PathBuf,
    keys: Arc<KeySlot>,
    /// Of the content that was taken last; a file that could not be used is looked at again.
    taken: Mutex<Option<Stamp>>,
}

/// Differs when the file was written or another one was put in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    inode: u64,
    size: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            modified: metadata.modified().ok(),
            inode: metadata.ino(),
            size: metadata.size(),
        }
    }
}

impl JwksFile {
    /// Reads the file, which must be there and have a usable key.
    pub(super) fn open(path: &Path) -> Result<Self, JwksFileError> {
        let file = Self {
            path: path.to_owned(),
            keys: Arc::new(KeySlot::new("jwks_file")),
            taken: Mutex::default(),
        };
        file.take()?;
        Ok(file)
    }

    pub(super) fn keys(&self) -> Arc<KeySlot> {
        Arc::clone(&self.keys)
    }

    /// Looks at the file once a second until `stop`.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(every.tick()).await.is_some() {
            let file = Arc::clone(&self);
            let look = tokio::task::spawn_blocking(move || file.look());
            // A file on a server that hangs must not hold up the stop.
            if let Some(Err(error)) = stop.run_until_cancelled(look).await {
                self.keys.failed(&error);
            }
        }
    }

    fn look(&self) {
        if let Err(error) = self.take() {
            self.keys.failed(&error);
        }
    }

    /// Takes the content, unless it is that of the last time and nothing went wrong since.
    fn take(&self) -> Result<(), JwksFileError> {
        let metadata = std::fs::metadata(&self.path)?;
        if !metadata.is_file() {
            return Err(JwksFileError::NotAFile);
        }
        // Taken before the content: what is written meanwhile gives another one next time.
        let stamp = Stamp::of(&metadata);
        if *self.taken.lock() == Some(stamp) && self.keys.is_fresh() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let limit = SIZE_LIMIT_BYTES as u64 + 1;
        File::open(&self.path)?
            .take(limit)
            .read_to_end(&mut bytes)?;
        self.keys.adopt(&bytes)?;
        *self.taken.lock() = Some(stamp);
        Ok(())
    }
}
