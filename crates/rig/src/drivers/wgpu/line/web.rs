//! What was submitted in a browser and is not known to be complete: values, fences, and who waits.
//!
//! A browser has no poll, and tells that work is done on a lost device too. So the word is raised
//! only by the map of a small fence buffer, which a commit writes behind its work (S13.12); a map
//! that fails is a loss. What is wrong with a value's work is told later than it is taken, and the
//! word waits for that too. One thread; no lock is held while somebody is woken.

use crate::driver::Fault;
use crate::drivers::wgpu::guarded::{Bad, Guarded, Verdict};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use ::wgpu::{Buffer, BufferUsages, MapMode, SubmissionIndex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

/// The device's line of values.
#[derive(Debug)]
pub(crate) struct Line {
    /// The last value known to be complete.
    word: AtomicU64,
    /// Guards what is under way.
    state: Mutex<State>,
    wakers: Arc<Wakers>,
}

#[derive(Debug, Default)]
struct State {
    /// The last value handed over, and the last that a fence is behind.
    handed: u64,
    fenced: u64,
    fences: VecDeque<Fence>,
    /// Fence buffers that wait for their next use.
    free: Vec<Buffer>,
    /// What is still to be told of values' work, in their order.
    judging: VecDeque<(u64, Vec<Verdict>)>,
    /// The last values whose work was wrong.
    rejected: VecDeque<(u64, Arc<str>)>,
    stopped: bool,
}

/// A fence buffer behind the work of a value.
#[derive(Debug)]
struct Fence {
    value: u64,
    buffer: Buffer,
    answer: Arc<AtomicU32>,
}

/// Everybody who waits for something of the device.
#[derive(Debug, Default)]
struct Wakers {
    /// Guards them.
    all: Mutex<Vec<Waker>>,
}

impl Wakers {
    fn wake_all(&self) {
        let all = std::mem::take(&mut *self.all.lock());
        all.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

impl Line {
    pub(crate) fn new(_: &Guarded) -> Self {
        let state = Mutex::new(State::default());
        Self { word: AtomicU64::new(0), state, wakers: Arc::default() }
    }

    /// Returns the word as it is.
    pub(crate) fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Notes that a value's work was submitted.
    pub(crate) fn handed_over(&self, value: u64, _: SubmissionIndex, _: &Guarded) {
        self.state.lock().handed = value;
    }

    /// Keeps what the browser has still to say of a value's work.
    pub(crate) fn judge(&self, value: u64, unsaid: Vec<Verdict>) {
        if !unsaid.is_empty() {
            self.state.lock().judging.push_back((value, unsaid));
        }
    }

    /// Returns why a value's work was found wrong.
    pub(crate) fn rejected(&self, value: u64) -> Option<Arc<str>> {
        let state = self.state.lock();
        let of_value = state.rejected.iter().find(|(at, _)| *at == value);
        of_value.map(|(_, why)| Arc::clone(why))
    }

    /// Writes a fence behind all work so far.
    pub(crate) fn commit(&self, guarded: &Guarded) -> Result<(), Fault> {
        let (value, known) = {
            let mut state = self.state.lock();
            if state.fenced >= state.handed {
                return Ok(());
            }
            state.fenced = state.handed;
            (state.handed, state.free.pop())
        };
        let usages = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let made = known.map_or_else(|| guarded.buffer("rig fence", FENCE_BYTES, usages), Ok);
        let buffer = made.map_err(|bad| guarded.lose(&format!("there is no fence: {bad}")))?;
        let mut encoder = guarded.device.create_command_encoder(&Default::default());
        encoder.clear_buffer(&buffer, 0, Some(FENCE_BYTES));
        if guarded.submit([encoder.finish()]).is_err() {
            return Err(guarded.lose("a fence was refused"));
        }
        let answer = Arc::new(AtomicU32::new(PENDING));
        let (told, wakers) = (Arc::clone(&answer), Arc::clone(&self.wakers));
        let asked = guarded.scoped(|| {
            buffer.map_async(MapMode::Read, .., move |mapped| {
                let answer = if mapped.is_ok() { MAPPED } else { FAILED };
                told.store(answer, Ordering::Relaxed);
                wakers.wake_all();
            });
        });
        self.state.lock().fences.push_back(Fence { value, buffer, answer });
        asked.map_err(|bad| guarded.lose(&format!("a fence cannot be mapped: {bad}")))
    }

    /// Looks at what is complete now, and raises the word.
    pub(crate) fn look(&self, guarded: &Guarded) -> Result<u64, Fault> {
        guarded.check()?;
        let waker = Waker::from(Arc::clone(&self.wakers));
        let mut state = self.state.lock();
        while let Some(fence) = state.fences.front() {
            let value = fence.value;
            match fence.answer.load(Ordering::Relaxed) {
                PENDING => break,
                MAPPED if state.stopped || !state.is_judged(value, &waker) => break,
                MAPPED => {}
                _ => return Err(guarded.lose("a fence's map failed")),
            }
            if let Some(fence) = state.fences.pop_front() {
                fence.buffer.unmap();
                state.free.push(fence.buffer);
            }
            self.word.store(value, Ordering::Relaxed);
        }
        Ok(self.word())
    }

    /// Whether a submission is noted that ends a value.
    pub(crate) fn runs(&self, value: u64) -> bool {
        value <= self.state.lock().handed
    }

    /// Nobody blocks in a browser.
    pub(crate) fn block(&self, _: u64, _: Duration, guarded: &Guarded) -> Result<(), Fault> {
        guarded.check()
    }

    /// Keeps a waker until a value is complete; it may be woken before.
    pub(crate) fn wake_at(&self, value: u64, waker: &Waker) {
        if value <= self.word() {
            return waker.wake_by_ref();
        }
        self.wake_mapped(waker);
    }

    /// Keeps a waker until something happens.
    pub(crate) fn wake_mapped(&self, waker: &Waker) {
        self.wakers.all.lock().push(waker.clone());
    }

    /// Wakes everybody; answers whether work is left, which an empty submission keeps moving in
    /// slow engines.
    pub(crate) fn wake(&self, guarded: &Guarded) -> bool {
        self.wakers.wake_all();
        let moving = !self.state.lock().fences.is_empty();
        if moving {
            // What it could say of itself says the next look.
            let _ = guarded.submit(None);
        }
        moving
    }

    /// Whether anybody waits.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.wakers.all.lock().is_empty()
    }

    /// Raises nothing any more, and wakes everybody.
    pub(crate) fn stop(&self, guarded: &Guarded) {
        if guarded.check().is_ok() {
            // Its map tells when the work is over; a fault is the end too.
            let _ = self.commit(guarded);
        }
        self.state.lock().stopped = true;
        self.wakers.wake_all();
    }

    /// Whether the stop has begun.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// Whether what was submitted is over, whatever came of it.
    pub(crate) fn is_over(&self, guarded: &Guarded) -> bool {
        let told = |fence: &Fence| fence.answer.load(Ordering::Relaxed) != PENDING;
        guarded.check().is_err() || self.state.lock().fences.iter().all(told)
    }
}

impl State {
    /// Whether all is told of the work up to a value; what was wrong is kept.
    fn is_judged(&mut self, value: u64, waker: &Waker) -> bool {
        while let Some((at, verdicts)) = self.judging.front_mut().filter(|(at, _)| *at <= value) {
            let mut wrong = None;
            for verdict in verdicts {
                match verdict.poll(waker) {
                    Poll::Pending => return false,
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(Bad::Wrong(why))) => wrong = Some(why),
                    Poll::Ready(Err(Bad::Room { .. })) => {
                        wrong = Some(Arc::from("no room to run it"))
                    }
                }
            }
            if let Some(why) = wrong {
                self.rejected.push_back((*at, why));
                if self.rejected.len() > REJECTED_MAX {
                    self.rejected.pop_front();
                }
            }
            self.judging.pop_front();
        }
        true
    }
}

const PENDING: u32 = 0;
const MAPPED: u32 = 1;
const FAILED: u32 = 2;
const FENCE_BYTES: u64 = 4;
/// How many rejections are kept (S8.8).
const REJECTED_MAX: usize = 64;
/// Whether a thread may block.
pub(crate) const MAY_BLOCK: bool = false;
/// Whether work may be found wrong after it was taken (S8.8).
pub(crate) const REJECTS_LATER: bool = true;
/// Whether a map is asked for before wgpu told of it.
pub(crate) const ASKS_EARLY: bool = false;
/// Whether memory is back only once it is destroyed: else when the engine collects.
pub(crate) const DESTROYS: bool = true;
/// The budget of a device that says nothing of its memory (S1.13).
pub(crate) const BUDGET_BYTES: u64 = 512 << 20;
/// How soon those who wait are looked after again.
pub(crate) const SERVICE: Duration = Duration::from_millis(4);
