//! A global allocator that counts what each thread allocates, and what the process holds.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
pub(crate) struct Counting;

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HELD_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        note(size);
        // SAFETY: the caller's contract.
        unsafe { System.realloc(start, layout, size) }
    }
}

/// Returns how many allocations this thread makes in `f`.
pub(crate) fn count_in(f: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    f();
    COUNT.get() - before
}

/// Returns the bytes that the process has allocated and not freed.
pub(crate) fn held_bytes() -> u64 {
    HELD_BYTES.load(Ordering::Relaxed)
}

fn note(size: usize) {
    // A thread that ends may allocate after its counter is gone.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    HELD_BYTES.fetch_add(size as u64, Ordering::Relaxed);
}

static HELD_BYTES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}
