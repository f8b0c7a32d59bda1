//! A file for as long as a test needs it.

use std::{fs, path::PathBuf};

/// Removed when dropped.
pub(crate) struct TempFile(PathBuf);

impl TempFile {
    pub(crate) fn new(text: &str) -> Self {
        let name = format!("luckybag-{:016x}.tmp", rand::random::<u64>());
        let file = Self(std::env::temp_dir().join(name));
        file.write(text);
        file
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }

    /// Overwrites the content where it is.
    pub(crate) fn write(&self, text: &str) {
        fs::write(&self.0, text).expect("a temporary file");
    }

    /// Puts another file in its place, as deployments do.
    pub(crate) fn replace(&self, text: &str) {
        let next = Self::new(text);
        fs::rename(&next.0, &self.0).expect("a temporary file");
    }

    pub(crate) fn remove(&self) {
        fs::remove_file(&self.0).expect("a temporary file");
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}
