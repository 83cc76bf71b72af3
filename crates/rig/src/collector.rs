//! Collectors: what embedders register to let go of garbage when memory runs short (S10.11).
//!
//! Rounds two and three run them all. A collector is registered once and runs at most until its
//! [`Collector`] is dropped: none is begun after that. One that panics is told to `tracing` and
//! stops no other. Any thread may call anything here. The registry's lock is a leaf: collectors
//! run, and are dropped, while it is not held.

use crate::entry;
use crate::global::Global;
use crate::sync::plain::Mutex;
use crate::sync::{MaybeSend, MaybeSync};
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// Registers a function that rounds two and three of reclaim call before they give up, on the
/// thread that allocates (S10.9). It may drop and free buffers; all other calls but facts are
/// `Misuse::Reentrant` in it (S0.5). Two runs of it may overlap, on two threads.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use std::sync::{Arc, Mutex};
///
/// let device = rig::memory::open("collector example")?;
/// device.set_budget(1 << 20)?;
///
/// // A program's own store of buffers that it could do without.
/// let spare = Arc::new(Mutex::new(vec![device.create_buffer(1 << 20)?]));
/// let reached = Arc::clone(&spare);
/// let collector = rig::add_collector(move || {
///     if let Ok(mut spare) = reached.try_lock() {
///         spare.clear();
///     }
/// });
///
/// let needed = device.create_buffer(1 << 20)?; // Takes a round, and the collector's help.
/// assert!(spare.lock().unwrap().is_empty());
/// # Ok(())
/// # }
/// ```
pub fn add_collector(f: impl Fn() + Send + Sync + 'static) -> Collector {
    COLLECTORS.add(Arc::new(f))
}

/// A collector registered, until this is dropped. A run in progress goes on.
#[must_use = "dropping this unregisters the collector"]
pub struct Collector {
    registry: &'static Registry,
    id: u64,
}

impl Drop for Collector {
    fn drop(&mut self) {
        // The function goes after the lock: its own drop may be anything.
        let removed = self.registry.remove(self.id);
        drop(removed);
    }
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collector({})", self.id)
    }
}

/// Runs every collector once, in the order they were registered, with no lock held.
pub(crate) fn run_all() {
    COLLECTORS.run_all();
}

/// Returns what a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

/// An embedder's own collector of garbage, which frees in turns of its own: a browser's engine.
///
/// Rounds two and three ask for turns, after the collectors that are functions, until the try can
/// be served or a turn is the last.
pub trait Pressure: MaybeSend + MaybeSync {
    /// Takes a turn, counted from 0 in each round; answers whether another may help, once this one
    /// is over. It calls nothing of this library but drops and [`crate::Buffer::free`].
    fn poll_turn(&self, round: u64, turn: u64, cx: &mut Context<'_>) -> Poll<bool>;
}

/// Sets the embedder's collector; the first call counts.
pub(crate) fn set_pressure(pressure: Arc<dyn Pressure>) {
    let _ = PRESSURE.set(pressure);
}

/// Takes a turn of the embedder's collector; answers whether another may help.
pub(crate) fn turn(round: u64, turn: u64) -> impl Future<Output = bool> {
    poll_fn(move |cx| match PRESSURE.get() {
        Some(of) => entry::inside(entry::COLLECTOR, || of.poll_turn(round, turn, cx)),
        None => Poll::Ready(false),
    })
}

static PRESSURE: Global<OnceLock<Arc<dyn Pressure>>> = Global::new(OnceLock::new());

type Function = Arc<dyn Fn() + Send + Sync>;

struct Registry {
    /// Guards the collectors, in the order they were registered.
    list: Mutex<List>,
}

struct List {
    next_id: u64,
    registered: Vec<(u64, Function)>,
}

impl Registry {
    const fn new() -> Self {
        Self { list: Mutex::new(List { next_id: 0, registered: Vec::new() }) }
    }

    fn add(&'static self, f: Function) -> Collector {
        let mut list = self.list.lock();
        let id = list.next_id;
        list.next_id += 1;
        list.registered.push((id, f));
        Collector { registry: self, id }
    }

    fn remove(&self, id: u64) -> Option<Function> {
        let mut list = self.list.lock();
        let at = list.registered.iter().position(|(registered, _)| *registered == id)?;
        Some(list.registered.remove(at).1)
    }

    fn run_all(&self) {
        let snapshot = self.list.lock().registered.clone();
        for (id, f) in snapshot {
            // An earlier collector of this run, or another thread, may have unregistered it.
            if !self.list.lock().registered.iter().any(|(registered, _)| *registered == id) {
                continue;
            }
            let run = AssertUnwindSafe(|| entry::inside(entry::COLLECTOR, &*f));
            if let Err(panic) = catch_unwind(run) {
                tracing::error!("a collector panicked: {}", panic_text(&*panic));
            }
        }
    }
}

static COLLECTORS: Registry = Registry::new();

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::collector::{Collector, Registry, panic_text};
    use crate::entry;
    use crate::error::{Error, Misuse};
    use parking_lot::Mutex;
    use std::sync::Arc;

    /// What ran, in order.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<&'static str>>>);

    impl Log {
        fn collector(&self, registry: &'static Registry, name: &'static str) -> Collector {
            let log = self.clone();
            registry.add(Arc::new(move || log.0.lock().push(name)))
        }

        fn take(&self) -> Vec<&'static str> {
            std::mem::take(&mut *self.0.lock())
        }
    }

    /// A slot for a handle that a collector drops.
    type Slot = Arc<Mutex<Option<Collector>>>;

    #[test]
    fn s10_11_collectors_run_in_the_order_they_were_registered() {
        static REGISTRY: Registry = Registry::new();
        let log = Log::default();
        REGISTRY.run_all();
        let kept = ["a", "b", "c"].map(|name| log.collector(&REGISTRY, name));
        REGISTRY.run_all();
        assert_eq!(log.take(), ["a", "b", "c"]);
        let [a, b, c] = kept;
        drop(b);
        let again = log.collector(&REGISTRY, "again");
        REGISTRY.run_all();
        assert_eq!(log.take(), ["a", "c", "again"]);
        drop((a, c, again));
        REGISTRY.run_all();
        assert!(log.take().is_empty() && REGISTRY.list.lock().registered.is_empty());
    }

    #[test]
    fn s10_11_a_collector_unregistered_inside_a_run_is_not_begun() {
        static REGISTRY: Registry = Registry::new();
        let (log, later) = (Log::default(), Slot::default());
        let _first = REGISTRY.add({
            let (log, later) = (log.clone(), later.clone());
            Arc::new(move || {
                log.0.lock().push("first");
                later.lock().take();
            })
        });
        *later.lock() = Some(log.collector(&REGISTRY, "later"));
        let _last = log.collector(&REGISTRY, "last");
        REGISTRY.run_all();
        assert_eq!(log.take(), ["first", "last"]);
    }

    #[test]
    fn s10_11_a_collector_may_unregister_itself_and_others_may_be_added_inside_a_run() {
        static REGISTRY: Registry = Registry::new();
        let (log, own, added) = (Log::default(), Slot::default(), Slot::default());
        let registered = REGISTRY.add({
            let (log, own, added) = (log.clone(), own.clone(), added.clone());
            Arc::new(move || {
                log.0.lock().push("once");
                own.lock().take();
                *added.lock() = Some(log.collector(&REGISTRY, "added"));
            })
        });
        *own.lock() = Some(registered);
        REGISTRY.run_all();
        assert_eq!(log.take(), ["once"], "the run takes what there was at its start");
        REGISTRY.run_all();
        assert_eq!(log.take(), ["added"]);
        added.lock().take();
    }

    #[test]
    fn s10_11_a_panic_in_one_collector_stops_no_other() {
        static REGISTRY: Registry = Registry::new();
        let log = Log::default();
        let _before = log.collector(&REGISTRY, "before");
        let _panics = REGISTRY.add(Arc::new(|| panic!("on purpose")));
        let _after = log.collector(&REGISTRY, "after");
        for _ in 0..2 {
            REGISTRY.run_all();
            assert_eq!(log.take(), ["before", "after"]);
        }
        assert!(entry::check("create_buffer").is_ok(), "the place is left after a panic");
    }

    #[test]
    fn s0_5_a_collector_may_free_and_nothing_else() {
        static REGISTRY: Registry = Registry::new();
        let seen = Arc::new(Mutex::new(None));
        let _kept = REGISTRY.add({
            let seen = Arc::clone(&seen);
            Arc::new(move || {
                *seen.lock() = Some((entry::check("copy"), entry::check_free("free")));
            })
        });
        REGISTRY.run_all();
        let (copy, free) = seen.lock().take().unwrap();
        let what = Misuse::Reentrant { inside: "a collector" };
        let copy = copy.map_err(Error::from);
        assert!(matches!(copy, Err(Error::Misuse { call: "copy", what: found }) if found == what));
        assert!(free.is_ok());
    }

    #[test]
    fn s10_11_no_lock_is_held_while_a_collector_is_dropped() {
        static REGISTRY: Registry = Registry::new();
        let log = Log::default();
        let inner = log.collector(&REGISTRY, "inner");
        let outer = REGISTRY.add(Arc::new(move || {
            let _ = &inner;
        }));
        drop(outer);
        REGISTRY.run_all();
        assert!(log.take().is_empty());
    }

    #[test]
    fn s10_11_what_a_panic_says_is_told() {
        assert_eq!(panic_text(&"plain"), "plain");
        assert_eq!(panic_text(&String::from("made")), "made");
        assert_eq!(panic_text(&7), "a panic");
    }
}
