//! What is counted, and who counts alone.

use rig::host;
use rig_support::drain;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps the other tests away, and gives the host its budget back.
pub(crate) struct Alone {
    /// Guards the process's figures.
    _lock: MutexGuard<'static, ()>,
}

impl Alone {
    pub(crate) fn new() -> Self {
        /// Guards the process's figures.
        static ALONE: Mutex<()> = Mutex::new(());
        let lock = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        drain(&host());
        host().free_cache().expect("no callback runs");
        Self { _lock: lock }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        host().set_budget(u64::MAX).expect("no callback runs");
    }
}

/// The system's allocator, which counts what each thread asks it for.
struct Counting;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(start, layout, len) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(start, layout) }
    }
}

fn count() {
    // A thread that ends has no counter any more; nobody asks for it.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

/// Returns how often `f` asks the heap for memory, on this thread.
pub(crate) fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    f();
    ALLOCATIONS.get() - before
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn s0_8_the_count_sees_an_allocation() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(7)))), 1);
    assert_eq!(allocations(|| ()), 0);
}
