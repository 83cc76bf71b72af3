//! What the page calls: the laws by number, and the promises.

use crate::bench::TURN;
use crate::listed::LAWS;
use crate::promises::{self, Promise};
use rig::driver::Driver;
use rig::drivers;
use rig::wgpu::Options;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use wasm_bindgen::prelude::wasm_bindgen;

#[link(wasm_import_module = "../turn.mjs")]
unsafe extern "C" {
    /// Lets a turn of the event loop pass; the page suspends this half for it.
    safe fn turn();
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = globalThis)]
    fn panicked(text: &str);
}

/// Gets ready.
#[wasm_bindgen(start)]
fn start() {
    std::panic::set_hook(Box::new(|panic| panicked(&panic.to_string())));
    let _ = TURN.set(|| turn());
}

/// Answers the names of the laws.
#[wasm_bindgen]
pub fn laws() -> Vec<String> {
    LAWS.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// Answers the names of the promises.
#[wasm_bindgen]
pub fn promises() -> Vec<String> {
    promises::ALL.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// Runs a law on a GPU of its own. It is called as it is exported, without what wasm-bindgen puts
/// around calls, since that cannot be suspended.
#[unsafe(no_mangle)]
extern "C" fn law(number: u32) {
    (LAWS[number as usize].1)(&|| finished(drivers::wgpu::driver(Options::default())));
}

/// Runs a promise on a GPU of its own.
#[wasm_bindgen]
pub async fn promise(number: usize) {
    let run: Promise = promises::ALL[number].1;
    let gpu = rig::wgpu::open_async(Options::default()).await.expect("the page has a GPU");
    run(gpu).await.expect("nothing fails");
}

/// Waits by turns until a driver is open.
fn finished<E: std::fmt::Debug>(
    opening: impl Future<Output = Result<Arc<dyn Driver>, E>>,
) -> Arc<dyn Driver> {
    let mut opening = pin!(opening);
    loop {
        match opening.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(opened) => return opened.expect("the page has a GPU"),
            Poll::Pending => turn(),
        }
    }
}
