//! A kept read that is a caller's alone: one exchange takes it, and one ends it.
//!
//! It counts in the claims' word and nowhere else, and its record stays all the same: handles keep
//! it, and the drain that finds kept reads alone leaves a reference to the last of them, which puts
//! the record on the return list. Any thread may hold one; ending it takes no lock.
//!
//! The unsafe code keeps one pointer straight: it is used only until the exchange that ends the
//! kept read, and after that only by the one whose exchange took the reference that was left.

use crate::allocation::{Allocation, Ref};
use crate::claim::{Answer, Ask, Pass};
use crate::list::List;
use crate::sync::{AtomicPtr, Ordering};
use std::marker::PhantomData;
use std::sync::Arc;

/// A kept read of an allocation; it ends on drop.
pub(crate) struct Claimed {
    /// From `Arc::as_ptr`.
    record: AtomicPtr<Allocation>,
    /// It goes to another thread only where a reference may.
    keeps: PhantomData<Arc<Allocation>>,
}

impl Claimed {
    /// Claims through a handle; else tells the answer.
    #[inline]
    pub(crate) fn new(at: &Ref, pass: Pass) -> Result<Self, Answer> {
        match at.claims.ask(Ask::KeptRead, pass) {
            Answer::Granted => {
                let record = AtomicPtr::new(Arc::as_ptr(at.record()).cast_mut());
                Ok(Self { record, keeps: PhantomData })
            }
            answer => Err(answer),
        }
    }
}

impl Drop for Claimed {
    #[inline]
    fn drop(&mut self) {
        let record = self.record.load(Ordering::Relaxed).cast_const();
        // SAFETY: the kept read is held, and so a handle or the reference left keeps the record;
        // nothing of it is touched once the exchange in this call ended the kept read.
        if !unsafe { &(*record).claims }.end_kept_alone() {
            // SAFETY: the kept read is still held; what the call needs is its own.
            unsafe { end(record) };
        }
    }
}

/// Ends a kept read of a record, for whose end somebody waits, or whose last gets a reference.
///
/// # Safety
///
/// The caller holds the kept read, and the pointer is from `Arc::as_ptr`.
#[cold]
unsafe fn end(record: *const Allocation) {
    // SAFETY: the kept read keeps the record until `end_kept`.
    let (owner, ended) = unsafe { (Arc::clone(&(*record).owner), (*record).claims.end_kept()) };
    if ended.has_left {
        // SAFETY: a drain forgot this reference for whoever ends the last kept read, which is us.
        List::push(unsafe { Arc::from_raw(record) });
    }
    if ended.is_waited_for {
        owner.claim_wakers.wake_all();
    }
}
