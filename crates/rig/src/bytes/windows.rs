//! Zeroed memory on Windows: large memory that starts on a page is a region of the system's own,
//! since DX12 maps no other; the rest is the allocator's. Checked by the compiler, and not run so
//! far. Any thread may call; there are no locks.

#[path = "heap.rs"]
mod heap;

use crate::bytes::PAGE_BYTES;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// Memory that the system or its allocator gave, freed on drop.
#[derive(Debug)]
pub(crate) enum Given {
    Heap(#[expect(dead_code, reason = "kept for its drop")] heap::Given),
    Region(NonNull<u8>),
}

impl Given {
    /// Allocates `len` zeroed bytes, not 0, that start at a multiple of `align`, a power of two;
    /// answers where they start too, and none if the system refuses.
    pub(crate) fn zeroed(len: usize, align: usize) -> Option<(Self, NonNull<u8>)> {
        if len < REGION_BYTES || align as u64 != PAGE_BYTES {
            return heap::Given::zeroed(len, align)
                .map(|(given, start)| (Self::Heap(given), start));
        }
        // Whole steps of what the system places regions at, as a heap of DX12 has.
        let len = len.checked_next_multiple_of(REGION_BYTES)?;
        isize::try_from(len).ok()?;
        // SAFETY: a new region is asked for, anywhere; one that is committed is zeroed.
        let start = unsafe { VirtualAlloc(null_mut(), len, COMMIT | RESERVE, READ_WRITE) };
        let start = NonNull::new(start.cast())?;
        Some((Self::Region(start), start))
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if let Self::Region(start) = self {
            // SAFETY: the region is this value's alone, and is given back whole.
            let freed = unsafe { VirtualFree(start.as_ptr().cast(), 0, RELEASE) };
            debug_assert!(freed != 0, "a region is given back");
        }
    }
}

#[link(name = "kernel32")]
unsafe extern "system" {
    fn VirtualAlloc(address: *mut c_void, len: usize, kind: u32, protection: u32) -> *mut c_void;
    fn VirtualFree(address: *mut c_void, len: usize, kind: u32) -> i32;
}

/// The step that the system places regions at, and the least that has one of its own.
const REGION_BYTES: usize = 64 << 10;
/// `MEM_COMMIT`, `MEM_RESERVE`, `MEM_RELEASE` and `PAGE_READWRITE` of the Windows SDK.
const COMMIT: u32 = 0x1000;
const RESERVE: u32 = 0x2000;
const RELEASE: u32 = 0x8000;
const READ_WRITE: u32 = 0x04;
