//! What the tests of promises share: futures polled by hand, bytes to tell apart, halves of their
//! own, and what an answer says.

use rig::bytes::page_bytes;
use rig::{Buffer, Device, Error, Misuse, Result, host};
use rig_support::Script;
use std::fmt::Debug;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Polls a future once; nobody wakes it.
pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future until it is ready, each time it is woken, without blocking in a driver.
pub(crate) fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let (woken, wakes) = Woken::pair();
    loop {
        let mut context = Context::from_waker(&woken);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        wakes.recv_timeout(WATCHDOG).expect("a pending future is woken within a minute");
    }
}

/// A waker that tells a channel.
pub(crate) struct Woken(Sender<()>);

impl Woken {
    pub(crate) fn pair() -> (Waker, Receiver<()>) {
        let (sender, receiver) = channel();
        (Waker::from(Arc::new(Self(sender))), receiver)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

/// Returns what was wrong with a call.
pub(crate) fn misuse<T: Debug>(answer: Result<T>) -> Misuse {
    match answer {
        Err(Error::Misuse { what, .. }) => what,
        other => panic!("{other:?} is no misuse"),
    }
}

/// Returns the device and the reason of a loss.
pub(crate) fn lost<T: Debug>(answer: Result<T>) -> (String, String) {
    match answer {
        Err(Error::Lost { device, why }) => (device.to_string(), why.to_string()),
        other => panic!("{other:?} tells no loss"),
    }
}

/// Returns why something is not supported.
pub(crate) fn unsupported<T: Debug>(answer: Result<T>) -> String {
    match answer {
        Err(Error::Unsupported { why, .. }) => why.to_string(),
        other => panic!("{other:?} is supported"),
    }
}

/// Gives a script halves that no other test uses, one piece each.
pub(crate) fn own_halves(script: Script) -> Script {
    let half_bytes = fresh_half_bytes();
    script.facts(|facts| (facts.half_bytes, facts.piece_bytes) = (half_bytes, half_bytes))
}

/// Returns a size of halves that no other test uses: whole pages, 128 KiB or more.
pub(crate) fn fresh_half_bytes() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(128 << 10);
    NEXT.fetch_add(page_bytes(), Ordering::Relaxed)
}

/// Returns bytes that differ from place to place, and by seed.
pub(crate) fn pattern(len: u64, seed: u64) -> Vec<u8> {
    let word = |at: u64| {
        (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed.wrapping_mul(0x0101_0101_0101_0101)
    };
    let mut bytes = Vec::with_capacity(len as usize + 8);
    (0..len.div_ceil(8)).for_each(|at| bytes.extend_from_slice(&word(at).to_le_bytes()));
    bytes.truncate(len as usize);
    bytes
}

/// Makes a buffer of these bytes.
pub(crate) fn buffer_of(device: &Device, bytes: &[u8]) -> Buffer {
    let buffer = device.create_buffer(bytes.len() as u64).expect("there is room");
    buffer.blit_from(0, bytes).expect("any buffer takes bytes");
    buffer
}

/// Makes a host buffer of these bytes.
pub(crate) fn host_buffer_of(bytes: &[u8]) -> Buffer {
    buffer_of(&host(), bytes)
}

/// Returns a buffer's bytes.
pub(crate) fn bytes_of(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len() as usize];
    buffer.blit_to(0, &mut bytes).expect("any buffer gives its bytes");
    bytes
}

/// Waits until something is so: the drain of a lost device may run on any thread.
pub(crate) fn soon(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < WATCHDOG, "{what} takes too long");
        std::thread::yield_now();
    }
}

/// How long anything may take before a test gives up.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);
