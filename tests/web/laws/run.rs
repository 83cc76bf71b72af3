//! What the page calls: the laws by number, and what the package's instances have besides.

use crate::bench::TURN;
use crate::driver::{Told, Web};
use crate::listed::LAWS;
use crate::page;
use rig::driver::Driver;
use std::cell::RefCell;
use std::sync::Arc;

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Lets a turn of the event loop pass; the page suspends this half for it.
    safe fn turn();
    fn trapped(text: *const u8, len: usize);
}

thread_local! {
    /// The driver under test.
    static WEB: RefCell<Option<Arc<Web>>> = const { RefCell::new(None) };
}

/// Gets ready; the package's settings mean nothing here.
#[unsafe(no_mangle)]
extern "C" fn start(_: u32, _: u32) {
    std::panic::set_hook(Box::new(|panic| tell(&panic.to_string())));
    rig::bytes::set_arrays(page::ARRAYS);
    let _ = TURN.set(|| turn());
}

/// Tells what the trap that follows is about.
fn tell(why: &str) {
    // SAFETY: the page copies the text before it answers.
    unsafe { trapped(why.as_ptr(), why.len()) }
}

/// Says the names of the laws.
#[unsafe(no_mangle)]
extern "C" fn names() {
    LAWS.iter().for_each(|(name, _)| page::say_text(name));
}

/// Runs a law on a GPU device of the page that no work was handed to yet.
#[unsafe(no_mangle)]
extern "C" fn law(number: u32, gpu: u32) {
    let web = Arc::new(Web::new(gpu));
    WEB.set(Some(Arc::clone(&web)));
    let driver: Arc<dyn Driver> = web;
    (LAWS[number as usize].1)(&|| Arc::clone(&driver));
}

/// Nothing is to be done after a call.
#[unsafe(no_mangle)]
extern "C" fn pump() -> f64 {
    -1.0
}

/// Takes what the page tells, and wakes who waits for something of the device, as the package does.
#[unsafe(no_mangle)]
extern "C" fn gpu_woke(_: u32, reached: f64, is_lost: u32, has_rejected: u32) {
    let web = WEB.with_borrow(Clone::clone);
    if let Some(web) = web {
        let (is_lost, has_rejected) = (is_lost != 0, has_rejected != 0);
        web.tell(Told { reached: reached as u64, is_lost, has_rejected });
        web.wake_all();
    }
}
