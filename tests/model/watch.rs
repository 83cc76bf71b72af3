//! A watchdog over commands: a wait that never ends, ends the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Ends the process if no command ends for half a minute.
pub(crate) struct Watch {
    ended: Sender<()>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let (ended, over) = channel();
        std::thread::spawn(move || {
            let mut before = u64::MAX;
            while over.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
                let now = STEPS.load(Ordering::Relaxed);
                if now == before {
                    eprintln!("a command did not end for {WATCHDOG:?}");
                    std::process::abort();
                }
                before = now;
            }
        });
        Self { ended }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.ended.send(());
    }
}

/// How many commands ran, of all programs and threads.
pub(crate) static STEPS: AtomicU64 = AtomicU64::new(0);

const WATCHDOG: Duration = Duration::from_secs(30);
