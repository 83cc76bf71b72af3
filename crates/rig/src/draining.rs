//! The drains of a device in progress, so that who looks for memory can wait for those that have
//! some in their hands.
//!
//! Drains run side by side, and what one of them took off a list is on no list until it is done.
//! They count themselves in one of two counts, by the phase that they began in. Who waits for them
//! starts a new phase and waits for the end of the old one, whatever begins meanwhile; a new phase
//! starts only once the one before the present is over. Any thread may call anything; one atomic
//! holds the phase and both counts, and no lock is held.

use crate::sync::{AtomicU64, HAS_THREADS, Ordering, Wakers, fence};
use std::future::poll_fn;
use std::task::Poll;

/// The drains in progress.
#[derive(Debug)]
pub(crate) struct Draining {
    /// The phase in the upper bits, the counts of odd and of even phases in the lower ones.
    word: AtomicU64,
    waiters: Wakers,
}

impl Draining {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), waiters: Wakers::new() }
    }

    /// Begins a drain, before it takes anything.
    pub(crate) fn begin(&self) -> Drain<'_> {
        if !HAS_THREADS {
            return Drain { draining: self, phase: 0 };
        }
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let next = word + unit(phase(word));
            match self.word.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        // ORDERING: releases the count with what the drain takes next: who finds that gone, and
        // waits then, finds the drain.
        fence(Ordering::Release);
        Drain { draining: self, phase: phase(word) }
    }

    /// Waits until the drains that had begun before are over.
    pub(crate) async fn wait_out(&self) {
        // ORDERING: pairs with the fence in `begin`.
        fence(Ordering::Acquire);
        let mut old = None;
        poll_fn(|cx| {
            if self.is_over(&mut old) {
                return Poll::Ready(());
            }
            self.waiters.register(cx.waker());
            if self.is_over(&mut old) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Whether the phase `old` is over; starts the one after it first, as soon as that may be.
    fn is_over(&self, old: &mut Option<u64>) -> bool {
        // ORDERING: acquires what the drains did that are over, from their ends.
        let mut word = self.word.load(Ordering::Acquire);
        while old.is_none() {
            let now = phase(word);
            if count(word, now) == 0 {
                // None has begun in this phase: only those of the last are waited for.
                *old = Some(now.wrapping_sub(1) & PHASES);
            } else if count(word, now + 1) > 0 {
                return false;
            } else {
                let next = word & COUNTS | ((now + 1) & PHASES) << PHASE_SHIFT;
                // ORDERING: as above.
                let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
                match self.word.compare_exchange_weak(word, next, success, failure) {
                    Ok(_) => (*old, word) = (Some(now), next),
                    Err(seen) => word = seen,
                }
            }
        }
        // Two phases later the old one is over, though its count serves another by now.
        old.is_some_and(|old| {
            let later = phase(word).wrapping_sub(old) & PHASES;
            later > 1 || count(word, old) == 0
        })
    }
}

/// A drain in progress; it ends on drop.
#[derive(Debug)]
pub(crate) struct Drain<'a> {
    draining: &'a Draining,
    phase: u64,
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        if !HAS_THREADS {
            return;
        }
        // ORDERING: releases what the drain did, to `is_over`.
        let before = self.draining.word.fetch_sub(unit(self.phase), Ordering::Release);
        if phase(before) != self.phase && count(before, self.phase) == 1 {
            self.draining.waiters.wake_all();
        }
    }
}

fn phase(word: u64) -> u64 {
    word >> PHASE_SHIFT
}

/// Returns the count of the drains that began in the phases of this one's kind.
fn count(word: u64, phase: u64) -> u64 {
    word >> shift(phase) & COUNT
}

fn unit(phase: u64) -> u64 {
    1 << shift(phase)
}

fn shift(phase: u64) -> u64 {
    COUNT_BITS * (phase & 1)
}

const COUNT_BITS: u64 = 20;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const PHASE_SHIFT: u64 = 2 * COUNT_BITS;
const COUNTS: u64 = (1 << PHASE_SHIFT) - 1;
const PHASES: u64 = u64::MAX >> PHASE_SHIFT;

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::draining::Draining;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn is_over(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn s10_9_who_waits_waits_for_the_drains_before_and_for_none_after() {
        let draining = Draining::new();
        assert!(is_over(pin!(draining.wait_out())));
        let before = [draining.begin(), draining.begin()];
        let mut waiting = pin!(draining.wait_out());
        assert!(!is_over(waiting.as_mut()));
        let after = draining.begin();
        let [one, other] = before;
        drop(one);
        assert!(!is_over(waiting.as_mut()));
        drop(other);
        assert!(is_over(waiting.as_mut()));
        drop(after);
        assert!(is_over(pin!(draining.wait_out())));
    }

    #[test]
    fn s10_9_drains_that_never_pause_hold_no_waiter_up() {
        let draining = Draining::new();
        let mut last = draining.begin();
        for _ in 0..100 {
            let mut one = pin!(draining.wait_out());
            let mut other = pin!(draining.wait_out());
            assert!(!is_over(one.as_mut()) && !is_over(other.as_mut()));
            let next = draining.begin();
            drop(std::mem::replace(&mut last, next));
            assert!(is_over(one.as_mut()));
            // The second came in the new phase, before the next drain began or not.
            let next = draining.begin();
            drop(std::mem::replace(&mut last, next));
            assert!(is_over(other.as_mut()));
        }
    }

    #[test]
    fn s0_6_a_dropped_wait_holds_nothing_up() {
        let draining = Draining::new();
        let one = draining.begin();
        {
            let mut waiting = pin!(draining.wait_out());
            assert!(!is_over(waiting.as_mut()));
        }
        let mut waiting = pin!(draining.wait_out());
        assert!(!is_over(waiting.as_mut()));
        drop(one);
        assert!(is_over(waiting.as_mut()));
    }
}

#[cfg(all(test, rig_loom))]
mod loom_tests {
    use crate::draining::Draining;
    use crate::sync::{AtomicU64, Ordering};
    use loom::future::block_on;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn s10_9_what_a_drain_took_is_home_once_it_was_waited_for() {
        loom::model(|| {
            // One thing on a list, and none at home; relaxed, so that only the wait orders them.
            let zero = || AtomicU64::new(0);
            let shared = Arc::new((Draining::new(), AtomicU64::new(1), zero()));
            let drains = || {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (draining, list, home) = &*shared;
                    let drain = draining.begin();
                    let taken = list.swap(0, Ordering::Relaxed);
                    home.fetch_add(taken, Ordering::Relaxed);
                    drop(drain);
                })
            };
            let others = [drains(), drains()];
            let (draining, list, home) = &*shared;
            if list.load(Ordering::Relaxed) == 0 {
                block_on(draining.wait_out());
                assert_eq!(home.load(Ordering::Relaxed), 1);
            }
            for thread in others {
                thread.join().unwrap();
            }
        });
    }
}
