//! What a page, or a worker of one, gives to a program that wasm-bindgen binds: the time, and
//! timers for the maintenance tick. One thread.

use crate::embed::{pass, set_poked};
use crate::sync::plain::Mutex;
use crate::sync::set_clock;
use std::time::Duration;
use wasm_bindgen::prelude::{Closure, wasm_bindgen};

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance)]
    fn now() -> f64;
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(f: &Closure<dyn FnMut()>, ms: f64) -> f64;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timer: f64);
}

/// Takes the page's time and timers, unless the program gave its own.
pub(crate) fn take_page() {
    set_clock(now_ns);
    set_poked(|| pass_after(Duration::ZERO));
}

/// Returns the nanoseconds since the page began.
fn now_ns() -> u64 {
    (now() * 1e6) as u64
}

/// Makes a pass of the tick due after a while, unless one is due before.
fn pass_after(wait: Duration) {
    let at_ns = now_ns() + wait.as_nanos() as u64;
    let mut due = DUE.lock();
    match *due {
        Some(due) if due.at_ns <= at_ns => return,
        Some(due) => clear_timeout(due.timer),
        None => {}
    }
    let ms = wait.as_nanos().div_ceil(1_000_000) as f64;
    *due = Some(Due { at_ns, timer: PASS.with(|pass| set_timeout(pass, ms)) });
}

fn pass_now() {
    *DUE.lock() = None;
    if let Some(wait) = pass() {
        pass_after(wait);
    }
}

/// A timer that runs.
#[derive(Clone, Copy)]
struct Due {
    at_ns: u64,
    /// Its number, by which it is cleared.
    timer: f64,
}

/// Guards the timer. A leaf lock.
static DUE: Mutex<Option<Due>> = Mutex::new(None);
thread_local! {
    /// A pass, as the page calls it.
    static PASS: Closure<dyn FnMut()> = Closure::new(pass_now);
}
