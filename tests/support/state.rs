//! What a scripted device knows, and the door that every call goes through.
//!
//! One lock guards the state; nothing runs, and no other device is asked, while it is held.

use crate::log::{Call, Entry, Log};
use crate::region::Live;
use crate::script::{Script, Sleep};
use crate::work::Job;
use rig::driver::{Fault, Region};
use rig::drivers::function::Functions;
use rig::drivers::pages::Pages;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

/// A scripted device, as its driver and its controls share it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) script: Script,
    pub(crate) pages: Pages,
    pub(crate) functions: Functions,
    /// Guards everything else. Held for no call out of this crate but the tables'.
    state: Mutex<State>,
    /// Whatever a thread may sleep on changed.
    changed: Condvar,
}

impl Shared {
    pub(crate) fn new(script: Script) -> Self {
        let state = Mutex::new(State::new(&script));
        let (pages, functions) = (Pages::new(), Functions::new());
        Self { script, pages, functions, state, changed: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere still gets its answers.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and tells every thread that sleeps.
    pub(crate) fn change<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let answer = f(&mut state);
        self.tell(&state);
        answer
    }

    /// Tells every thread that sleeps to look again. Costs nothing where none does.
    pub(crate) fn tell(&self, state: &State) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Sleeps until something changes or the time is over.
    pub(crate) fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        until: Instant,
    ) -> MutexGuard<'a, State> {
        let at_most = until.saturating_duration_since(Instant::now());
        state.waiting += 1;
        let woken = self.changed.wait_timeout(state, at_most);
        let mut state = woken.unwrap_or_else(PoisonError::into_inner).0;
        state.waiting -= 1;
        state
    }

    /// Sleeps until `ready`; panics when the watchdog's time is over.
    pub(crate) fn sleep_until(&self, what: &str, ready: impl Fn(&State) -> bool) {
        assert!(self.sleeps_until(ready), "{}: {what} for {WATCHDOG:?}", self.script.name);
    }

    /// Sleeps until `ready`; answers false when the watchdog's time is over.
    pub(crate) fn sleeps_until(&self, ready: impl Fn(&State) -> bool) -> bool {
        let until = Instant::now() + WATCHDOG;
        let mut state = self.lock();
        while !ready(&state) {
            if Instant::now() >= until {
                return false;
            }
            state = self.sleep(state, until);
        }
        true
    }

    /// Logs a call, looks at the laws that hold for each, waits at its gate, and decides by the
    /// failure plan what it comes to.
    pub(crate) fn enter(&self, entry: Entry) -> (Inside<'_>, Outcome) {
        let call = entry.call;
        let mut state = self.lock();
        state.log.push(entry);
        self.tell(&state);
        if state.stopped && !state.may_follow(call) {
            state.violate(format!("{entry} came after the stop"));
        }
        let sole = call == Call::HandOver && !std::mem::replace(&mut state.handing, true);
        if call == Call::HandOver && !sole {
            state.violate("two hand-overs at once");
        }
        state.inside += u64::from(call != Call::Reached);
        if state.gates.contains(&call) {
            drop(state);
            let shut = format!("{call:?} stood at its gate");
            self.sleep_until(&shut, |state| !state.gates.contains(&call));
            state = self.lock();
        }
        let outcome = state.decide(call);
        drop(state);
        (Inside { shared: self, call, sole }, outcome)
    }
}

/// A call in progress; dropped when it returns.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    shared: &'a Shared,
    call: Call,
    /// Whether this is the one hand-over in progress.
    sole: bool,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.inside -= u64::from(self.call != Call::Reached);
        state.handing &= !self.sole;
    }
}

/// What the failure plan decides for a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Well,
    Refused,
    Fault(Fault),
}

impl Outcome {
    pub(crate) fn well(self) -> Result<(), Fault> {
        match self {
            Self::Fault(fault) => Err(fault),
            Self::Well | Self::Refused => Ok(()),
        }
    }
}

/// Which fallible calls fail, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) fails: Fails,
    pub(crate) from: u64,
    pub(crate) times: Times,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fails {
    Fault,
    Refuse,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Times {
    Once,
    ForGood,
}

/// Everything that changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) handed: u64,
    pub(crate) committed: u64,
    /// The last value whose work ran.
    pub(crate) ran: u64,
    /// The last value that the device shows.
    pub(crate) word: u64,
    /// The last value that `reached` answered.
    pub(crate) answered: u64,
    pub(crate) queue: VecDeque<Arc<Job>>,
    /// The parts in the queue.
    pub(crate) queued_parts: u64,
    pub(crate) running: bool,
    pub(crate) wakers: Vec<(u64, Waker)>,
    /// Wakers that wait for an answer that is pending.
    pub(crate) asking: Vec<Waker>,

    pub(crate) regions: HashMap<Region, Live>,
    pub(crate) heap_used: u64,
    pub(crate) bytes_live: u64,
    pub(crate) bytes_peak: u64,
    /// Loaded kernels, and whether the load was answered.
    pub(crate) kernels: HashMap<u64, bool>,
    pub(crate) prepared: HashSet<u64>,
    pub(crate) prepared_last: u64,

    pub(crate) sleeps: VecDeque<Sleep>,
    pub(crate) sleep_gate: bool,
    /// How many threads stand at the gate of sleeps.
    pub(crate) sleepers: u64,
    pub(crate) gates: HashSet<Call>,
    pub(crate) plan: Option<Plan>,
    /// How many fallible calls came.
    pub(crate) fallible: u64,
    pub(crate) fault: Option<Fault>,
    pub(crate) word_fault: Option<Fault>,
    pub(crate) next_hand_over: Option<NextHandOver>,
    pub(crate) next_load: Option<Arc<str>>,
    pub(crate) rejected: HashMap<u64, Arc<str>>,

    /// How many threads sleep until something changes.
    pub(crate) waiting: u64,
    /// How many calls are in progress, `reached` apart.
    pub(crate) inside: u64,
    pub(crate) handing: bool,
    pub(crate) stopped: bool,
    pub(crate) stop_told: bool,
    pub(crate) stop_polls: u64,
    /// Whether the core was told that the device settled.
    pub(crate) settled: bool,
    pub(crate) log: Log,
    pub(crate) violations: Vec<String>,
}

/// What the next hand-over comes to.
#[derive(Clone, Debug)]
pub(crate) enum NextHandOver {
    Fault(Arc<str>),
    Rejected(Arc<str>),
    /// No room for so many bytes.
    Refused(u64),
    /// Taken, and found wrong later (S8.8).
    RejectedLater(Arc<str>),
}

impl State {
    fn new(script: &Script) -> Self {
        let first = script.facts.first_value;
        Self {
            handed: first,
            committed: first,
            ran: first,
            word: first,
            answered: first,
            queue: VecDeque::new(),
            queued_parts: 0,
            running: false,
            wakers: Vec::new(),
            asking: Vec::new(),
            regions: HashMap::new(),
            heap_used: 0,
            bytes_live: 0,
            bytes_peak: 0,
            kernels: HashMap::new(),
            prepared: HashSet::new(),
            prepared_last: 0,
            sleeps: VecDeque::new(),
            sleep_gate: false,
            sleepers: 0,
            gates: HashSet::new(),
            plan: None,
            fallible: 0,
            fault: None,
            word_fault: None,
            next_hand_over: None,
            next_load: None,
            rejected: HashMap::new(),
            waiting: 0,
            inside: 0,
            handing: false,
            stopped: false,
            stop_told: false,
            stop_polls: 0,
            settled: false,
            log: Log::new(script.logs),
            violations: Vec::new(),
        }
    }

    pub(crate) fn violate(&mut self, what: impl Into<String>) {
        self.violations.push(what.into());
    }

    /// Takes the fault, keeps the first, and answers who has to be woken.
    #[must_use]
    pub(crate) fn take_fault(&mut self, fault: Fault) -> Vec<Waker> {
        self.fault.get_or_insert(fault);
        self.all_wakers()
    }

    /// Shows what ran, while the device is well, and answers who has to be woken.
    #[must_use]
    pub(crate) fn raise(&mut self) -> Vec<Waker> {
        if self.fault.is_none() && !self.stopped {
            self.word = self.ran;
        }
        let word = self.word;
        self.wakers.extract_if(.., |(value, _)| *value <= word).map(|(_, waker)| waker).collect()
    }

    /// Keeps a waker until the next answer of something pending.
    pub(crate) fn ask(&mut self, waker: &Waker) {
        if !self.asking.iter().any(|known| known.will_wake(waker)) {
            self.asking.push(waker.clone());
        }
    }

    #[must_use]
    pub(crate) fn all_wakers(&mut self) -> Vec<Waker> {
        let wakers = std::mem::take(&mut self.wakers).into_iter().map(|(_, waker)| waker);
        wakers.chain(std::mem::take(&mut self.asking)).collect()
    }

    fn may_follow(&self, call: Call) -> bool {
        call.may_follow_stop() || (call == Call::Service && !self.settled)
    }

    fn decide(&mut self, call: Call) -> Outcome {
        if !call.is_fallible() {
            return Outcome::Well;
        }
        // The tick calls when it likes: a plan counts only what the test's own threads do.
        let by_tick = std::thread::current().name() == Some("rig-tick");
        self.fallible += u64::from(!by_tick);
        let now = self.fallible;
        let plan = self.plan.filter(|_| !by_tick).filter(|plan| match plan.times {
            Times::Once => now == plan.from,
            Times::ForGood => now >= plan.from,
        });
        match plan.map(|plan| plan.fails) {
            Some(Fails::Fault) => Outcome::Fault(Fault::new(SCRIPTED_FAULT)),
            Some(Fails::Refuse) if call.is_refusable() => Outcome::Refused,
            _ if self.stopped => Outcome::Well,
            _ => self.fault.clone().map_or(Outcome::Well, Outcome::Fault),
        }
    }
}

/// The reason of every fault that a failure plan makes.
pub const SCRIPTED_FAULT: &str = "scripted fault";

/// How long a thread stands at a gate, or a test waits for one, before it panics.
const WATCHDOG: Duration = Duration::from_secs(60);
