//! The memory of this half: blocks of powers of two, each size with a list of the free ones.
//!
//! A block comes from the end of the wasm memory and goes back to its list; wasm memory never
//! shrinks. What is held here is small, the bytes of buffers lie elsewhere, so a block may be twice
//! what was asked, and the code is a tenth of a general allocator's. It stands once: in each of its
//! callers it would be more than a general allocator's. There is one thread.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::null_mut;

/// The allocator.
struct Heap {
    /// The first free block of each size; each block starts with the address of the next.
    free: [Cell<*mut u8>; SIZES],
    /// Where what was never given out starts, and where the memory ends.
    rest: Cell<(usize, usize)>,
}

// SAFETY: wasm without atomics has one thread.
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap =
    Heap { free: [const { Cell::new(null_mut()) }; SIZES], rest: Cell::new((0, 0)) };

// SAFETY: a block is of its size class's bytes, which are at least those asked, and starts at a
// multiple of the alignment: blocks up to a page are cut from pages at multiples of their size,
// greater ones start on a page, and no alignment is above that. A block is given out once until it
// comes back.
unsafe impl GlobalAlloc for Heap {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let class = class_of(layout);
        let Some(free) = self.free.get(class) else { return null_mut() };
        let first = free.get();
        if first.is_null() {
            return self.cut(LEAST << class);
        }
        // SAFETY: a free block holds the address of the next.
        free.set(unsafe { first.cast::<*mut u8>().read() });
        first
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let free = &self.free[class_of(layout)];
        // SAFETY: the block is nobody's now, and has room for an address.
        unsafe { block.cast::<*mut u8>().write(free.get()) };
        free.set(block);
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: the caller's alignment is one already.
        let wanted = unsafe { Layout::from_size_align_unchecked(len, layout.align()) };
        if class_of(wanted) == class_of(layout) {
            return block;
        }
        // SAFETY: both blocks have the bytes of the shorter, and are different ones.
        unsafe {
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(block, len.min(layout.size()));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

impl Heap {
    /// Cuts a block off what was never given out, which grows.
    #[cold]
    fn cut(&self, bytes: usize) -> *mut u8 {
        let (start, end) = self.rest.get();
        let start = start.next_multiple_of(bytes.min(PAGE));
        if end.saturating_sub(start) >= bytes {
            self.rest.set((start + bytes, end));
            return start as *mut u8;
        }
        // The memory grows in pages, by an eighth of what it is at least. Nobody else grows it.
        let lacking = (bytes - end.saturating_sub(start)).div_ceil(PAGE);
        let pages = lacking.max(core::arch::wasm32::memory_size(0) / 8);
        let grown = [pages, lacking].into_iter().find_map(|pages| {
            let before = core::arch::wasm32::memory_grow(0, pages);
            (before != usize::MAX).then_some((before, pages))
        });
        let Some((before, pages)) = grown else { return null_mut() };
        let start = if end == 0 { before * PAGE } else { start };
        self.rest.set((start + bytes, (before + pages) * PAGE));
        start as *mut u8
    }
}

/// Returns the class of a layout; one past the last for what no memory holds.
fn class_of(layout: Layout) -> usize {
    let bytes = layout.size().max(layout.align()).max(LEAST);
    (usize::BITS - (bytes - 1).leading_zeros() - LEAST.trailing_zeros()) as usize
}

const LEAST: usize = 16;
/// Up to half of the addresses.
const SIZES: usize = 28;
const PAGE: usize = 65_536;
