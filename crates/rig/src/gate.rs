//! The calls of one driver in flight, so that its stop runs once and beside none of them.
//!
//! Any thread may call anything. One atomic holds the count, whether the gate is closed, and
//! whether the stop was given to somebody.

use crate::sync::{AtomicU64, Ordering};

/// Counts calls until it is closed; then lets nobody in, and names one caller to run the stop.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The calls in flight, `CLOSED` and `STOPPING`.
    word: AtomicU64,
}

/// Whether the caller has to run the stop now.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Duty {
    /// Somebody else does, or nobody has to yet.
    None,
    /// The caller does; no call is in flight and none comes in.
    Stop,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Enters for one call; false once closed.
    pub(crate) fn enter(&self) -> bool {
        // ORDERING: pairs with the release in `close`: who is refused sees why it was closed.
        let mut word = self.word.load(Ordering::Acquire);
        while word & CLOSED == 0 {
            // ORDERING: as above. The count itself needs no more: it is one word, so a stop either
            // waits for this call, or this call sees that the gate is closed.
            match self.word.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Leaves after a call.
    pub(crate) fn leave(&self) -> Duty {
        // ORDERING: releases the call's effects, to the exchange in `stop_if_last`.
        let before = self.word.fetch_sub(1, Ordering::Release);
        debug_assert!(before & CALLS > 0, "a call left that never entered");
        if before & CLOSED == 0 { Duty::None } else { self.stop_if_last() }
    }

    /// Closes the gate.
    pub(crate) fn close(&self) -> Duty {
        // ORDERING: releases the reason, to `enter`, and what the closer did, to the stop.
        self.word.fetch_or(CLOSED, Ordering::Release);
        self.stop_if_last()
    }

    fn stop_if_last(&self) -> Duty {
        // ORDERING: acquires the effects of every call that left: all changes of the word are
        // exchanges, so none of them hides another's release.
        let last = self.word.compare_exchange(
            CLOSED,
            CLOSED | STOPPING,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if last.is_ok() { Duty::Stop } else { Duty::None }
    }
}

const CLOSED: u64 = 1 << 63;
const STOPPING: u64 = 1 << 62;
const CALLS: u64 = STOPPING - 1;

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::gate::{Duty, Gate};

    #[test]
    fn s12_1_the_last_call_to_leave_a_closed_gate_runs_the_stop() {
        let gate = Gate::new();
        assert!(gate.enter() && gate.enter());
        assert_eq!(gate.close(), Duty::None);
        assert_eq!(gate.leave(), Duty::None);
        assert_eq!(gate.leave(), Duty::Stop);
    }

    #[test]
    fn s12_1_who_closes_a_gate_beside_no_call_runs_the_stop() {
        let gate = Gate::new();
        assert!(gate.enter());
        assert_eq!(gate.leave(), Duty::None);
        assert_eq!(gate.close(), Duty::Stop);
    }

    #[test]
    fn s12_1_the_stop_runs_once_however_often_it_is_closed() {
        let gate = Gate::new();
        assert!(gate.enter());
        assert_eq!([gate.close(), gate.close()], [Duty::None; 2]);
        assert_eq!(gate.leave(), Duty::Stop);
        assert_eq!([gate.close(), gate.close()], [Duty::None; 2]);
    }

    #[test]
    fn s12_1_a_closed_gate_lets_no_call_in() {
        let gate = Gate::new();
        assert!(gate.enter());
        assert_eq!(gate.close(), Duty::None);
        assert!(!gate.enter(), "one call is in flight");
        assert_eq!(gate.leave(), Duty::Stop);
        assert!(!gate.enter(), "the stop runs");
    }
}

#[cfg(all(test, rig_loom))]
mod loom_tests {
    use crate::gate::{Duty, Gate};
    use crate::sync::{AtomicU64, Ordering};
    use loom::sync::Arc;
    use loom::thread;

    /// What the calls and the stop touch; relaxed, so that only the gate orders it.
    struct Driver {
        gate: Gate,
        calls: AtomicU64,
        stops: AtomicU64,
        why: AtomicU64,
    }

    impl Driver {
        fn new() -> Arc<Self> {
            let zero = || AtomicU64::new(0);
            Arc::new(Self { gate: Gate::new(), calls: zero(), stops: zero(), why: zero() })
        }

        /// Runs one call, unless that is refused; answers whether it ran.
        fn call(&self) -> bool {
            if !self.gate.enter() {
                assert_eq!(self.why.load(Ordering::Relaxed), 1, "who is refused sees why");
                return false;
            }
            assert_eq!(self.stops.load(Ordering::Relaxed), 0, "no call runs beside the stop");
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.follow(self.gate.leave());
            true
        }

        fn close(&self) {
            self.why.store(1, Ordering::Relaxed);
            self.follow(self.gate.close());
        }

        fn follow(&self, duty: Duty) {
            if duty == Duty::Stop {
                assert_eq!(self.stops.fetch_add(1, Ordering::Relaxed), 0, "one stop");
                // What the stop saw is kept, to be compared when all is over.
                self.stops.fetch_add(self.calls.load(Ordering::Relaxed) << 8, Ordering::Relaxed);
            }
        }

        fn check(&self, ran: u64) {
            assert_eq!(self.stops.load(Ordering::Relaxed), ran << 8 | 1);
        }
    }

    #[test]
    fn s12_1_the_stop_comes_once_and_after_every_call() {
        loom::model(|| {
            let driver = Driver::new();
            let callers = [(); 2].map(|()| {
                let driver = Arc::clone(&driver);
                thread::spawn(move || driver.call())
            });
            driver.close();
            let mut ran = 0;
            for thread in callers {
                ran += u64::from(thread.join().unwrap());
            }
            driver.check(ran);
        });
    }

    #[test]
    fn s12_5_two_closes_make_one_stop() {
        loom::model(|| {
            let driver = Driver::new();
            let caller = Arc::clone(&driver);
            let calling = thread::spawn(move || caller.call());
            let closer = Arc::clone(&driver);
            let closing = thread::spawn(move || closer.close());
            driver.close();
            closing.join().unwrap();
            let ran = calling.join().unwrap();
            driver.check(u64::from(ran));
        });
    }
}
