//! What keeps an allocation: references, pins of exports, and calls in progress.
//!
//! Each counts in the record's own words, and takes itself off on drop, without a lock (S4.13). Any
//! thread may hold one.

use crate::allocation::{Allocation, EXPORT, EXPORTS, HANDLES, MOVES, RETURNING};
use crate::list::{List, Share, Shared};
use crate::sync::Ordering;
use std::sync::Arc;

/// A counted reference: while one exists, the allocation is reachable.
pub(crate) struct Ref(Share<Allocation>);

impl Ref {
    /// Makes a reference to a record that the caller has.
    pub(crate) fn new(allocation: Arc<Allocation>) -> Self {
        allocation.users.fetch_add(1, Ordering::Relaxed);
        Self::first(allocation)
    }

    /// Makes the first reference to a record out of the cache, which nobody else has. It is a
    /// handle and no longer returning at once, so that no drain takes it for unreachable.
    pub(crate) fn from_cache(allocation: Arc<Allocation>) -> Self {
        allocation.users.store(1, Ordering::Relaxed);
        Self::first(allocation)
    }

    /// Makes the reference that a new record counts already.
    pub(crate) fn first(allocation: Arc<Allocation>) -> Self {
        Self(Share::counted(allocation))
    }

    /// Returns the record itself.
    pub(crate) fn record(&self) -> &Arc<Allocation> {
        self.0.item()
    }
}

impl std::ops::Deref for Ref {
    type Target = Allocation;

    fn deref(&self) -> &Allocation {
        self.record()
    }
}

impl Clone for Ref {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(self.record()))
    }
}

impl Shared for Allocation {
    #[inline]
    fn leave(&self) -> bool {
        // ORDERING: releases what this handle did, to the drain that takes the memory home.
        let before = self.users.fetch_sub(1, Ordering::AcqRel);
        before & HANDLES == 1 && before & RETURNING == 0
    }
}

/// Keeps the bytes of an allocation, past a `free` too.
pub(crate) struct Pin(Arc<Allocation>);

impl Pin {
    pub(crate) fn new(allocation: &Arc<Allocation>) -> Self {
        allocation.users.fetch_add(EXPORT, Ordering::Relaxed);
        Self(Arc::clone(allocation))
    }
}

impl std::ops::Deref for Pin {
    type Target = Arc<Allocation>;

    fn deref(&self) -> &Arc<Allocation> {
        &self.0
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // ORDERING: releases what was done with the bytes, to the drain that takes them home.
        let before = self.0.users.fetch_sub(EXPORT, Ordering::AcqRel);
        if before & EXPORTS == EXPORT && before & RETURNING == 0 {
            List::push(Arc::clone(&self.0));
        }
    }
}

/// A call in progress on an allocation.
pub(crate) struct Call {
    at: Ref,
    counts: u64,
}

impl Call {
    pub(crate) fn new(at: &Ref) -> Self {
        Self::counting(at, 1)
    }

    /// Notes a call that moves the bytes, in pieces perhaps: a free meanwhile is `Busy`.
    pub(crate) fn moving(at: &Ref) -> Self {
        Self::counting(at, MOVES + 1)
    }

    fn counting(at: &Ref, counts: u64) -> Self {
        at.calls.fetch_add(counts, Ordering::Relaxed);
        Self { at: at.clone(), counts }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.at.calls.fetch_sub(self.counts, Ordering::Relaxed);
    }
}
