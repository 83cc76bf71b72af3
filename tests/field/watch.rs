//! Threads with a watchdog, and futures polled by hand.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// A function that runs on a thread of its own.
pub(crate) struct Running<T> {
    what: &'static str,
    answer: Receiver<T>,
    thread: JoinHandle<()>,
}

/// Runs a function on a thread of its own.
pub(crate) fn begin<T: Send + 'static>(
    what: &'static str,
    f: impl FnOnce() -> T + Send + 'static,
) -> Running<T> {
    let (told, answer) = channel();
    let thread = std::thread::spawn(move || drop(told.send(f())));
    Running { what, answer, thread }
}

impl<T> Running<T> {
    /// Whether the function has not returned yet.
    pub(crate) fn runs(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Returns what the function returned; panics with it, and after a minute without it.
    pub(crate) fn end(self) -> T {
        match self.answer.recv_timeout(WATCHDOG) {
            Ok(answer) => {
                self.thread.join().expect("it returned");
                answer
            }
            Err(RecvTimeoutError::Timeout) => panic!("{} is stuck", self.what),
            Err(RecvTimeoutError::Disconnected) => {
                let panic = self.thread.join().expect_err("it returned nothing");
                std::panic::resume_unwind(panic)
            }
        }
    }
}

/// Polls a future once, with nobody to wake.
pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls a future until it ends.
pub(crate) fn end<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
        std::thread::yield_now();
    }
}

/// Keeps away who has to be [`alone`]: the caller's rounds drain every device there is.
pub(crate) fn rounds() -> RwLockReadGuard<'static, ()> {
    ROUNDS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps away every test whose rounds drain this one's devices too.
pub(crate) fn alone() -> RwLockWriteGuard<'static, ()> {
    ROUNDS.write().unwrap_or_else(PoisonError::into_inner)
}

/// Guards nothing but the quiet of one test.
static ROUNDS: RwLock<()> = RwLock::new(());

/// How long anything may take.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);
