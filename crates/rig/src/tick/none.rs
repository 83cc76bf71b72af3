//! The maintenance tick where there is one thread: the embedder's timer calls `pass_here`.

use crate::sync::{AtomicBool, Ordering};

/// Asks for a pass; answers whether nobody did before.
pub(crate) fn poke() -> bool {
    POKED.store(true, Ordering::Relaxed);
    !STARTED.swap(true, Ordering::Relaxed)
}

/// Starts nothing.
pub(crate) fn start() {}

/// Whether somebody waits for a pass; forgets it.
pub(crate) fn take_poke() -> bool {
    POKED.swap(false, Ordering::Relaxed)
}

static POKED: AtomicBool = AtomicBool::new(false);
static STARTED: AtomicBool = AtomicBool::new(false);
