//! Files of tests.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A path that no other test has; whatever is there goes with this value.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a path at which nothing is.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("rig-test-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing is there where the test made nothing.
        let _ = std::fs::remove_file(&self.0);
    }
}
