//! Statistics at exit, where `RIG_POOL_STATS` asks for them (S11.6).
//!
//! The C runtime, by which every native program exits, calls a function of this file. It runs once,
//! on the thread that exits, beside whatever other threads still do.

use crate::settings;
use std::ffi::c_int;
use std::io::Write;
use std::sync::OnceLock;

/// Has `text` asked and written to the standard error at exit, if the environment says so; the
/// first call counts.
pub(crate) fn print_stats(text: fn() -> String) {
    if !settings::stats() {
        return;
    }
    TEXT.get_or_init(|| {
        // SAFETY: the C runtime has `atexit` with this signature. What it calls is a function of
        // this program, which stays, and which neither unwinds nor exits.
        let refused = unsafe { atexit(print) } != 0;
        if refused {
            tracing::warn!("the C runtime runs no more functions at exit");
        }
        text
    });
}

extern "C" fn print() {
    let _ = std::panic::catch_unwind(|| {
        if let Some(text) = TEXT.get() {
            // A closed standard error is no reason to fail at exit.
            let _ = writeln!(std::io::stderr(), "{}", text());
        }
    });
}

unsafe extern "C" {
    fn atexit(f: extern "C" fn()) -> c_int;
}

/// What is asked at exit, once it is to be asked.
static TEXT: OnceLock<fn() -> String> = OnceLock::new();
