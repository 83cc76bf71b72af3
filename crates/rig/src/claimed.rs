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

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::life;
    use crate::memory;

    #[test]
    fn s4_12_a_kept_read_keeps_the_memory_after_the_last_handle() {
        let device = memory::open("claimed").unwrap();
        let buffer = device.create_buffer(4_096).unwrap();
        let claims = [buffer.claim_read().unwrap(), buffer.claim_read().unwrap()];
        let live_bytes = || {
            life::drain(&device.owner);
            device.stats().live_bytes
        };
        drop(buffer);
        for claim in claims {
            assert_eq!([live_bytes(), live_bytes()], [4_096; 2]);
            drop(claim);
        }
        assert_eq!(live_bytes(), 0);
        assert_eq!(device.stats().cached_bytes, 4_096);
    }

    #[test]
    fn s4_12_threads_that_drop_the_handle_and_kept_reads_and_drain_lose_nothing() {
        let device = memory::open("claimed by threads").unwrap();
        for _ in 0..if cfg!(miri) { 5 } else { 2_000 } {
            let buffer = device.create_buffer(4_096).unwrap();
            let claims = [buffer.claim_read().unwrap(), buffer.claim_read().unwrap()];
            std::thread::scope(|threads| {
                claims.into_iter().for_each(|claim| {
                    threads.spawn(move || drop(claim));
                });
                threads.spawn(move || drop(buffer));
                life::drain(&device.owner);
            });
        }
        life::drain(&device.owner);
        let stats = device.stats();
        assert_eq!((stats.live_bytes, stats.held_bytes), (0, stats.cached_bytes));
    }
}
