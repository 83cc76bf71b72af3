//! The thread of the maintenance tick, which sleeps until a pass is due or somebody asks for one.
//!
//! `STATE` is a leaf lock; nothing is called under it.

use crate::collector::panic_text;
use crate::tick::{WAIT_NS, pass};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Asks for a pass; answers whether nobody did before.
pub(crate) fn poke() -> bool {
    let first = {
        let mut state = STATE.lock();
        state.poked = true;
        !std::mem::replace(&mut state.started, true)
    };
    WAKE.notify_one();
    first
}

/// Starts the thread; called once.
pub(crate) fn start() {
    // Where threads cannot be had, the embedder's timer calls `pass_here`.
    let _ = std::thread::Builder::new().name("rig-tick".into()).spawn(run);
}

/// Whether somebody waits for a pass; forgets it.
pub(crate) fn take_poke() -> bool {
    std::mem::take(&mut STATE.lock().poked)
}

fn run() {
    let mut paces = Vec::new();
    loop {
        // A waker that panics is its program's: other devices are looked after all the same.
        let passed = catch_unwind(AssertUnwindSafe(|| pass(&mut paces)));
        let wait = passed.unwrap_or_else(|panic| {
            tracing::error!("a waker panicked: {}", panic_text(&*panic));
            Some(WAIT_NS)
        });
        let mut state = STATE.lock();
        if !state.poked {
            match wait {
                Some(wait_ns) => {
                    WAKE.wait_for(&mut state, Duration::from_nanos(wait_ns));
                }
                None => WAKE.wait(&mut state),
            }
        }
        state.poked = false;
    }
}

struct State {
    started: bool,
    poked: bool,
}

/// Guards whether the thread runs and has to pass at once.
static STATE: Mutex<State> = Mutex::new(State { started: false, poked: false });
static WAKE: Condvar = Condvar::new();
