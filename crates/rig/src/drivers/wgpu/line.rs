//! What was submitted and is not known to be complete: values, their submissions, and who waits.
//!
//! The word is raised only from what a poll for a submission answered, and only after the device
//! was found well behind it (S2.9). Callbacks raise nothing: those of one poll run in turn, and a
//! program's among them may block. They hint at what a look may ask for without a wait, since a
//! poll for what is not complete must wait ([`Guarded::poll`]). Any thread may call anything; one
//! leaf lock, under which nothing is polled and nobody is woken.

use crate::driver::{Fault, HandOver};
use crate::drivers::wgpu::guarded::{Guarded, Verdict};
use crate::drivers::wgpu::poll::Asked;
use crate::sync::{AtomicU64, Mutex, Ordering};
use ::wgpu::{Backend, SubmissionIndex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// The device's line of values.
#[derive(Debug)]
pub(crate) struct Line {
    /// The last value known to be complete.
    word: AtomicU64,
    /// The last value whose callback came.
    hint: Arc<AtomicU64>,
    /// Guards what is under way.
    state: Mutex<State>,
    /// Whether a removed device shows all of its work as complete.
    shows_lost_as_done: bool,
}

#[derive(Debug, Default)]
struct State {
    /// Values in order, with the submissions that end them.
    running: VecDeque<(u64, SubmissionIndex)>,
    /// Who waits for a value.
    wakers: Vec<(u64, Waker)>,
    /// Who waits for a map, or the end of the stop.
    mapping: Vec<Waker>,
    stopped: bool,
}

impl Line {
    pub(crate) fn new(guarded: &Guarded) -> Self {
        let shows_lost_as_done = guarded.device.adapter_info().backend == Backend::Dx12;
        let state = Mutex::new(State::default());
        Self { word: AtomicU64::new(0), hint: Arc::default(), state, shows_lost_as_done }
    }

    /// Returns the word as it is.
    pub(crate) fn word(&self) -> u64 {
        // ORDERING: pairs with the release in `raise`.
        self.word.load(Ordering::Acquire)
    }

    /// Notes the submission that ends with a value.
    pub(crate) fn handed_over(&self, value: u64, index: SubmissionIndex, guarded: &Guarded) {
        {
            // A callback that ran inside the submission may have noted a later one already.
            let running = &mut self.state.lock().running;
            let place = running.partition_point(|(at, _)| *at <= value);
            running.insert(place, (value, index));
        }
        let hint = Arc::clone(&self.hint);
        guarded.queue.on_submitted_work_done(move || {
            hint.fetch_max(value, Ordering::Relaxed);
        });
    }

    /// Looks at what is complete now, and raises the word.
    pub(crate) fn look(&self, guarded: &Guarded) -> Result<u64, Fault> {
        let newest = {
            let state = self.state.lock();
            state.running.back().filter(|_| !state.stopped).map(|(value, _)| *value)
        };
        let Some(newest) = newest else { return Ok(self.word()) };
        let all = guarded.look()?;
        let done = if all { newest } else { self.hint.load(Ordering::Relaxed) };
        let index = {
            let state = self.state.lock();
            let of_value = state.running.iter().rev().find(|(value, _)| *value <= done);
            of_value.map(|(value, index)| (*value, index.clone()))
        };
        match index {
            Some((value, index)) if guarded.poll(&index, Duration::ZERO)? => {
                self.raise(value, guarded)
            }
            _ => Ok(self.word()),
        }
    }

    fn raise(&self, value: u64, guarded: &Guarded) -> Result<u64, Fault> {
        if value > self.word() {
            self.check_after(guarded)?;
            // ORDERING: pairs with the acquire in `word`: who sees the value sees its writes.
            self.word.fetch_max(value, Ordering::Release);
            let mut state = self.state.lock();
            while state.running.front().is_some_and(|(at, _)| *at <= value) {
                state.running.pop_front();
            }
        }
        Ok(self.word())
    }

    /// Makes sure that the device is well after it showed work as complete (S2.9).
    fn check_after(&self, guarded: &Guarded) -> Result<(), Fault> {
        guarded.check()?;
        match self.shows_lost_as_done.then(|| guarded.submit(None)) {
            Some(Err(HandOver::Fault(fault))) => Err(fault),
            _ => Ok(()),
        }
    }

    /// Whether a submission is noted that ends a value.
    pub(crate) fn runs(&self, value: u64) -> bool {
        value <= self.word() || self.state.lock().running.back().is_some_and(|(at, _)| *at >= value)
    }

    /// Blocks until a value may be complete, for `at_most`.
    pub(crate) fn block(
        &self,
        value: u64,
        at_most: Duration,
        guarded: &Guarded,
    ) -> Result<(), Fault> {
        let running = {
            let state = self.state.lock();
            state.running.iter().find(|(at, _)| *at >= value).cloned()
        };
        match running {
            Some((value, index)) => {
                if guarded.poll(&index, at_most)? {
                    self.raise(value, guarded)?;
                }
            }
            // Nothing runs: whoever sleeps here waits for a map, or for a submission's return.
            None => {
                std::thread::yield_now();
                guarded.look()?;
            }
        }
        Ok(())
    }

    /// Keeps a waker until a value is complete.
    pub(crate) fn wake_at(&self, value: u64, waker: &Waker) {
        if value <= self.word() {
            return waker.wake_by_ref();
        }
        self.state.lock().wakers.push((value, waker.clone()));
    }

    /// Keeps a waker until the next look at maps.
    pub(crate) fn wake_mapped(&self, waker: &Waker) {
        self.state.lock().mapping.push(waker.clone());
    }

    /// Wakes whose value came, and who waits for a map; answers whether anybody is left.
    pub(crate) fn wake(&self, _: &Guarded) -> bool {
        let word = self.word();
        let (due, mapping, left) = {
            let mut state = self.state.lock();
            let due: Vec<_> = state.wakers.extract_if(.., |(value, _)| *value <= word).collect();
            (due, std::mem::take(&mut state.mapping), !state.wakers.is_empty())
        };
        let left = left || !mapping.is_empty();
        due.into_iter().for_each(|(_, waker)| waker.wake());
        mapping.into_iter().for_each(Waker::wake);
        left
    }

    /// Whether anybody waits.
    pub(crate) fn is_awaited(&self) -> bool {
        let state = self.state.lock();
        !(state.wakers.is_empty() && state.mapping.is_empty())
    }

    /// Keeps what wgpu says of a value's work: natively it said all when that was handed over.
    pub(crate) fn judge(&self, _: u64, unsaid: Vec<Verdict>) {
        debug_assert!(unsaid.is_empty(), "wgpu answers at once natively");
    }

    /// Returns why a value's work was found wrong later: natively none is.
    pub(crate) fn rejected(&self, _: u64) -> Option<Arc<str>> {
        None
    }

    /// Makes sure that what is complete will be seen: natively every submission has an index.
    pub(crate) fn commit(&self, _: &Guarded) -> Result<(), Fault> {
        Ok(())
    }

    /// Raises nothing any more, and wakes everybody.
    pub(crate) fn stop(&self, _: &Guarded) {
        let (wakers, mapping) = {
            let mut state = self.state.lock();
            state.stopped = true;
            (std::mem::take(&mut state.wakers), std::mem::take(&mut state.mapping))
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        mapping.into_iter().for_each(Waker::wake);
    }

    /// Whether the stop has begun.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// Whether what was submitted is over, whatever came of it.
    pub(crate) fn is_over(&self, guarded: &Guarded) -> bool {
        loop {
            let last = self.state.lock().running.back().cloned();
            let Some((value, index)) = last else { return true };
            match guarded.ask(&index, STOP) {
                Asked::Complete | Asked::Gone(_) => return true,
                Asked::Running => return false,
                // What a device took before it was destroyed may still run.
                Asked::Untaken(_) => self.state.lock().running.retain(|(at, _)| *at != value),
            }
        }
    }
}

/// Whether a thread may block.
pub(crate) const MAY_BLOCK: bool = true;
/// Whether work may be found wrong after it was taken (S8.8).
pub(crate) const REJECTS_LATER: bool = false;
/// Whether a map is asked for before wgpu told of it: a panic in another thread's poll may have
/// lost the callback.
pub(crate) const ASKS_EARLY: bool = true;
/// Whether memory is back only once it is destroyed. `Buffer::destroy` would wait behind a poll of
/// another thread.
pub(crate) const DESTROYS: bool = false;
/// The budget of a device that says nothing of its memory (S1.13).
pub(crate) const BUDGET_BYTES: u64 = 1 << 30;
/// How soon those who wait without blocking are looked after again.
pub(crate) const SERVICE: Duration = Duration::from_millis(1);
/// How long one look at a stop waits.
const STOP: Duration = Duration::from_millis(1);
