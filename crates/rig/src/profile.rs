//! Profiles: what devices did and when, recorded or told to a sink (S11.7).
//!
//! While no profile runs, an event costs one relaxed load and is never made. Several may run, and
//! each gets every event from its start to its stop. The registry's lock is a leaf: sinks are
//! called, and dropped, while it is not held, on the thread that records. Any thread may call
//! anything here.

mod chrome;

use crate::entry;
use crate::sync::{Mutex, now_ns, plain};
use crate::timeline::DeviceId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A profile that runs until it is stopped or dropped.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::{Profile, What};
///
/// let device = rig::memory::open("profile example")?;
/// let x = device.create_buffer(4)?;
/// let profile = Profile::start();
/// device.prepare().label("clear").fill(&x, 0).build()?.submit(&[], &[])?;
/// let trace = profile.stop();
///
/// let mut mine = trace.events().iter().filter(|event| event.device == device.id());
/// let first = mine.find(|event| event.what == What::Submission).expect("what was submitted");
/// assert_eq!((first.value, &*first.label), (Some(1), "clear"));
/// let json = trace.chrome_json(); // For chrome://tracing and Perfetto.
/// assert!(json.contains("traceEvents"));
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a profile ends it"]
#[derive(Debug)]
pub struct Profile {
    registry: &'static Registry,
    sink: Arc<Sink>,
}

impl Profile {
    /// Starts recording the events of all devices, 1,048,576 at most.
    pub fn start() -> Self {
        PROFILES.start(Sink::Record(Mutex::new(Trace::default())))
    }

    /// Starts telling the events of all devices to `f`, on the thread that each happens on, and
    /// at times on several at once. In `f`, all calls but drops and facts are `Misuse::Reentrant`
    /// (S0.5); a panic in it is caught and told to `tracing`.
    pub fn with_sink(f: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        PROFILES.start(Sink::Tell(Box::new(f)))
    }

    /// Ends the profile and returns what it recorded; nothing if it told a sink.
    pub fn stop(self) -> Trace {
        self.registry.end(&self.sink);
        match &*self.sink {
            Sink::Record(trace) => {
                let mut trace = std::mem::take(&mut *trace.lock());
                trace.events.sort_by_key(|event| event.at_ns);
                trace
            }
            Sink::Tell(_) => Trace::default(),
        }
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        self.registry.end(&self.sink);
    }
}

/// What a profile recorded, in the order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    events: Vec<Event>,
    left_out_count: u64,
}

impl Trace {
    /// Returns the events, by the time they began.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns how many events found no place any more.
    pub fn left_out_count(&self) -> u64 {
        self.left_out_count
    }

    /// Writes the events as Chrome trace JSON, which `chrome://tracing` and Perfetto show: a
    /// process for each device, a thread for each queue and one for what rig itself did.
    ///
    /// # Errors
    ///
    /// What `out` answers.
    pub fn write_chrome(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        chrome::write(self, out)
    }

    /// Returns the events as Chrome trace JSON.
    pub fn chrome_json(&self) -> String {
        let mut json = Vec::new();
        let written = chrome::write(self, &mut json);
        debug_assert!(written.is_ok(), "a vector takes everything");
        String::from_utf8_lossy(&json).into_owned()
    }

    fn push(&mut self, event: &Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(event.clone());
        } else {
            self.left_out_count += 1;
        }
    }
}

/// Something that a device did, or that rig did for it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    pub what: What,
    /// The device; the host for its own moves.
    pub device: DeviceId,
    /// When it began, in nanoseconds from the process's first look at the clock.
    pub at_ns: u64,
    /// How long it took, as rig saw it.
    pub took_ns: u64,
    /// The queue; none for what rig itself did.
    pub queue: Option<u64>,
    /// The value, if it has one.
    pub value: Option<u64>,
    /// The bytes moved, named by what was submitted, or returned.
    pub bytes: u64,
    /// The label of what was submitted; empty if there is none.
    pub label: Arc<str>,
}

impl Event {
    /// Makes an event of now, with nothing more known.
    pub(crate) fn now(what: What, device: DeviceId) -> Self {
        let (at_ns, label) = (now_ns(), Arc::default());
        Self { what, device, at_ns, took_ns: 0, queue: None, value: None, bytes: 0, label }
    }

    /// Makes an event that began at `start_ns` and ends now.
    pub(crate) fn since(start_ns: u64, what: What, device: DeviceId) -> Self {
        let now = Self::now(what, device);
        Self { at_ns: start_ns, took_ns: now.at_ns.saturating_sub(start_ns), ..now }
    }
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum What {
    /// A submission was handed over.
    Submission,
    /// A part of one: "launch", "copy", "fill".
    Part(&'static str),
    /// A device moved a copy's bytes directly.
    DirectCopy,
    /// A device moved one piece of a staged copy.
    Leg,
    /// The host moved one piece of a staged copy.
    HostMove,
    /// Somebody waited for a value.
    Wait,
    /// A round of reclaim, by its number from 1.
    Round(u64),
    /// A drain.
    Drain,
    /// The device was lost, with its reason.
    Loss(Arc<str>),
    /// The bytes of the device's budget as they stand.
    Held {
        /// All that is held.
        held_bytes: u64,
        /// What is cached.
        cached_bytes: u64,
        /// What is live.
        live_bytes: u64,
    },
}

/// Whether any profile runs. Ask before making an event.
pub(crate) fn active() -> bool {
    PROFILED.load(Ordering::Relaxed) > 0
}

/// Returns when something begins, if any profile runs.
pub(crate) fn begin() -> Option<u64> {
    active().then(now_ns)
}

/// Records something that began at `begun`, if a profile ran then and one does still; `with` tells
/// more of it.
pub(crate) fn end(
    begun: Option<u64>,
    what: What,
    device: DeviceId,
    with: impl FnOnce(Event) -> Event,
) {
    if let Some(begun) = begun.filter(|_| active()) {
        record(&with(Event::since(begun, what, device)));
    }
}

/// Gives an event to every profile that runs. Never called with a lock held.
pub(crate) fn record(event: &Event) {
    PROFILES.record(event);
}

struct Registry {
    /// Guards the list of sinks, which is replaced whole, so that a snapshot is one count.
    /// A static of its own kind: loom's locks cannot be constants.
    sinks: plain::Mutex<Option<Arc<[Arc<Sink>]>>>,
}

enum Sink {
    /// Keeps the events. The lock guards the trace and is a leaf.
    Record(Mutex<Trace>),
    /// Tells a program's function.
    Tell(Box<dyn Fn(&Event) + Send + Sync>),
}

impl Registry {
    const fn new() -> Self {
        Self { sinks: plain::Mutex::new(None) }
    }

    fn start(&'static self, sink: Sink) -> Profile {
        let sink = Arc::new(sink);
        let mut sinks = self.sinks.lock();
        let all = sinks.iter().flat_map(|sinks| sinks.iter()).chain([&sink]);
        let all: Arc<[Arc<Sink>]> = all.map(Arc::clone).collect();
        *sinks = Some(all);
        PROFILED.fetch_add(1, Ordering::Relaxed);
        drop(sinks);
        Profile { registry: self, sink }
    }

    /// Takes a sink out; again does nothing.
    fn end(&self, sink: &Arc<Sink>) {
        let mut sinks = self.sinks.lock();
        let before = sinks.take();
        let others = before.iter().flat_map(|sinks| sinks.iter());
        let others = others.filter(|other| !Arc::ptr_eq(other, sink)).map(Arc::clone);
        let others: Arc<[Arc<Sink>]> = others.collect();
        if others.len() < before.as_ref().map_or(0, |sinks| sinks.len()) {
            PROFILED.fetch_sub(1, Ordering::Relaxed);
        }
        *sinks = (!others.is_empty()).then_some(others);
        // The list as it was goes after the lock.
        drop(sinks);
        drop(before);
    }

    fn record(&self, event: &Event) {
        let Some(sinks) = self.sinks.lock().clone() else { return };
        for sink in &*sinks {
            match &**sink {
                Sink::Record(trace) => trace.lock().push(event),
                Sink::Tell(f) => {
                    let tell = AssertUnwindSafe(|| entry::inside(SINK, || f(event)));
                    if catch_unwind(tell).is_err() {
                        tracing::error!("a profile sink panicked");
                    }
                }
            }
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registry")
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Record(_) => "Record",
            Self::Tell(_) => "Tell",
        })
    }
}

/// The place in which sinks run.
const SINK: &str = "a profile sink";

/// The most events that a profile records, 112 MiB.
const EVENTS_MAX: usize = 1 << 20;

static PROFILES: Registry = Registry::new();
/// How many profiles run, in any registry. Only a hint, which decides whether an event is made;
/// apart from the registry, so that a program in which none can start has no code for events.
static PROFILED: AtomicU32 = AtomicU32::new(0);

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::entry;
    use crate::profile::{EVENTS_MAX, Event, Profile, Registry, Sink, Trace, What};
    use crate::sync::Mutex;
    use crate::sync::now_ns;
    use crate::timeline::DeviceId;
    use std::sync::Arc;

    fn event(at_ns: u64) -> Event {
        Event { at_ns, ..Event::now(What::Drain, DeviceId(1)) }
    }

    fn recorder() -> Sink {
        Sink::Record(Mutex::new(Trace::default()))
    }

    fn times(trace: &Trace) -> Vec<u64> {
        trace.events().iter().map(|event| event.at_ns).collect()
    }

    #[test]
    fn s11_7_several_profiles_run_and_each_gets_the_events_between_its_start_and_stop() {
        static REGISTRY: Registry = Registry::new();
        let active = || REGISTRY.sinks.lock().is_some();
        REGISTRY.record(&event(0));
        assert!(!active());
        let a = REGISTRY.start(recorder());
        REGISTRY.record(&event(3));
        let b = REGISTRY.start(recorder());
        REGISTRY.record(&event(2));
        assert_eq!(times(&a.stop()), [2, 3], "in the order of time");
        assert!(active());
        REGISTRY.record(&event(1));
        assert_eq!(times(&b.stop()), [1, 2]);
        assert!(!active());
        let dropped = REGISTRY.start(recorder());
        assert!(active());
        drop(dropped);
        assert!(!active());
    }

    #[test]
    fn s11_7_a_sink_is_told_each_event_with_no_lock_held_and_may_only_drop_and_ask_facts() {
        static REGISTRY: Registry = Registry::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let profile = REGISTRY.start(Sink::Tell(Box::new(move |event| {
            assert!(REGISTRY.sinks.try_lock().is_some());
            told.lock().push((event.at_ns, entry::check("copy").is_err()));
        })));
        REGISTRY.record(&event(5));
        REGISTRY.record(&event(6));
        assert_eq!(profile.stop(), Trace::default());
        REGISTRY.record(&event(7));
        assert_eq!(*seen.lock(), [(5, true), (6, true)]);
        assert!(entry::check("copy").is_ok());
    }

    #[test]
    fn s11_7_a_sink_may_end_another_profile_and_start_one() {
        static REGISTRY: Registry = Registry::new();
        let other = Arc::new(Mutex::new(Some(REGISTRY.start(recorder()))));
        let inner = Arc::clone(&other);
        let profile = REGISTRY.start(Sink::Tell(Box::new(move |_| {
            inner.lock().take();
            *inner.lock() = Some(REGISTRY.start(recorder()));
        })));
        REGISTRY.record(&event(1));
        let started = other.lock().take().unwrap();
        assert!(started.stop().events().is_empty());
        drop(profile);
        assert!(REGISTRY.sinks.lock().is_none());
    }

    #[test]
    fn s11_7_a_panic_in_a_sink_stops_no_other() {
        static REGISTRY: Registry = Registry::new();
        let _panics = REGISTRY.start(Sink::Tell(Box::new(|_| panic!("on purpose"))));
        let kept = REGISTRY.start(recorder());
        REGISTRY.record(&event(1));
        REGISTRY.record(&event(2));
        assert_eq!(times(&kept.stop()), [1, 2]);
        assert!(entry::check("copy").is_ok());
    }

    #[test]
    fn s11_7_a_profile_keeps_a_bounded_number_of_events_and_counts_the_rest() {
        let mut trace = Trace { events: vec![event(0); EVENTS_MAX - 1], left_out_count: 0 };
        (0..3).for_each(|_| trace.push(&event(1)));
        assert_eq!((trace.events().len(), trace.left_out_count()), (EVENTS_MAX, 2));
    }

    #[test]
    fn s11_7_an_event_knows_when_it_began_and_how_long_it_took() {
        let start_ns = now_ns();
        let event = Event::since(start_ns, What::Wait, DeviceId(2));
        assert_eq!(event.at_ns, start_ns);
        assert!(event.at_ns + event.took_ns <= now_ns());
        let ahead = Event::since(u64::MAX, What::Wait, DeviceId(2));
        assert_eq!((ahead.at_ns, ahead.took_ns), (u64::MAX, 0));
    }

    #[test]
    fn s11_7_the_profile_of_the_process_records_what_is_given_to_it() {
        let profile = Profile::start();
        assert!(crate::profile::active());
        let mine = Event { label: "only this test".into(), ..event(1) };
        crate::profile::record(&mine);
        let trace = profile.stop();
        assert_eq!(trace.events().iter().filter(|event| **event == mine).count(), 1);
        assert!(trace.chrome_json().contains("\"only this test\""));
    }
}
