//! The maintenance tick where there is one thread: the embedder's timer calls `pass_here`.

use crate::sync::{AtomicBool, Ordering};
use std::sync::OnceLock;

/// Sets what is called when a pass is due at once, since somebody waits; it may be called inside
/// any other call, and does nothing but see to it that a pass follows. The first call counts.
pub fn set_poked(poked: fn()) {
    let _ = TOLD.set(poked);
}

/// Asks for a pass; answers whether nobody did before.
pub(crate) fn poke() -> bool {
    POKED.store(true, Ordering::Relaxed);
    if let Some(poked) = TOLD.get() {
        poked();
    }
    !STARTED.swap(true, Ordering::Relaxed)
}

/// Starts nothing.
pub(crate) fn start() {}

/// Whether somebody waits for a pass; forgets it.
pub(crate) fn take_poke() -> bool {
    POKED.swap(false, Ordering::Relaxed)
}

static TOLD: OnceLock<fn()> = OnceLock::new();
static POKED: AtomicBool = AtomicBool::new(false);
static STARTED: AtomicBool = AtomicBool::new(false);
