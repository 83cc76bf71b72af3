//! Values whose commands wait for one submission together, where the program asks for it (S8.8).
//!
//! Each value's commands are judged when it is handed over, and what they need room for is made
//! then, so that what is wrong and what does not fit is found; those of which wgpu refuses none any
//! more share an encoder. A commit submits what waits; so does
//! the 64th value, and whoever looks a millisecond later. What names memory that the program can
//! reach by itself is submitted at once, behind what waits, and so are the program's own functions.
//!
//! wgpu runs a program's callbacks inside a submission, and one may wait for a value of it. So the
//! order of submissions is kept by a lock that its thread can take again; what waits has a leaf
//! lock of its own, under which nothing is called.

use crate::driver::{Fault, HandOver};
use crate::drivers::wgpu::guarded::Guarded;
use crate::drivers::wgpu::line::Line;
use crate::drivers::wgpu::work::{Encoded, Encoder};
use crate::sync::{Mutex, now_ns};
use parking_lot::{ReentrantMutex, ReentrantMutexGuard};
use std::time::Duration;

/// Whether values' work waits to be submitted together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Batching {
    /// Each value is one `queue.submit`.
    #[default]
    Off,
    /// Values wait for the next wait, of the host or of another device's work, and are one
    /// `queue.submit` then; at most 64, and not much longer than a millisecond. What names wrapped
    /// or lent memory, or runs a function of [`encode`](crate::wgpu::encode), waits for nothing.
    On,
}

/// The values of a device that wait to be submitted.
#[derive(Debug)]
pub(crate) struct Batch {
    batching: Batching,
    /// Guards the order of submissions, which is that of their values.
    order: ReentrantMutex<()>,
    /// Guards what waits.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    values: Vec<Encoded>,
    /// How many values wait.
    count: u64,
    /// The last of them.
    last: u64,
    /// When the first came.
    since_ns: u64,
    /// The last value of a submission that has not returned.
    sending: Option<u64>,
}

/// What a batch is submitted through.
#[derive(Clone, Copy)]
pub(crate) struct Through<'a> {
    pub(crate) encoder: &'a Encoder,
    pub(crate) line: &'a Line,
    pub(crate) guarded: &'a Guarded,
}

impl Batch {
    pub(crate) fn new(batching: Batching) -> Self {
        Self { batching, order: ReentrantMutex::new(()), waiting: Mutex::new(Waiting::default()) }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.batching == Batching::On
    }

    /// Keeps everybody else from submitting.
    pub(crate) fn in_order(&self) -> ReentrantMutexGuard<'_, ()> {
        self.order.lock()
    }

    /// Lets a value's commands wait. The caller keeps the order.
    pub(crate) fn add(
        &self,
        value: u64,
        encoded: Option<Encoded>,
        through: Through<'_>,
    ) -> Result<(), Fault> {
        let is_full = {
            let mut waiting = self.waiting.lock();
            waiting.values.extend(encoded);
            if waiting.count == 0 {
                waiting.since_ns = now_ns();
            }
            waiting.count += 1;
            waiting.last = value;
            waiting.count >= COUNT_MAX
        };
        if is_full { self.send(through) } else { Ok(()) }
    }

    /// Submits what waits.
    pub(crate) fn send(&self, through: Through<'_>) -> Result<(), Fault> {
        if !self.is_on() {
            return Ok(());
        }
        // Held beyond the look: what somebody else took out may not be submitted yet.
        let _order = self.in_order();
        let (values, last) = {
            let mut waiting = self.waiting.lock();
            if waiting.count == 0 {
                return Ok(());
            }
            waiting.count = 0;
            waiting.sending = Some(waiting.last);
            (std::mem::take(&mut waiting.values), waiting.last)
        };
        let sent = through.encoder.submit_all(values, through.guarded);
        self.waiting.lock().sending = None;
        match sent {
            Ok(index) => {
                through.line.handed_over(last, index, through.guarded);
                Ok(())
            }
            Err(HandOver::Fault(fault)) => Err(fault),
            Err(bad) => {
                Err(through.guarded.lose(&format!("values could not be submitted: {bad:?}")))
            }
        }
    }

    /// Submits what has waited for long; answers how long the rest may wait, if anything is left.
    pub(crate) fn send_old(&self, through: Through<'_>) -> Result<Option<Duration>, Fault> {
        let left_ns = {
            let waiting = self.waiting.lock();
            match waiting.count {
                0 => return Ok(None),
                _ => (waiting.since_ns + WAIT_NS).saturating_sub(now_ns()),
            }
        };
        match left_ns {
            0 => self.send(through).map(|()| None),
            left => Ok(Some(Duration::from_nanos(left))),
        }
    }

    /// Notes the submission of values that a callback waits for which runs inside it.
    pub(crate) fn note_sending(&self, through: Through<'_>) -> Result<(), Fault> {
        // Only the thread that is in the submission can have the lock while values are under way.
        let Some(_order) = self.order.try_lock() else { return Ok(()) };
        let Some(last) = self.waiting.lock().sending else { return Ok(()) };
        match through.guarded.submit(None) {
            Ok(index) => {
                through.line.handed_over(last, index, through.guarded);
                Ok(())
            }
            Err(HandOver::Fault(fault)) => Err(fault),
            Err(bad) => Err(through.guarded.lose(&format!("no work was submitted: {bad:?}"))),
        }
    }

    /// Drops what waits, which never runs.
    pub(crate) fn stop(&self) {
        let dropped = std::mem::take(&mut *self.waiting.lock());
        drop(dropped);
    }
}

/// The most values that wait for each other.
const COUNT_MAX: u64 = 64;
const WAIT_NS: u64 = 1_000_000;
