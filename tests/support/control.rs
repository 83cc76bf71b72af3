//! The test's handle to a scripted device.

use crate::log::{Call, Entry};
use crate::region::Live;
use crate::script::Sleep;
use crate::state::{Fails, NextHandOver, Plan, Shared, State, Times};
use crate::work::{Step, wake};
use rig::driver::{Fault, Kind, Region};
use std::sync::Arc;
use std::task::Waker;

/// The test's handle to a scripted device: tells work to run, scripts sleeps and failures, and
/// answers what the driver was called with. Clones control the same device.
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) shared: Arc<Shared>,
}

/// Work.
impl Control {
    /// Runs the next `count` values, and returns how many ran: fewer where the queue ends, or at a
    /// value that waits for a producer which has not run.
    pub fn run(&self, count: u64) -> u64 {
        let ran = (0..count).take_while(|_| matches!(self.shared.step(u64::MAX), Step::Ran));
        ran.count() as u64
    }

    /// Runs all values that can run.
    pub fn run_all(&self) -> u64 {
        self.run(u64::MAX)
    }

    /// Returns the last value handed over.
    pub fn handed(&self) -> u64 {
        self.shared.lock().handed
    }

    /// Returns the last value that ran, shown or not.
    pub fn ran(&self) -> u64 {
        self.shared.lock().ran
    }

    /// Returns the last value committed.
    pub fn committed(&self) -> u64 {
        self.shared.lock().committed
    }

    /// Returns a region's bytes, as the device has them.
    pub fn peek(&self, region: Region) -> Option<Vec<u8>> {
        let bytes = self.shared.pages.bytes(region)?;
        let mut seen = vec![0; bytes.len_bytes() as usize];
        bytes.copy_out(0, &mut seen);
        Some(seen)
    }
}

/// Sleeps and gates.
impl Control {
    /// Says what the next sleeps do, in order, after those said before.
    pub fn sleeps(&self, sleeps: impl IntoIterator<Item = Sleep>) {
        self.shared.change(|state| state.sleeps.extend(sleeps));
    }

    /// Shuts the gate of sleeps: each lasts until it opens or its time is over, and runs nothing.
    pub fn gate(&self) {
        self.shared.change(|state| state.sleep_gate = true);
    }

    /// Opens the gate of sleeps, and ends the scripted one that is next, if any.
    pub fn open_gate(&self) {
        self.shared.change(|state| {
            state.sleep_gate = false;
            if state.sleeps.front() == Some(&Sleep::Gate) {
                state.sleeps.pop_front();
            }
        });
    }

    /// Waits until a thread stands at the gate of sleeps. Panics after a minute.
    pub fn await_sleeper(&self) {
        self.shared.sleep_until("no thread slept", |state| state.sleepers > 0);
    }

    /// Shuts a gate before every call of this kind: hand-overs, frees and any other.
    pub fn gate_calls(&self, call: Call) {
        self.shared.change(|state| state.gates.insert(call));
    }

    /// Opens the gate before calls of this kind.
    pub fn open_calls(&self, call: Call) {
        self.shared.change(|state| state.gates.remove(&call));
    }

    /// Waits until this many calls of a kind came, those at a gate too. Panics after a minute.
    pub fn await_calls(&self, call: Call, count: u64) {
        let what = format!("fewer than {count} calls of {call:?} came");
        self.shared.sleep_until(&what, |state| state.log.count(call) >= count);
    }
}

/// Answers to what is pending.
impl Control {
    /// Answers the pending allocations: those that fit are given.
    pub fn answer_allocs(&self) {
        self.answer(State::answer_allocs);
    }

    /// Refuses the pending allocations.
    pub fn refuse_allocs(&self) {
        self.answer(State::refuse_allocs);
    }

    /// Answers the pending maps, though each still waits for the uses of its memory.
    pub fn answer_maps(&self) {
        self.answer(State::answer_maps);
    }

    /// Answers the pending loads.
    pub fn answer_loads(&self) {
        self.answer(State::answer_loads);
    }

    /// Ends the stop.
    pub fn answer_stop(&self) {
        self.answer(|state| state.stop_told = true);
    }

    /// The platform tells from now on that the program let go of this lent region.
    pub fn let_go(&self, region: Region) {
        self.shared.change(|state| {
            if let Some(live) = state.regions.get_mut(&region) {
                live.let_go = true;
            }
        });
    }

    fn answer(&self, f: impl FnOnce(&mut State)) {
        let wakers = self.shared.change(|state| {
            f(state);
            std::mem::take(&mut state.asking)
        });
        wake(wakers);
    }
}

/// Failures.
impl Control {
    /// The device faults now: every fallible call answers this, and nothing more runs.
    pub fn fault(&self, why: &str) {
        let wakers: Vec<Waker> = self.shared.change(|state| state.take_fault(Fault::new(why)));
        wake(wakers);
    }

    /// Every look at the word answers this fault; other calls are well.
    pub fn fault_word(&self, why: &str) {
        let wakers: Vec<Waker> = self.shared.change(|state| {
            state.word_fault = Some(Fault::new(why));
            state.all_wakers()
        });
        wake(wakers);
    }

    /// The next hand-over faults, and its work does not run.
    pub fn fail_next_hand_over(&self, why: &str) {
        self.next_hand_over(NextHandOver::Fault(Arc::from(why)));
    }

    /// The next hand-over is rejected.
    pub fn reject_next_hand_over(&self, why: &str) {
        self.next_hand_over(NextHandOver::Rejected(Arc::from(why)));
    }

    /// The next hand-over finds no room for so many bytes.
    pub fn refuse_next_hand_over(&self, asked_bytes: u64) {
        self.next_hand_over(NextHandOver::Refused(asked_bytes));
    }

    /// The next hand-over is taken and found wrong later: `rejected` tells (S8.8).
    pub fn reject_next_hand_over_later(&self, why: &str) {
        self.next_hand_over(NextHandOver::RejectedLater(Arc::from(why)));
    }

    /// The next load is rejected.
    pub fn reject_next_load(&self, why: &str) {
        self.shared.change(|state| state.next_load = Some(Arc::from(why)));
    }

    /// The `nth` fallible call from now, 1 is the next, and all after it fault with
    /// [`crate::SCRIPTED_FAULT`]. A plan replaces the one before.
    pub fn fault_from(&self, nth: u64) {
        self.plan(Fails::Fault, nth, Times::ForGood);
    }

    /// The `nth` fallible call from now faults, and no other.
    pub fn fault_at(&self, nth: u64) {
        self.plan(Fails::Fault, nth, Times::Once);
    }

    /// From the `nth` fallible call on, those that can be refused are.
    pub fn refuse_from(&self, nth: u64) {
        self.plan(Fails::Refuse, nth, Times::ForGood);
    }

    /// The `nth` fallible call is refused, if it can be.
    pub fn refuse_at(&self, nth: u64) {
        self.plan(Fails::Refuse, nth, Times::Once);
    }

    /// Ends the failure plan.
    pub fn end_plan(&self) {
        self.shared.change(|state| state.plan = None);
    }

    /// Returns how many fallible calls came so far: the difference over an operation is its k.
    pub fn fallible_calls(&self) -> u64 {
        self.shared.lock().fallible
    }

    fn next_hand_over(&self, next: NextHandOver) {
        self.shared.change(|state| state.next_hand_over = Some(next));
    }

    fn plan(&self, fails: Fails, nth: u64, times: Times) {
        self.shared.change(|state| {
            let from = state.fallible.saturating_add(nth);
            state.plan = Some(Plan { fails, from, times });
        });
    }
}

/// What happened.
impl Control {
    /// Returns every call since the log was last cleared.
    pub fn log(&self) -> Vec<Entry> {
        self.shared.lock().log.entries.clone()
    }

    /// Returns the calls of one kind.
    pub fn calls(&self, call: Call) -> Vec<Entry> {
        let state = self.shared.lock();
        state.log.entries.iter().copied().filter(|entry| entry.call == call).collect()
    }

    /// Returns how many calls of one kind came since the log was last cleared.
    pub fn count(&self, call: Call) -> u64 {
        self.shared.lock().log.count(call)
    }

    /// Forgets the calls so far, their counts too.
    pub fn clear_log(&self) {
        self.shared.lock().log.clear();
    }

    /// Keeps entries from now on.
    pub fn log_on(&self) {
        self.shared.lock().log.on = true;
    }

    /// Keeps only counts from now on.
    pub fn log_off(&self) {
        self.shared.lock().log.on = false;
    }

    /// Returns how many regions were allocated and not given back.
    pub fn regions_live(&self) -> u64 {
        self.lives(|live| !live.is_mapping())
    }

    /// Returns how many mappings were made and not released.
    pub fn mappings_live(&self) -> u64 {
        self.lives(Live::is_mapping)
    }

    /// Returns the bytes allocated and not given back.
    pub fn bytes_live(&self) -> u64 {
        self.shared.lock().bytes_live
    }

    /// Returns the bytes of one kind allocated and not given back.
    pub fn bytes_live_of(&self, kind: Kind) -> u64 {
        let state = self.shared.lock();
        let of_kind = state.regions.values().filter(|live| live.kind == Some(kind));
        of_kind.map(|live| live.bytes).sum()
    }

    /// Returns the most bytes that were allocated at once.
    pub fn bytes_peak(&self) -> u64 {
        self.shared.lock().bytes_peak
    }

    /// Returns how many kernels are loaded.
    pub fn kernels_live(&self) -> u64 {
        self.shared.lock().kernels.len() as u64
    }

    /// Returns how many prepared numbers there are.
    pub fn prepared_live(&self) -> u64 {
        self.shared.lock().prepared.len() as u64
    }

    /// Whether the stop came.
    pub fn is_stopped(&self) -> bool {
        self.shared.lock().stopped
    }

    /// Returns which laws were broken, in words. A region that never came back is one once the
    /// driver was dropped, unless it is lent or the device never settled.
    pub fn violations(&self) -> Vec<String> {
        self.shared.lock().violations.clone()
    }

    /// Panics if a law was broken.
    pub fn check(&self) {
        let state = self.shared.lock();
        if state.violations.is_empty() {
            return;
        }
        let told = state.violations.join("\n  ");
        let last = state.log.entries.iter().rev().take(LAST_ENTRIES).rev();
        let last: Vec<String> = last.map(Entry::to_string).collect();
        drop(state);
        let (name, last) = (&self.shared.script.name, last.join("\n  "));
        panic!("laws broken on {name}:\n  {told}\nthe last calls:\n  {last}");
    }

    /// Panics if a law was broken, or if a region, mapping, kernel or prepared number is left.
    pub fn check_returned(&self) {
        self.check();
        let left = self.shared.lock().left();
        let name = &self.shared.script.name;
        assert!(left.is_empty(), "left on {name}:\n  {}", left.join("\n  "));
    }

    /// Waits until every region, mapping, kernel and prepared number is back, but for lent ones.
    /// Panics after a minute.
    pub fn await_returned(&self) {
        let returned = |state: &State| state.left().is_empty();
        if !self.shared.sleeps_until(returned) {
            self.check_returned();
        }
    }

    fn lives(&self, counts: impl Fn(&Live) -> bool) -> u64 {
        self.shared.lock().regions.values().filter(|live| counts(live)).count() as u64
    }
}

/// How many calls a failing check shows.
const LAST_ENTRIES: usize = 30;
