//! The scripted driver's answers. What breaks a law is noted, and answered as well as it can be.

use crate::control::Control;
use crate::log::{Call, Entry};
use crate::region::{Map, Origin, Verdict};
use crate::script::{Answer, StopEnd, StopWord};
use crate::state::{NextHandOver, Outcome, Shared};
use crate::work::{Job, Nap, parts_misfit, scripted, wake};
use rig::bytes::HostBytes;
use rig::driver::{
    Access, Addressed, Alloc, Ask, Code, Driver, Facts, Fault, HandOver, Import, Kind, Lent, Load,
    Op, Part, Producer, Refusal, Region, Room, Stopped, Work,
};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// The scripted driver.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) shared: Arc<Shared>,
    pub(crate) on_drop: OnDrop,
}

/// What the driver's drop does with violations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnDrop {
    Note,
    Check,
}

impl Driver for Scripted {
    fn kind(&self) -> &'static str {
        "scripted"
    }

    fn facts(&self) -> Facts {
        self.shared.script.facts.clone()
    }

    fn alloc(&self, ask: Ask) -> Alloc {
        let entry = Entry::new(Call::Alloc).bytes(ask.len_bytes).value(ask.kind as u64);
        let (_inside, outcome) = self.shared.enter(entry);
        match outcome {
            Outcome::Fault(fault) => Alloc::Fault(fault),
            Outcome::Refused => Alloc::Refused,
            Outcome::Well => self.shared.alloc(ask),
        }
    }

    fn poll_alloc(&self, region: Region, waker: &Waker) -> Poll<Alloc> {
        let (_inside, outcome) = self.shared.enter_region(Call::PollAlloc, region);
        if let Outcome::Fault(fault) = outcome {
            return Poll::Ready(Alloc::Fault(fault));
        }
        let mut state = self.shared.lock();
        let refused = outcome == Outcome::Refused;
        match state.regions.get(&region).map(|live| live.verdict) {
            Some(Verdict::Given) if !refused => Poll::Ready(Alloc::Ready(region)),
            Some(Verdict::Pending | Verdict::PendingRefusal) if !refused => {
                state.ask(waker);
                Poll::Pending
            }
            Some(_) => {
                state.forget(region);
                drop(state);
                self.shared.pages.free(region);
                Poll::Ready(Alloc::Refused)
            }
            None => {
                state.violate(format!("poll_alloc of region {region:?}, which is gone"));
                Poll::Ready(Alloc::Refused)
            }
        }
    }

    fn free(&self, region: Region) {
        self.shared.give_back(Call::Free, region);
    }

    fn bytes(&self, region: Region) -> Option<HostBytes> {
        let kind_always = {
            let state = self.shared.lock();
            state.regions.get(&region).map(|live| live.addressed == Addressed::Always)
        };
        if kind_always? { self.shared.pages.bytes(region) } else { None }
    }

    fn lend(&self, region: Region) -> Option<Lent> {
        let (_inside, _) = self.shared.enter_region(Call::Lend, region);
        self.shared.lock().regions.get_mut(&region)?.lent = true;
        self.shared.pages.lend(region)
    }

    fn let_go(&self, region: Region) -> bool {
        let (_inside, _) = self.shared.enter_region(Call::LetGo, region);
        self.shared.lock().regions.get(&region).is_some_and(|live| live.let_go)
    }

    fn poll_transfer(&self, region: Region, access: Access, waker: &Waker) -> Poll<Alloc> {
        let entry = Entry::new(Call::PollTransfer).region(region).value(access as u64);
        let (_inside, outcome) = self.shared.enter(entry);
        match outcome {
            Outcome::Fault(fault) => return Poll::Ready(Alloc::Fault(fault)),
            Outcome::Refused => return Poll::Ready(Alloc::Refused),
            Outcome::Well => {}
        }
        let at_once = self.shared.script.allocs == Answer::AtOnce;
        let mut state = self.shared.lock();
        let there = match state.regions.get_mut(&region) {
            Some(live) if live.kind == Some(Kind::Transfer) => {
                std::mem::replace(&mut live.ways[access as usize], true)
            }
            _ => {
                state.violate(format!("poll_transfer of {region:?}, which is none"));
                true
            }
        };
        if there || at_once {
            return Poll::Ready(Alloc::Ready(region));
        }
        state.ask(waker);
        Poll::Pending
    }

    fn begin_access(&self, region: Region, access: Access) -> Result<(), Fault> {
        let (_inside, outcome) = self.shared.enter_region(Call::BeginAccess, region);
        outcome.well()?;
        let at_once = self.shared.script.maps == Answer::AtOnce;
        let mut state = self.shared.lock();
        if state.regions.get(&region).is_some_and(|live| live.lacks_way(access)) {
            state.violate(format!("begin_access of {region:?} to {access:?} before poll_transfer"));
        }
        match state.regions.get_mut(&region) {
            Some(live) if live.addressed == Addressed::WhileMapped => {
                if live.map == Map::Off {
                    live.map = if at_once { Map::Granted } else { Map::Asked };
                }
            }
            Some(_) => state.violate(format!("begin_access of {region:?}, which is never mapped")),
            None => state.violate(format!("begin_access of {region:?}, which is gone")),
        }
        Ok(())
    }

    fn poll_access(&self, region: Region, waker: &Waker) -> Poll<Result<HostBytes, Fault>> {
        let (_inside, outcome) = self.shared.enter_region(Call::PollAccess, region);
        outcome.well()?;
        let mut state = self.shared.lock();
        let (ran, follows) = (state.ran, self.shared.script.maps_follow_uses);
        match state.regions.get(&region).map(|live| (live.map, live.last_use)) {
            Some((Map::Granted, last_use)) if last_use <= ran || !follows => {
                drop(state);
                let bytes = self.shared.pages.bytes(region);
                Poll::Ready(bytes.ok_or_else(|| Fault::new("the region is gone")))
            }
            Some((Map::Asked | Map::Granted, _)) => {
                state.ask(waker);
                Poll::Pending
            }
            _ => {
                state.violate(format!("poll_access of {region:?}, which no begin_access named"));
                Poll::Ready(Err(Fault::new("nothing is being mapped")))
            }
        }
    }

    fn end_access(&self, region: Region) {
        let (_inside, _) = self.shared.enter_region(Call::EndAccess, region);
        if let Some(live) = self.shared.lock().regions.get_mut(&region) {
            live.map = Map::Off;
        }
    }

    fn import_host(&self, bytes: HostBytes) -> Import {
        let (address, len) = (bytes.address(), bytes.len_bytes());
        let entry = Entry::new(Call::ImportHost).region(Region(0, address)).bytes(len);
        let (_inside, outcome) = self.shared.enter(entry);
        match outcome {
            Outcome::Fault(fault) => return Import::Fault(fault),
            Outcome::Refused => return Import::None,
            Outcome::Well => {}
        }
        let align = self.shared.script.facts.import_align_bytes;
        if !align.is_some_and(|align| address % align == 0 && len % align == 0) {
            let what = format!("import of {len} bytes at {address:#x}, aligned to {align:?}");
            self.shared.lock().violate(what);
            return Import::None;
        }
        self.shared.map(bytes, Origin::Host)
    }

    fn import_peer(&self, peer: &dyn Driver, region: Region) -> Import {
        let (_inside, outcome) = self.shared.enter_region(Call::ImportPeer, region);
        match outcome {
            Outcome::Fault(fault) => return Import::Fault(fault),
            Outcome::Refused => return Import::None,
            Outcome::Well => {}
        }
        match scripted(peer) {
            Some(other) if self.shared.script.peers.has(&other.script.name) => {
                self.shared.map_peer(other, region)
            }
            _ => Import::None,
        }
    }

    fn release(&self, mapped: Region) {
        self.shared.give_back(Call::Release, mapped);
    }

    fn load(&self, code: &Code) -> Load {
        let (_inside, outcome) = self.shared.enter(Entry::new(Call::Load));
        if let Err(fault) = outcome.well() {
            return Load::Fault(fault);
        }
        if let Some(why) = self.shared.lock().next_load.take() {
            return Load::Rejected(why);
        }
        let script = &self.shared.script;
        match self.shared.functions.load(code) {
            Load::Ready { kernel, .. } => {
                let at_once = script.loads == Answer::AtOnce;
                self.shared.lock().kernels.insert(kernel, at_once);
                if at_once {
                    Load::Ready { kernel, code_bytes: script.code_bytes }
                } else {
                    Load::Pending(kernel)
                }
            }
            other => other,
        }
    }

    fn poll_load(&self, kernel: u64, waker: &Waker) -> Poll<Load> {
        let (_inside, outcome) = self.shared.enter(Entry::new(Call::PollLoad).value(kernel));
        if let Err(fault) = outcome.well() {
            return Poll::Ready(Load::Fault(fault));
        }
        let mut state = self.shared.lock();
        match state.kernels.get(&kernel) {
            Some(true) => {
                let code_bytes = self.shared.script.code_bytes;
                Poll::Ready(Load::Ready { kernel, code_bytes })
            }
            Some(false) => {
                state.ask(waker);
                Poll::Pending
            }
            None => {
                state.violate(format!("poll_load of kernel {kernel:#x}, which is gone"));
                Poll::Ready(Load::Rejected(Arc::from("the kernel is gone")))
            }
        }
    }

    fn unload(&self, kernel: u64) {
        let (_inside, _) = self.shared.enter(Entry::new(Call::Unload).value(kernel));
        let there = self.shared.change(|state| state.kernels.remove(&kernel).is_some());
        if !(there && self.shared.functions.unload(kernel)) {
            self.shared.lock().violate(format!("kernel {kernel:#x} is unloaded twice"));
        }
    }

    fn prepare(&self, parts: &[Part]) -> Result<u64, Refusal> {
        let entry = Entry::new(Call::Prepare).value(parts.len() as u64);
        let (_inside, outcome) = self.shared.enter(entry);
        outcome.well().map_err(Refusal::Fault)?;
        let idle = |part: &&Part| {
            matches!(part.op, Op::Copy { .. }) && self.shared.script.idle_copies == Some(part.queue)
        };
        if let Some(part) = parts.iter().find(idle) {
            let why = format!("queue {} runs no copies", part.queue);
            return Err(Refusal::Rejected(Arc::from(why)));
        }
        let mut state = self.shared.lock();
        if let Some(why) = parts_misfit(parts, &self.shared.script.facts.queues, &[]) {
            state.violate(format!("prepare: {why}"));
        }
        state.prepared_last += 1;
        let number = state.prepared_last;
        state.prepared.insert(number);
        Ok(number)
    }

    fn unprepare(&self, prepared: u64) {
        let (_inside, _) = self.shared.enter(Entry::new(Call::Unprepare).value(prepared));
        self.shared.change(|state| {
            if !state.prepared.remove(&prepared) {
                state.violate(format!("number {prepared} is unprepared twice"));
            }
        });
    }

    fn understands(&self, producer: &dyn Driver) -> bool {
        self.shared.understood(producer).is_some()
    }

    fn room(&self, work: &Work<'_>) -> Room {
        let entry = Entry::new(Call::Room).value(work.parts.len() as u64);
        let (_inside, _) = self.shared.enter(entry);
        let state = self.shared.lock();
        self.shared.room(&state, work)
    }

    fn hand_over(&self, value: u64, work: &Work<'_>, waits: &[Producer<'_>]) -> HandOver {
        let entry = Entry::new(Call::HandOver).value(value).bytes(waits.len() as u64);
        let (_inside, outcome) = self.shared.enter(entry);
        match outcome {
            Outcome::Fault(fault) => return HandOver::Fault(fault),
            Outcome::Refused => return HandOver::Refused { asked_bytes: REFUSED_BYTES },
            Outcome::Well => {}
        }
        let next = self.shared.lock().next_hand_over.take();
        match next {
            Some(NextHandOver::Fault(why)) => return HandOver::Fault(Fault(why)),
            Some(NextHandOver::Rejected(why)) => return HandOver::Rejected(why),
            Some(NextHandOver::Refused(asked_bytes)) => return HandOver::Refused { asked_bytes },
            Some(NextHandOver::RejectedLater(why)) => {
                self.shared.lock().rejected.insert(value, why);
            }
            None => {}
        }
        let outside = self.shared.pages.first_outside(work.spans);
        if let Err(why) = self.shared.functions.check(&self.shared.pages, work) {
            if let Some(at) = outside {
                let span = work.spans[at];
                self.shared.lock().violate(format!("value {value} names {span:?}: outside"));
            }
            return HandOver::Rejected(why);
        }
        let room = self.shared.room(&self.shared.lock(), work);
        let (parts, spans) = (work.parts.to_vec(), work.spans.to_vec());
        let waits = self.shared.follow(value, waits);
        self.shared.take(Job { value, parts, spans, waits }, work.prepared, room);
        HandOver::Done
    }

    fn rejected(&self, value: u64) -> Option<Arc<str>> {
        let (_inside, _) = self.shared.enter(Entry::new(Call::Rejected).value(value));
        self.shared.lock().rejected.get(&value).cloned()
    }

    fn commit(&self, value: u64) -> Result<(), Fault> {
        let (_inside, outcome) = self.shared.enter(Entry::new(Call::Commit).value(value));
        outcome.well()?;
        let mut state = self.shared.lock();
        if value > state.handed {
            let handed = state.handed;
            state.violate(format!("commit of value {value}, handed over are {handed}"));
        }
        state.committed = state.committed.max(value);
        Ok(())
    }

    fn reached(&self) -> Result<u64, Fault> {
        let (_inside, outcome) = self.shared.enter(Entry::new(Call::Reached));
        outcome.well()?;
        let mut state = self.shared.lock();
        if let Some(fault) = state.word_fault.clone() {
            return Err(fault);
        }
        state.answered = state.answered.max(state.word);
        Ok(state.word)
    }

    fn wake_at(&self, value: u64, waker: &Waker) {
        let (_inside, _) = self.shared.enter(Entry::new(Call::WakeAt).value(value));
        let mut state = self.shared.lock();
        let over = state.word >= value || state.fault.is_some() || state.stopped;
        if over {
            drop(state);
            waker.wake_by_ref();
        } else if !state.wakers.iter().any(|(at, known)| *at == value && known.will_wake(waker)) {
            state.wakers.push((value, waker.clone()));
        }
    }

    fn block(&self, value: u64, at_most: Duration) -> Result<(), Fault> {
        let until = Instant::now() + at_most;
        let ms = at_most.as_millis() as u64;
        let (_inside, outcome) = self.shared.enter(Entry::new(Call::Block).value(value).bytes(ms));
        outcome.well()?;
        let limit = {
            let mut state = self.shared.lock();
            self.shared.look_at_block(&mut state, value, at_most);
            let limit = if self.shared.script.batches { state.committed } else { state.handed };
            (state.word < value).then_some(limit)
        };
        // With nothing to run, it still answers what is pending.
        let nap = limit.map_or(Nap::Ran, |limit| self.shared.nap(limit, until));
        self.shared.serve();
        match nap {
            Nap::Fault(fault) => return Err(fault),
            Nap::Ran => {}
            Nap::Still => self.shared.rest(until),
        }
        self.shared.lock().fault.clone().map_or(Ok(()), Err)
    }

    fn service(&self) -> Result<Option<Duration>, Fault> {
        let (_inside, outcome) = self.shared.enter(Entry::new(Call::Service));
        outcome.well()?;
        if self.shared.script.service_runs {
            self.shared.step(u64::MAX);
        }
        self.shared.serve();
        let state = self.shared.lock();
        let waits = !(state.wakers.is_empty() && state.asking.is_empty());
        Ok(waits.then_some(Duration::from_millis(1)))
    }

    fn health(&self) -> Result<(), Fault> {
        let (_inside, outcome) = self.shared.enter(Entry::new(Call::Health));
        outcome.well()
    }

    fn stop(&self) {
        let (_inside, _) = self.shared.enter(Entry::new(Call::Stop));
        let script = &self.shared.script;
        self.shared.sleep_until("work ran on beside the stop", |state| !state.running);
        let wakers = self.shared.change(|state| {
            if state.stopped {
                state.violate("a second stop");
            }
            if state.inside > 1 {
                let others = state.inside - 1;
                state.violate(format!("the stop came with {others} other calls in progress"));
            }
            state.stopped = true;
            if script.stop_end == StopEnd::Settles {
                state.queue.clear();
                state.queued_parts = 0;
            }
            if script.stop_word == StopWord::WritesLast {
                state.word = state.handed;
            }
            state.all_wakers()
        });
        wake(wakers);
    }

    fn poll_stopped(&self, waker: &Waker) -> Poll<Stopped> {
        let (_inside, _) = self.shared.enter(Entry::new(Call::PollStopped));
        let script = &self.shared.script;
        let mut state = self.shared.lock();
        if !state.stopped {
            state.violate("poll_stopped came before the stop");
        }
        state.stop_polls += 1;
        let over = match script.stops {
            Answer::AtOnce => true,
            Answer::AtService => state.stop_polls > 1,
            Answer::WhenTold => state.stop_told,
        };
        if !over {
            state.ask(waker);
            return Poll::Pending;
        }
        state.settled = script.stop_end == StopEnd::Settles;
        Poll::Ready(if state.settled { Stopped::Settled } else { Stopped::Unsettled })
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.shared.lock().look_at_drop(self.shared.script.stop_end);
        if self.on_drop == OnDrop::Check && !std::thread::panicking() {
            Control { shared: Arc::clone(&self.shared) }.check();
        }
    }
}

/// What a refused hand-over says that it had no room for.
const REFUSED_BYTES: u64 = 4096;
