//! The work of a scripted device: what was handed over, and how it comes to run.

use crate::driver::Scripted;
use crate::region::{Map, Verdict};
use crate::script::{Answer, Completion, Sleep};
use crate::state::{Shared, State};
use rig::driver::{Access, Driver, Fault, Op, Part, Producer, Queue, Region, Room, Span, Work};
use std::any::Any;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// One value's work.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) value: u64,
    pub(crate) parts: Vec<Part>,
    pub(crate) spans: Vec<Span>,
    pub(crate) waits: Vec<(Arc<Shared>, u64)>,
}

impl Job {
    pub(crate) fn queued_parts(&self) -> u64 {
        parts_of(self.parts.len())
    }
}

/// What a try to run the next value came to.
#[derive(Debug)]
pub(crate) enum Step {
    Ran,
    /// There is no value to run, or none this far.
    Nothing,
    /// The next value waits for these.
    Waits(Vec<(Arc<Shared>, u64)>),
}

/// What a sleep came to.
#[derive(Debug)]
pub(crate) enum Nap {
    Ran,
    Still,
    Fault(Fault),
}

impl Shared {
    /// Runs the next value, up to `limit`, if what it waits for ran.
    pub(crate) fn step(&self, limit: u64) -> Step {
        let job = loop {
            let Some(job) = self.next_job(limit) else { return Step::Nothing };
            // The producers' locks are taken one at a time, with none of ours.
            let behind = job.waits.iter().filter(|(producer, value)| producer.lock().ran < *value);
            let behind: Vec<_> = behind.cloned().collect();
            if !behind.is_empty() {
                return Step::Waits(behind);
            }
            let mut state = self.lock();
            let still = state.queue.front().is_some_and(|front| Arc::ptr_eq(front, &job));
            if still && !state.running {
                state.running = true;
                break job;
            }
        };
        let work = Work { prepared: None, parts: &job.parts, spans: &job.spans };
        let outcome = self.functions.run(&self.pages, &work);
        let (step, wakers) = self.change(|state| {
            state.running = false;
            match outcome {
                Ok(()) => (Step::Ran, state.finish(&job, self.script.completion)),
                Err(fault) => (Step::Nothing, state.take_fault(fault)),
            }
        });
        wake(wakers);
        step
    }

    /// Sleeps as the script says: by default until the next value up to `limit` ran. Work of other
    /// devices that it waits for is slept for first, as those devices' scripts say.
    pub(crate) fn nap(&self, limit: u64, until: Instant) -> Nap {
        match self.obey_sleeps(until) {
            Ok(true) => {}
            Ok(false) => return Nap::Still,
            Err(fault) => return Nap::Fault(fault),
        }
        loop {
            match self.step(limit) {
                Step::Ran => return Nap::Ran,
                Step::Nothing => return Nap::Still,
                Step::Waits(behind) => {
                    let naps = behind
                        .iter()
                        .map(|(producer, value)| matches!(producer.nap(*value, until), Nap::Ran));
                    let ran = naps.filter(|ran| *ran).count();
                    if ran == 0 || Instant::now() >= until {
                        return Nap::Still;
                    }
                }
            }
        }
    }

    /// Does what the script says for one sleep; answers whether work may run.
    fn obey_sleeps(&self, until: Instant) -> Result<bool, Fault> {
        let mut state = self.lock();
        while state.sleep_gate || state.sleeps.front() == Some(&Sleep::Gate) {
            if let Some(fault) = state.fault.clone() {
                return Err(fault);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            state.sleepers += 1;
            // Whoever waits for a sleeper looks again.
            self.tell(&state);
            state = self.sleep(state, until);
            state.sleepers -= 1;
        }
        match state.sleeps.pop_front() {
            Some(Sleep::Fault(why)) => {
                let fault = Fault::new(why);
                let wakers = state.take_fault(fault.clone());
                drop(state);
                wake(wakers);
                Err(fault)
            }
            Some(Sleep::Stall(times)) => {
                if times > 1 {
                    state.sleeps.push_front(Sleep::Stall(times - 1));
                }
                Ok(false)
            }
            Some(Sleep::Gate) | None => Ok(true),
        }
    }

    /// Lets a thread that found nothing to do rest a little, so that a waiting core does not spin.
    pub(crate) fn rest(&self, until: Instant) {
        let state = self.lock();
        drop(self.sleep(state, until.min(Instant::now() + REST)));
    }

    /// Answers what is pending until the next service, shows what ran, and wakes.
    pub(crate) fn serve(&self) {
        let script = &self.script;
        let wakers = self.change(|state| {
            let mut wakers = state.raise();
            if script.allocs == Answer::AtService {
                state.answer_allocs();
            }
            if script.maps == Answer::AtService {
                state.answer_maps();
            }
            if script.loads == Answer::AtService {
                state.answer_loads();
            }
            wakers.append(&mut state.asking);
            wakers
        });
        wake(wakers);
    }

    /// Whether the queue has room for work of so many parts.
    pub(crate) fn room(&self, state: &State, work: &Work<'_>) -> Room {
        let (parts, most) = (parts_of(work.parts.len()), self.script.queue_parts);
        if parts > most {
            Room::Never
        } else if parts > most - state.queued_parts {
            Room::Later
        } else {
            Room::Now
        }
    }

    /// Keeps the producers of a hand-over, those that a law lets it wait for.
    pub(crate) fn follow(&self, value: u64, waits: &[Producer<'_>]) -> Vec<(Arc<Self>, u64)> {
        if waits.len() as u64 > self.script.facts.waits_max.max(0) as u64 {
            let what = format!("value {value} waits for {} points", waits.len());
            self.lock().violate(what);
        }
        let followed = waits.iter().filter_map(|wait| {
            let Some(producer) = self.understood(wait.driver) else {
                self.lock().violate(format!("value {value} waits for {wait:?}: not understood"));
                return None;
            };
            let (handed, committed) = {
                let state = producer.lock();
                let committed = !producer.script.batches || state.committed >= wait.value;
                (state.handed >= wait.value, committed)
            };
            if !(handed && committed) {
                let what = if handed { "not committed" } else { "not handed over" };
                self.lock().violate(format!("value {value} waits for {wait:?}: {what}"));
            }
            Some((Arc::clone(producer), wait.value))
        });
        followed.collect()
    }

    /// Returns the producer, if this device's queue can wait for it.
    pub(crate) fn understood<'a>(&self, producer: &'a dyn Driver) -> Option<&'a Arc<Self>> {
        let other = scripted(producer)?;
        let own = std::ptr::eq(Arc::as_ptr(other), self);
        (!own && self.script.understands.has(&other.script.name)).then_some(other)
    }

    /// Takes a value into the queue, and looks at the laws of hand-overs.
    pub(crate) fn take(&self, job: Job, prepared: Option<u64>, room: Room) {
        let queues = &self.script.facts.queues;
        let value = job.value;
        let why = parts_misfit(&job.parts, queues, &job.spans);
        self.change(|state| {
            if value != state.handed + 1 {
                let before = state.handed;
                state.violate(format!("value {value} was handed over after {before}"));
            }
            if let Some(why) = why {
                state.violate(format!("value {value}: {why}"));
            }
            if room != Room::Now {
                state.violate(format!("value {value} was handed over without room"));
            }
            if prepared.is_some_and(|number| !state.prepared.contains(&number)) {
                state.violate(format!("value {value} names {prepared:?}, which is not prepared"));
            }
            for span in &job.spans {
                state.use_span(value, span);
            }
            state.handed = value;
            state.queued_parts += job.queued_parts();
            state.queue.push_back(Arc::new(job));
        });
    }

    /// Looks at the laws of a block.
    pub(crate) fn look_at_block(&self, state: &mut State, value: u64, at_most: Duration) {
        if !self.script.facts.may_block {
            state.violate(format!("a thread blocked for value {value}, where none may"));
        }
        if at_most > LONGEST_SLEEP {
            state.violate(format!("a block for value {value} may last {at_most:?}"));
        }
        if value > state.handed {
            let handed = state.handed;
            state.violate(format!("a block for value {value}, handed over are {handed}"));
        }
        // What ran already needs no commit.
        if self.script.batches && value > state.committed.max(state.word) {
            let committed = state.committed;
            state.violate(format!("a block for value {value}, committed are {committed}"));
        }
    }

    fn next_job(&self, limit: u64) -> Option<Arc<Job>> {
        let mut state = self.lock();
        while state.running {
            state = self.sleep(state, Instant::now() + REST);
        }
        state.runnable(limit)
    }
}

impl State {
    fn runnable(&self, limit: u64) -> Option<Arc<Job>> {
        let ill = self.fault.is_some() && !self.stopped;
        self.queue.front().filter(|job| !ill && job.value <= limit).cloned()
    }

    fn finish(&mut self, job: &Job, completion: Completion) -> Vec<Waker> {
        self.queue.pop_front();
        self.queued_parts -= job.queued_parts();
        self.ran = job.value;
        match completion {
            Completion::Run => {
                let mut wakers = self.raise();
                wakers.append(&mut self.asking);
                wakers
            }
            Completion::Service => Vec::new(),
        }
    }

    /// Notes that a value uses a span's region.
    fn use_span(&mut self, value: u64, span: &Span) {
        if span.len == 0 && span.region == Region::default() {
            return;
        }
        // What the device writes, the host reads.
        let host = if span.access == Access::Write { Access::Read } else { Access::Write };
        if self.regions.get(&span.region).is_some_and(|live| live.lacks_way(host)) {
            self.violate(format!("value {value} names {:?} before poll_transfer", span.region));
        }
        match self.regions.get_mut(&span.region) {
            Some(live) if live.map == Map::Off => live.last_use = value,
            Some(live) => {
                live.last_use = value;
                self.violate(format!("value {value} names {:?}, mapped for the host", span.region));
            }
            None => self.violate(format!("value {value} names {:?}, which is gone", span.region)),
        }
    }

    pub(crate) fn answer_allocs(&mut self) {
        for live in self.regions.values_mut() {
            live.verdict = match live.verdict {
                Verdict::Pending => Verdict::Given,
                Verdict::PendingRefusal => Verdict::Refused,
                other => other,
            };
        }
    }

    pub(crate) fn refuse_allocs(&mut self) {
        for live in self.regions.values_mut() {
            if matches!(live.verdict, Verdict::Pending | Verdict::PendingRefusal) {
                live.verdict = Verdict::Refused;
            }
        }
    }

    pub(crate) fn answer_maps(&mut self) {
        for live in self.regions.values_mut() {
            if live.map == Map::Asked {
                live.map = Map::Granted;
            }
        }
    }

    pub(crate) fn answer_loads(&mut self) {
        self.kernels.values_mut().for_each(|answered| *answered = true);
    }
}

/// Why a part is not fit for its queue, or its place among the others; none if it is.
pub(crate) fn parts_misfit(parts: &[Part], queues: &[Queue], spans: &[Span]) -> Option<String> {
    parts.iter().enumerate().find_map(|(at, part)| {
        let Some(queue) = queues.get(part.queue) else {
            return Some(format!("part {at} is for queue {}, which is none", part.queue));
        };
        let (runs, named): (bool, Vec<usize>) = match &part.op {
            Op::Launch { buffers, args_span, .. } => {
                (queue.launches, buffers.iter().copied().chain(*args_span).collect())
            }
            Op::Copy { src, dst } => (queue.copies, vec![*src, *dst]),
            Op::Fill { dst, .. } => (queue.fills, vec![*dst]),
            Op::Load { dst, .. } => (true, vec![*dst]),
            Op::Native(_) => (true, Vec::new()),
        };
        if !runs {
            return Some(format!("part {at} is for queue {}, which runs no such work", part.queue));
        }
        if part.after.iter().any(|after| *after >= at) {
            return Some(format!("part {at} comes after {:?}", part.after));
        }
        if let Op::Copy { src, dst } = part.op
            && let (Some(from), Some(to)) = (spans.get(src), spans.get(dst))
            && from.len != to.len
        {
            return Some(format!("part {at} copies {} bytes to {}", from.len, to.len));
        }
        let outside = named.iter().find(|span| **span >= spans.len() && !spans.is_empty());
        outside.map(|span| format!("part {at} names span {span} of {}", spans.len()))
    })
}

/// Returns what a scripted driver shares; none for others.
pub(crate) fn scripted(driver: &dyn Driver) -> Option<&Arc<Shared>> {
    let any: &dyn Any = driver;
    any.downcast_ref::<Scripted>().map(|scripted| &scripted.shared)
}

/// Wakes with no lock held: a waker may run anything.
pub(crate) fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// What a value takes in the queue.
pub(crate) fn parts_of(count: usize) -> u64 {
    (count as u64).max(1)
}

/// No wait sleeps for longer without looking for losses (S0.7).
const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// How long a thread that found nothing to do rests, unless something changes.
const REST: Duration = Duration::from_millis(1);
