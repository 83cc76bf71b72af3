//! Tests that compare the host's figures run one at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps every other test of this binary waiting while the guard lives.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Guards the host's figures and the count of the heap.
static ALONE: Mutex<()> = Mutex::new(());
