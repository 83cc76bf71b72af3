//! The heap of this test binary, counted: what the program holds in bytes at this moment.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

/// Returns the bytes that are allocated and not freed, of all threads together.
pub(crate) fn live_bytes() -> i64 {
    LIVE_BYTES.load(Ordering::Relaxed)
}

struct Counted;

// SAFETY: every call is passed on to the system as it is; counting touches no memory of it.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the rules of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller keeps the rules of `dealloc`.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the rules of `realloc`.
        unsafe { System.realloc(start, layout, size) }
    }
}

fn count(bytes: i64) {
    LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static COUNTED: Counted = Counted;
