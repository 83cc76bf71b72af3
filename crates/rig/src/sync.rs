//! The only door to atomics, locks and `Send` bounds.
//!
//! Under `--cfg rig_loom` the same names are loom's, so that the model checker sees every access
//! of the types built on them. Statics use `std` and [`plain`], since loom's types cannot be
//! constants. Any thread may use anything here; each lock says at its field what it guards.

use crate::ordered::Ordered;
use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Wake, Waker};
#[cfg(not(target_family = "wasm"))]
use std::time::Instant;

/// `Send` natively; nothing in a browser, whose objects stay on one thread.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_family = "wasm"))]
impl<T: Send + ?Sized> MaybeSend for T {}

/// `Send` natively; nothing in a browser, whose objects stay on one thread.
#[cfg(target_family = "wasm")]
pub trait MaybeSend {}
#[cfg(target_family = "wasm")]
impl<T: ?Sized> MaybeSend for T {}

/// `Sync` natively; nothing in a browser, whose objects stay on one thread.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSync: Sync {}
#[cfg(not(target_family = "wasm"))]
impl<T: Sync + ?Sized> MaybeSync for T {}

/// `Sync` natively; nothing in a browser, whose objects stay on one thread.
#[cfg(target_family = "wasm")]
pub trait MaybeSync {}
#[cfg(target_family = "wasm")]
impl<T: ?Sized> MaybeSync for T {}

/// A future on the heap.
#[cfg(not(target_family = "wasm"))]
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A future on the heap.
#[cfg(target_family = "wasm")]
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A function on the heap that runs once.
#[cfg(not(target_family = "wasm"))]
pub(crate) type BoxOnce = Box<dyn FnOnce() + Send>;

/// A function on the heap that runs once.
#[cfg(target_family = "wasm")]
pub(crate) type BoxOnce = Box<dyn FnOnce()>;

/// A value of any type, on the heap.
#[cfg(not(target_family = "wasm"))]
pub(crate) type BoxAny = Box<dyn Any + Send>;

/// A value of any type, on the heap.
#[cfg(target_family = "wasm")]
pub(crate) type BoxAny = Box<dyn Any>;

/// Whether there may be two threads: a browser's package has one, beside which nothing happens.
pub(crate) const HAS_THREADS: bool = cfg!(not(target_family = "wasm"));

/// Awaits a future of what no browser has: other threads, files, host memory that is mapped. On
/// wasm comes what stands behind it instead, or, since that is on no path, nothing. A constant
/// around an await would leave its state in the future that awaits, and what follows it.
#[cfg(not(target_family = "wasm"))]
macro_rules! await_native {
    ($future:expr $(, $instead:expr)?) => {
        $future.await
    };
}
#[cfg(target_family = "wasm")]
macro_rules! await_native {
    ($future:expr) => {
        crate::sync::never_on_wasm(|| $future)
    };
    ($future:expr, $instead:expr) => {{
        let _ = || $future;
        $instead
    }};
}
pub(crate) use await_native;

/// Stands for the wait for a future that nothing makes.
#[cfg(target_family = "wasm")]
pub(crate) fn never_on_wasm<F: Future>(_: impl FnOnce() -> F) -> F::Output {
    unreachable!("no browser has what this waits for")
}

#[cfg(not(any(rig_loom, target_family = "wasm")))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(target_family = "wasm")]
pub(crate) use self::single::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(target_family = "wasm")]
pub(crate) use std::sync::atomic::Ordering;

#[cfg(rig_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Loads a word after an exchange of the caller's which is `SeqCst` too, for a thread that looks at
/// what was exchanged after a store to the word and a `SeqCst` fence: one of them sees the other.
#[cfg(not(rig_loom))]
#[inline]
pub(crate) fn load_in_order(word: &AtomicU64) -> u64 {
    // ORDERING: as said above.
    word.load(Ordering::SeqCst)
}

/// The same for loom, which knows one order of all fences and none of all accesses.
#[cfg(rig_loom)]
pub(crate) fn load_in_order(word: &AtomicU64) -> u64 {
    // ORDERING: as above.
    fence(Ordering::SeqCst);
    word.load(Ordering::Acquire)
}

#[cfg(not(rig_loom))]
pub(crate) use self::plain::{Mutex, MutexGuard};

#[cfg(rig_loom)]
pub(crate) use loom::sync::MutexGuard;

#[cfg(not(rig_loom))]
pub(crate) use std::sync::OnceLock;

#[cfg(rig_loom)]
pub(crate) use self::checked::{Mutex, OnceLock};

#[cfg(any(target_family = "wasm", all(test, not(rig_loom))))]
mod single;

/// Locks that loom does not see, for statics.
pub(crate) mod plain {
    #[cfg(target_family = "wasm")]
    pub(crate) use crate::sync::single::{Mutex, MutexGuard, RwLock};
    #[cfg(not(target_family = "wasm"))]
    #[cfg_attr(rig_loom, allow(unused_imports))]
    pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};
}

#[cfg(rig_loom)]
mod checked {
    use loom::sync::atomic::{AtomicBool, Ordering};

    /// Loom's mutex with the face of `parking_lot`'s.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            match self.0.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }
    }

    /// A `OnceLock` whose order the model checker sees.
    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        is_set: AtomicBool,
        /// Guards the setting of `value` and `is_set` together.
        setting: Mutex<()>,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            let (value, setting) = (std::sync::OnceLock::new(), Mutex::new(()));
            Self { value, is_set: AtomicBool::new(false), setting }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            // ORDERING: pairs with the store in `get_or_init`.
            if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
        }

        pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
            let _setting = self.setting.lock();
            let value = self.value.get_or_init(init);
            // ORDERING: pairs with the load in `get`.
            self.is_set.store(true, Ordering::Release);
            value
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            let mut own = Some(value);
            self.get_or_init(|| own.take().expect("a value is set once"));
            own.map_or(Ok(()), Err)
        }
    }
}

/// The steps of the threads of a loom test. Loom forgets that one thread looked at an atomic once
/// another looks too, and so skips orders in which a thread only looks; it tries the orders of
/// what all change. A step orders no memory.
#[cfg(all(test, rig_loom))]
#[derive(Default)]
pub(crate) struct Steps(AtomicU64);

#[cfg(all(test, rig_loom))]
impl Steps {
    /// Lets any thread go on from here.
    pub(crate) fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Says how the time is told, in nanoseconds since some moment; the first call counts, and comes
/// before any device is opened. Without it the time stands still.
#[cfg(target_family = "wasm")]
pub fn set_clock(now_ns: fn() -> u64) {
    let _ = CLOCK.set(now_ns);
}

/// Returns the nanoseconds since some moment.
#[cfg(target_family = "wasm")]
pub(crate) fn now_ns() -> u64 {
    CLOCK.get().map_or(0, |now_ns| now_ns())
}

#[cfg(target_family = "wasm")]
static CLOCK: std::sync::OnceLock<fn() -> u64> = std::sync::OnceLock::new();

/// Returns the nanoseconds since the process first asked.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn now_ns() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Tasks that wait for one thing to change; whoever changes it wakes them all.
///
/// A waiter registers first and looks at the thing again afterwards, so that no change is missed:
/// two fences order the looks and the changes, whatever their own orderings. There is at most one
/// waker for each task that waited since the last change, as far as wakers know each other.
#[derive(Debug)]
pub(crate) struct Wakers {
    /// Guards the registered wakers. A leaf lock: nothing is called while it is held.
    list: Mutex<Vec<Waker>>,
    /// Whether `list` may hold something, so that waking nobody takes no lock. Written under it.
    any: AtomicBool,
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

impl Wakers {
    pub(crate) fn new() -> Self {
        Self { list: Mutex::new(Vec::new()), any: AtomicBool::new(false) }
    }

    /// Adds a waker, unless one that wakes the same task is there.
    pub(crate) fn register(&self, waker: &Waker) {
        // The first poll of a blocking form, whose waker wakes nobody; it polls again at once.
        if waker.will_wake(Waker::noop()) {
            return;
        }
        // A waker's own code runs when it is cloned or dropped, so neither happens under the lock.
        let mut own = Some(waker.clone());
        {
            let mut list = self.list.lock();
            if !list.iter().any(|known| known.will_wake(waker)) {
                list.extend(own.take());
            }
            self.any.store(true, Ordering::Relaxed);
        }
        // ORDERING: pairs with the fence in `wake_all`. If that one comes first, the look after
        // this call sees the change; else the waker is seen there.
        fence(Ordering::SeqCst);
    }

    /// Wakes and forgets everything registered; called after the change.
    pub(crate) fn wake_all(&self) {
        // ORDERING: see `register`.
        fence(Ordering::SeqCst);
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let woken = {
            let mut list = self.list.lock();
            self.any.store(false, Ordering::Relaxed);
            std::mem::take(&mut *list)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Whether anybody is registered; one who registers at the same time may be missed.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
}

/// Tasks that watch for one thing that comes once, each for as long as it cares.
///
/// A watcher leaves its waker first and looks afterwards; the lock orders that against the wake.
#[derive(Debug)]
pub(crate) struct Watchers {
    /// Guards the number of the last watcher, and the wakers left. A leaf lock: nothing is called
    /// while it is held.
    list: Mutex<(u64, Ordered<Waker>)>,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self { list: Mutex::new((0, Ordered::new())) }
    }

    /// Begins to watch; what it leaves goes with it.
    pub(crate) fn watch(&self) -> Watch<'_> {
        let mut list = self.list.lock();
        list.0 += 1;
        Watch { watchers: self, number: list.0 }
    }

    /// Wakes and forgets every waker; called after the change.
    pub(crate) fn wake_all(&self) {
        let woken = std::mem::replace(&mut self.list.lock().1, Ordered::new());
        woken.into_things().for_each(Waker::wake);
    }
}

/// One task's watch; on drop its waker is forgotten.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    watchers: &'a Watchers,
    number: u64,
}

impl Watch<'_> {
    /// Leaves a waker in place of the one left before.
    pub(crate) fn leave(&self, waker: &Waker) {
        // A waker's own code runs when it is cloned or dropped, so neither happens under the lock.
        let waker = waker.clone();
        let before = {
            let left = &mut self.watchers.list.lock().1;
            let before = left.remove(self.number);
            left.or_insert_with(self.number, || waker);
            before
        };
        drop(before);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let left = self.watchers.list.lock().1.remove(self.number);
        drop(left);
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::sync::Wakers;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Wake, Waker};

    struct Counted(AtomicU32);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn s0_7_a_change_wakes_every_waiting_task_once_and_forgets_it() {
        let (wakers, tasks) = (Wakers::new(), [0; 3].map(|zero| Arc::new(Counted(zero.into()))));
        let woken = || tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
        wakers.wake_all();
        assert!(!wakers.any());
        for task in &tasks {
            wakers.register(&Waker::from(Arc::clone(task)));
        }
        assert!(wakers.any());
        assert_eq!(woken(), [0, 0, 0]);
        wakers.wake_all();
        assert!(!wakers.any());
        assert_eq!(woken(), [1, 1, 1]);
        wakers.wake_all();
        assert_eq!(woken(), [1, 1, 1]);
    }

    #[test]
    fn s0_7_a_waker_may_use_the_list_that_it_is_on() {
        struct Again(Wakers, AtomicU32);
        impl Wake for Again {
            fn wake(self: Arc<Self>) {
                if self.1.fetch_add(1, Ordering::Relaxed) == 0 {
                    self.0.register(&Waker::from(Arc::clone(&self)));
                    self.0.wake_all();
                }
            }
        }
        let task = Arc::new(Again(Wakers::new(), AtomicU32::new(0)));
        task.0.register(&Waker::from(Arc::clone(&task)));
        task.0.wake_all();
        assert_eq!(task.1.load(Ordering::Relaxed), 2);
        assert_eq!(Arc::strong_count(&task), 1);
    }
}

#[cfg(all(test, rig_loom))]
mod loom_tests {
    use crate::sync::{AtomicU64, Ordering, Wakers};
    use loom::future::block_on;
    use loom::sync::Arc;
    use loom::thread;
    use std::future::poll_fn;
    use std::task::Poll;

    /// Waits until `thing` is `wanted`, as every future here does.
    fn wait(wakers: &Wakers, thing: &AtomicU64, wanted: u64) {
        block_on(poll_fn(|cx| {
            if thing.load(Ordering::Relaxed) == wanted {
                return Poll::Ready(());
            }
            wakers.register(cx.waker());
            if thing.load(Ordering::Relaxed) == wanted { Poll::Ready(()) } else { Poll::Pending }
        }));
    }

    #[test]
    fn s0_7_no_change_is_missed_whatever_its_ordering() {
        loom::model(|| {
            let shared = Arc::new((Wakers::new(), AtomicU64::new(0)));
            let changer = Arc::clone(&shared);
            let changing = thread::spawn(move || {
                changer.1.store(1, Ordering::Relaxed);
                changer.0.wake_all();
            });
            wait(&shared.0, &shared.1, 1);
            changing.join().unwrap();
        });
    }

    #[test]
    fn s0_7_of_two_changes_at_once_the_second_is_not_missed() {
        loom::model(|| {
            let shared = Arc::new((Wakers::new(), AtomicU64::new(0)));
            let changing = [(); 2].map(|()| {
                let changer = Arc::clone(&shared);
                thread::spawn(move || {
                    changer.1.fetch_add(1, Ordering::Relaxed);
                    changer.0.wake_all();
                })
            });
            wait(&shared.0, &shared.1, 2);
            for thread in changing {
                thread.join().unwrap();
            }
        });
    }
}
