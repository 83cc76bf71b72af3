//! A wgpu device and its queue, with every way in which they tell of an error or an end.
//!
//! wgpu tells of a mistake through error scopes of the calling thread, of a refused allocation the
//! same way, and of a loss in four: a callback, which only devices that rig opened have; a panic of
//! a poll; a submission whose index was never handed out; a map that fails. Whoever finds one
//! notes it here, the first reason stays, and nothing counts as complete from then on (S2.9). A
//! device that the program destroys may still run what it took. Any thread may call anything; no
//! lock is held.

use crate::driver::{Fault, HandOver};
use crate::sync::{AtomicU64, BoxFuture, Mutex, Ordering, now_ns};
use ::wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandBuffer, Device, Error, ErrorFilter, MapMode,
    PollStatus, PollType, Queue, SubmissionIndex,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

/// A device and its queue.
#[derive(Debug)]
pub(crate) struct Guarded {
    pub(crate) device: Device,
    pub(crate) queue: Queue,
    /// Why the device ended.
    loss: Arc<OnceLock<Fault>>,
    /// Guards the verdicts that are still to come. A leaf lock.
    unsaid: Mutex<Vec<Verdict>>,
    /// When the device was probed last.
    probed_ns: AtomicU64,
}

/// What a call came to that wgpu answered with an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Bad {
    /// No room; for how many bytes, where that is known.
    Room { asked_bytes: u64 },
    /// It was wrong.
    Wrong(Arc<str>),
}

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Room { .. } => f.write_str("there is no room"),
            Self::Wrong(why) => f.write_str(why),
        }
    }
}

impl Bad {
    /// Returns what a driver says of work that is bad: nothing of it ran.
    pub(crate) fn answer(self) -> HandOver {
        match self {
            Self::Room { asked_bytes } => HandOver::Refused { asked_bytes },
            Self::Wrong(why) => HandOver::Rejected(why),
        }
    }

    fn of_buffer(self, asked_bytes: u64) -> Self {
        match self {
            Self::Room { .. } => Self::Room { asked_bytes },
            Self::Wrong(why) => Self::Wrong(why),
        }
    }
}

impl Guarded {
    /// Takes a device that rig opened, and listens for its loss.
    pub(crate) fn opened(device: Device, queue: Queue) -> Self {
        let guarded = Self::adopted(device, queue);
        let loss = Arc::clone(&guarded.loss);
        guarded.device.set_device_lost_callback(move |reason, text| {
            let _ = loss.set(Fault::new(match text.is_empty() {
                true => format!("wgpu: the device is lost ({reason:?})"),
                false => format!("wgpu: {text}"),
            }));
        });
        guarded
    }

    /// Takes a device that a program opened, whose callbacks stay the program's (S12.1).
    pub(crate) fn adopted(device: Device, queue: Queue) -> Self {
        let (unsaid, probed_ns) = (Mutex::new(Vec::new()), AtomicU64::new(now_ns()));
        Self { device, queue, loss: Arc::default(), unsaid, probed_ns }
    }

    /// Whether the device is well, as far as is known.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.loss.get().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Notes that the device has ended; the first reason stays.
    pub(crate) fn lose(&self, why: &str) -> Fault {
        self.loss.get_or_init(|| Fault::new(format!("wgpu: {why}"))).clone()
    }

    /// Submits. A device that is lost answers an index that it never hands out, of which the first
    /// [`Guarded::poll`] tells.
    pub(crate) fn submit(
        &self,
        work: impl IntoIterator<Item = CommandBuffer>,
    ) -> Result<SubmissionIndex, HandOver> {
        self.submit_made(|| Ok(work))
    }

    /// Makes work and submits it. wgpu runs nothing of commands that it finds wrong, so that all of
    /// it can have one scope, which costs as much as a few commands.
    pub(crate) fn submit_made<I: IntoIterator<Item = CommandBuffer>>(
        &self,
        make: impl FnOnce() -> Result<I, Bad>,
    ) -> Result<SubmissionIndex, HandOver> {
        let submitted = self.scoped(|| {
            make().map(|work| catch_unwind(AssertUnwindSafe(|| self.queue.submit(work))))
        });
        match submitted {
            Ok(Ok(Ok(index))) => Ok(index),
            Ok(Ok(Err(panic))) => Err(HandOver::Fault(self.lose(&text_of(&*panic)))),
            Ok(Err(bad)) => Err(bad.answer()),
            Err(Bad::Wrong(why)) => Err(HandOver::Rejected(why)),
            // wgpu ends a device that has no room for its own commands.
            Err(Bad::Room { .. }) => Err(HandOver::Fault(self.lose("no room to submit work"))),
        }
    }

    /// Finds out, every 100 ms, whether the program destroyed the device. Whoever waits calls this.
    pub(crate) fn probe(&self) -> Result<(), Fault> {
        let (now, last) = (now_ns(), self.probed_ns.load(Ordering::Relaxed));
        if now.saturating_sub(last) < PROBE_NS {
            return self.check();
        }
        self.probed_ns.store(now, Ordering::Relaxed);
        self.find_out()
    }

    /// Finds out whether the program destroyed the device. wgpu tells of that only once all that it
    /// took is over, and makes things that are invalid until then, but it refuses a map at once.
    pub(crate) fn find_out(&self) -> Result<(), Fault> {
        self.check()?;
        let refused = Arc::new(AtomicU64::new(0));
        let tell = Arc::clone(&refused);
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let ask = BufferDescriptor { label: None, size: 4, usage, mapped_at_creation: false };
        let asked = self.scoped(|| {
            let buffer = self.device.create_buffer(&ask);
            let tell = move |mapped: Result<_, _>| {
                tell.store(u64::from(mapped.is_err()), Ordering::Relaxed);
            };
            buffer.map_async(MapMode::Read, .., tell);
            buffer
        });
        // What a device without room makes is refused too.
        let has_room = !matches!(asked, Err(Bad::Room { .. }));
        let refused = refused.load(Ordering::Relaxed) == 1 && has_room;
        if refused { Err(self.lose("the device was destroyed")) } else { Ok(()) }
    }

    /// Lets wgpu map what can be mapped now, and tell what it has to tell; answers whether all that
    /// was submitted before is over.
    pub(crate) fn look(&self) -> Result<bool, Fault> {
        self.check()?;
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(PollType::Poll))) {
            Ok(Ok(status)) => self.check().map(|()| status == PollStatus::QueueEmpty),
            Ok(Err(_)) => self.check().map(|()| false),
            Err(panic) => Err(self.lose(&text_of(&*panic))),
        }
    }

    /// Runs `f` so that none of its errors reaches the program's handler, and answers those that
    /// are told at once: all of them natively. What a browser tells later is kept for
    /// [`Guarded::take_unsaid`].
    pub(crate) fn scoped<R>(&self, f: impl FnOnce() -> R) -> Result<R, Bad> {
        let (answer, verdict) = self.judged(f);
        match verdict {
            Verdict::Given(given) => given.map(|()| answer),
            pending => {
                self.unsaid.lock().push(pending);
                Ok(answer)
            }
        }
    }

    /// Returns the verdicts that are still to come of what was scoped since the last call.
    pub(crate) fn take_unsaid(&self) -> Vec<Verdict> {
        std::mem::take(&mut self.unsaid.lock())
    }

    /// Runs `f` so that none of its errors reaches the program's handler, and answers the verdict.
    pub(crate) fn judged<R>(&self, f: impl FnOnce() -> R) -> (R, Verdict) {
        // Scopes are the thread's, and each lets the other kinds of error through.
        let room = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let wrong = self.device.push_error_scope(ErrorFilter::Validation);
        let inside = self.device.push_error_scope(ErrorFilter::Internal);
        let answer = f();
        let (inside, wrong, room) = (inside.pop(), wrong.pop(), room.pop());
        let mut told: BoxFuture<_> = Box::pin(async {
            let errors = [inside.await, wrong.await, room.await];
            match errors.into_iter().flatten().next_back() {
                None => Ok(()),
                Some(Error::OutOfMemory { .. }) => Err(Bad::Room { asked_bytes: 0 }),
                Some(error) => Err(Bad::Wrong(Arc::from(one_line(&error.to_string())))),
            }
        });
        match told.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(given) => (answer, Verdict::Given(given)),
            Poll::Pending => (answer, Verdict::Pending(told)),
        }
    }

    /// Makes a buffer.
    pub(crate) fn buffer(
        &self,
        label: &str,
        size: u64,
        usage: BufferUsages,
    ) -> Result<Buffer, Bad> {
        let made = self.scoped(|| self.unjudged_buffer(label, size, usage));
        made.map_err(|bad| bad.of_buffer(size))
    }

    /// Makes a buffer to be copied from once, which the host writes at once.
    pub(crate) fn mapped(&self, label: &str, size: u64) -> Result<Buffer, Bad> {
        let usage = BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC;
        let label = Some(label);
        let ask = BufferDescriptor { label, size, usage, mapped_at_creation: true };
        let made = self.scoped(|| self.device.create_buffer(&ask));
        made.map_err(|bad| bad.of_buffer(size))
    }

    /// Makes a buffer, of which a browser tells later whether there was room.
    pub(crate) fn buffer_judged(
        &self,
        label: &str,
        size: u64,
        usage: BufferUsages,
    ) -> (Buffer, Verdict) {
        self.judged(|| self.unjudged_buffer(label, size, usage))
    }

    fn unjudged_buffer(&self, label: &str, size: u64, usage: BufferUsages) -> Buffer {
        let label = Some(label);
        let ask = BufferDescriptor { label, size, usage, mapped_at_creation: false };
        self.device.create_buffer(&ask)
    }
}

/// What wgpu says of a call: at once natively, later in a browser.
pub(crate) enum Verdict {
    Given(Result<(), Bad>),
    Pending(BoxFuture<'static, Result<(), Bad>>),
}

impl std::fmt::Debug for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Given(given) => write!(f, "Given({given:?})"),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}

impl Verdict {
    /// Answers it once it is there, and keeps the waker until then.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), Bad>> {
        if let Self::Pending(told) = self {
            match told.as_mut().poll(&mut Context::from_waker(waker)) {
                Poll::Ready(given) => *self = Self::Given(given),
                Poll::Pending => return Poll::Pending,
            }
        }
        match self {
            Self::Given(given) => Poll::Ready(given.clone()),
            Self::Pending(_) => Poll::Pending,
        }
    }
}

/// Puts a text of several lines, as wgpu's are, on one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    one_line(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a poll panicked"))
}

const PROBE_NS: u64 = 100_000_000;
