//! What a scripted device is: its facts and its knobs (S15.2).

use crate::control::Control;
use crate::driver::{OnDrop, Scripted};
use crate::state::Shared;
use rig::bytes::page_bytes;
use rig::driver::{Addressed, Driver, Facts, Queue};
use std::sync::Arc;

/// A scripted device before it is built: every knob, with defaults of a card behind a bus.
///
/// By default the host never addresses its memory, it maps host memory that starts on a page, one
/// queue runs everything, and nothing has a bound.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) name: Arc<str>,
    pub(crate) facts: Facts,
    pub(crate) heap_bytes: u64,
    pub(crate) queue_parts: u64,
    pub(crate) peers: Known,
    pub(crate) understands: Known,
    pub(crate) completion: Completion,
    pub(crate) allocs: Answer,
    pub(crate) maps: Answer,
    pub(crate) loads: Answer,
    pub(crate) stops: Answer,
    pub(crate) stop_word: StopWord,
    pub(crate) stop_end: StopEnd,
    pub(crate) code_bytes: u64,
    pub(crate) transfer: Addressed,
    pub(crate) maps_follow_uses: bool,
    pub(crate) batches: bool,
    pub(crate) service_runs: bool,
    pub(crate) idle_copies: Option<usize>,
    pub(crate) logs: bool,
}

impl Script {
    /// A script with the default knobs. The name is for [`Known::Named`] and for texts.
    pub fn new(name: impl AsRef<str>) -> Self {
        let mut facts = Facts::host("scripted");
        facts.addressed = Addressed::Never;
        facts.queues = vec![Queue::ALL];
        facts.import_align_bytes = Some(page_bytes());
        facts.waits_max = 64;
        facts.rejects_later = true;
        Self {
            name: Arc::from(name.as_ref()),
            facts,
            heap_bytes: u64::MAX,
            queue_parts: u64::MAX,
            peers: Known::Nobody,
            understands: Known::Scripted,
            completion: Completion::Run,
            allocs: Answer::AtOnce,
            maps: Answer::AtOnce,
            loads: Answer::AtOnce,
            stops: Answer::AtOnce,
            stop_word: StopWord::Stays,
            stop_end: StopEnd::Settles,
            code_bytes: 0,
            transfer: Addressed::WhileMapped,
            maps_follow_uses: true,
            batches: false,
            service_runs: false,
            idle_copies: None,
            logs: true,
        }
    }

    /// Changes facts: queues, pieces, halves, budget, waits, first value and all others.
    pub fn facts(mut self, change: impl FnOnce(&mut Facts)) -> Self {
        change(&mut self.facts);
        self
    }

    /// When the host addresses Device memory, and then Transfer memory too unless never.
    pub fn addressed(mut self, addressed: Addressed) -> Self {
        self.facts.addressed = addressed;
        if addressed != Addressed::Never {
            self.transfer = addressed;
        }
        self
    }

    /// The alignment of host memory that it maps; none if it maps none.
    pub fn maps_host(mut self, align_bytes: Option<u64>) -> Self {
        self.facts.import_align_bytes = align_bytes;
        self
    }

    /// The queues.
    pub fn queues(mut self, queues: impl Into<Vec<Queue>>) -> Self {
        self.facts.queues = queues.into();
        self
    }

    /// The last value before the first submission.
    pub fn first_value(mut self, value: u64) -> Self {
        self.facts.first_value = value;
        self
    }

    /// The most bytes of Device memory there are.
    pub fn heap_bytes(mut self, bytes: u64) -> Self {
        self.heap_bytes = bytes;
        self
    }

    /// The most parts, of all values that have not run together, that the queue holds. A value
    /// without parts counts as one.
    pub fn queue_parts(mut self, parts: u64) -> Self {
        self.queue_parts = parts;
        self
    }

    /// Whose memory it maps.
    pub fn peers(mut self, peers: Known) -> Self {
        self.peers = peers;
        self
    }

    /// Whose points its queue can wait for, and how many in one submission.
    pub fn understands(mut self, known: Known, waits_max: i64) -> Self {
        self.understands = known;
        self.facts.waits_max = waits_max;
        self
    }

    /// When the word rises.
    pub fn completion(mut self, completion: Completion) -> Self {
        self.completion = completion;
        self
    }

    /// When allocations are answered.
    pub fn allocs(mut self, answer: Answer) -> Self {
        self.allocs = answer;
        self
    }

    /// When maps for the host are answered.
    pub fn maps(mut self, answer: Answer) -> Self {
        self.maps = answer;
        self
    }

    /// When loads are answered.
    pub fn loads(mut self, answer: Answer) -> Self {
        self.loads = answer;
        self
    }

    /// When the stop is answered; at the second question for [`Answer::AtService`].
    pub fn stops(mut self, answer: Answer) -> Self {
        self.stops = answer;
        self
    }

    /// Whether the stop itself writes the last value into the word.
    pub fn stop_word(mut self, word: StopWord) -> Self {
        self.stop_word = word;
        self
    }

    /// Whether the device settles.
    pub fn stop_end(mut self, end: StopEnd) -> Self {
        self.stop_end = end;
        self
    }

    /// The device memory that loaded code needs.
    pub fn code_bytes(mut self, bytes: u64) -> Self {
        self.code_bytes = bytes;
        self
    }

    /// When the host addresses Transfer memory.
    pub fn transfer(mut self, addressed: Addressed) -> Self {
        self.transfer = addressed;
        self
    }

    /// Maps are answered though work that uses the memory has not run; by default they wait for
    /// all its uses (S1.9).
    pub fn maps_ignore_uses(mut self) -> Self {
        self.maps_follow_uses = false;
        self
    }

    /// Sleeps run only what was committed, and sleeping on more is a violation (S2.6).
    pub fn batches(mut self) -> Self {
        self.batches = true;
        self.facts.batches = true;
        self
    }

    /// Each `service` runs the next value, for tests whose waits never block a thread.
    pub fn service_runs(mut self) -> Self {
        self.service_runs = true;
        self
    }

    /// This queue claims copies and runs none: copies prepared for it are rejected (S1.8).
    pub fn idle_copies(mut self, queue: usize) -> Self {
        self.idle_copies = Some(queue);
        self
    }

    /// Keeps no entries, for long runs; counts are kept.
    pub fn silent(mut self) -> Self {
        self.logs = false;
        self
    }

    /// Makes the driver and the test's handle to it.
    pub fn build(self) -> (Arc<dyn Driver>, Control) {
        let shared = Arc::new(Shared::new(self));
        let driver = Scripted { shared: Arc::clone(&shared), on_drop: OnDrop::Note };
        (Arc::new(driver), Control { shared })
    }

    /// Makes a driver that checks the laws itself: dropping it panics if one was broken.
    pub fn build_checked(self) -> Arc<dyn Driver> {
        Arc::new(Scripted { shared: Arc::new(Shared::new(self)), on_drop: OnDrop::Check })
    }
}

/// Which other devices something is true of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Known {
    /// Of none.
    Nobody,
    /// Of every scripted one.
    Scripted,
    /// Of the scripted ones with these names.
    Named(Vec<String>),
}

impl Known {
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Nobody => false,
            Self::Scripted => true,
            Self::Named(names) => names.iter().any(|known| known == name),
        }
    }
}

/// When the word rises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// The run of a value raises it and wakes.
    Run,
    /// Only `service` and `block` raise it and wake, after the run.
    Service,
}

/// When something is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// At once: nothing is pending.
    AtOnce,
    /// At the next `service` or sleep.
    AtService,
    /// When the test says so.
    WhenTold,
}

/// What the stop does to the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopWord {
    /// Nothing.
    Stays,
    /// Raises it to the last value handed over, though its work never ran.
    WritesLast,
}

/// What the stop comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StopEnd {
    /// Nothing runs any more.
    Settles,
    /// Work may still run, and the test can let it.
    NeverSettles,
}

/// What one sleep does, in the order they are scripted; one without a script runs the next value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// Lasts until the gate is opened, or the time is over: then the next sleep comes here again.
    Gate,
    /// Faults, with this reason.
    Fault(String),
    /// This sleep and the next ones, as many as said, run nothing.
    Stall(u64),
}
