//! Zeroed memory of the process's allocator. Any thread may call; there are no locks.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Memory that the allocator gave, freed on drop.
#[derive(Debug)]
pub(crate) struct Given {
    start: NonNull<u8>,
    layout: Layout,
}

impl Given {
    /// Allocates `len` zeroed bytes, not 0, that start at a multiple of `align`, a power of two;
    /// answers where they start too, and none if the system refuses.
    pub(crate) fn zeroed(len: usize, align: usize) -> Option<(Self, NonNull<u8>)> {
        // The system's allocator writes the zeros itself, and so touches every page, when it is
        // asked for more than its own alignment. So the start is aligned here.
        let extra = align.saturating_sub(SYSTEM_ALIGN);
        let layout = Layout::from_size_align(len.checked_add(extra)?, SYSTEM_ALIGN).ok()?;
        // SAFETY: the layout's size is not 0.
        let given = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
        let skip = given.addr().get().next_multiple_of(align) - given.addr().get();
        // SAFETY: the memory starts at a multiple of the system's alignment, so `skip` is at most
        // `extra`, and `len` bytes follow.
        let start = unsafe { given.add(skip) };
        Some((Self { start: given, layout }, start))
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        // SAFETY: the system gave it for this layout, and nobody else frees it.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// What the system's allocator aligns zeroed memory to without touching it, on every platform.
const SYSTEM_ALIGN: usize = 8;
