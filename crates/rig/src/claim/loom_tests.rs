//! What threads do at once to claims, in every order.

use crate::claim::{Answer, Ask, Claims, Marks, Pass};
use crate::sync::{AtomicU64, Ordering, Wakers};
use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use std::future::poll_fn;
use std::task::Poll;

/// Memory under claims: relaxed, so that only the claims order it.
struct Memory {
    claims: Claims,
    wakers: Wakers,
    bytes: AtomicU64,
}

impl Memory {
    fn new() -> Arc<Self> {
        let (claims, wakers) = (Claims::new(), Wakers::new());
        Arc::new(Self { claims, wakers, bytes: AtomicU64::new(0) })
    }

    /// Asks until nothing makes it wait, as every waiting call does.
    fn ask(&self, ask: Ask) -> Answer {
        block_on(poll_fn(|cx| {
            let asked = || match self.claims.ask(ask, Pass::No) {
                Answer::Waits => Poll::Pending,
                answer => Poll::Ready(answer),
            };
            if let Poll::Ready(answer) = asked() {
                return Poll::Ready(answer);
            }
            self.wakers.register(cx.waker());
            self.claims.wait_for_release();
            if self.claims.would(ask, Pass::No, &Marks::new()) == Answer::Waits {
                return Poll::Pending;
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }))
    }

    fn release(&self, ask: Ask) {
        if self.claims.release(ask) {
            self.wakers.wake_all();
        }
    }

    /// Adds one under a claim; whoever else does so at once loses an addition.
    fn add(&self, ask: Ask) -> Answer {
        let answer = self.ask(ask);
        if answer == Answer::Granted {
            let seen = self.bytes.load(Ordering::Relaxed);
            self.bytes.store(seen + 1, Ordering::Relaxed);
            self.release(ask);
        }
        answer
    }
}

#[test]
fn s5_1_a_host_write_is_never_beside_a_momentary_write_and_no_wake_is_missed() {
    loom::model(|| {
        let memory = Memory::new();
        let device = Arc::clone(&memory);
        let working = thread::spawn(move || device.add(Ask::MomentaryWrite));
        assert_eq!(memory.add(Ask::MoverWrite), Answer::Granted);
        assert_eq!(working.join().unwrap(), Answer::Granted);
        assert_eq!(memory.bytes.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn s5_1_work_of_two_devices_waits_for_each_other_and_no_wake_is_missed() {
    loom::model(|| {
        let memory = Memory::new();
        let devices = [(); 2].map(|()| {
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.add(Ask::MomentaryWrite))
        });
        for thread in devices {
            assert_eq!(thread.join().unwrap(), Answer::Granted);
        }
        assert_eq!(memory.bytes.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn s4_12_what_is_left_to_two_kept_reads_falls_to_one_of_them_or_stays() {
    loom::model(|| {
        let memory = Memory::new();
        let readers = [(); 2].map(|()| {
            assert_eq!(memory.claims.ask(Ask::KeptRead, Pass::No), Answer::Granted);
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                if memory.claims.end_kept_alone() {
                    return false;
                }
                let has_left = memory.claims.end_kept().has_left;
                // Relaxed, so that only the claims order it.
                assert!(!has_left || memory.bytes.load(Ordering::Relaxed) == 1);
                has_left
            })
        });
        memory.bytes.store(1, Ordering::Relaxed);
        let left = memory.claims.leave();
        let taken = readers.map(|thread| u8::from(thread.join().unwrap()));
        assert_eq!(taken[0] + taken[1], u8::from(left));
        assert!(!memory.claims.is_kept());
    });
}

#[test]
fn s5_1_who_waits_for_two_readers_misses_neither_release() {
    loom::model(|| {
        let memory = Memory::new();
        let readers = [(); 2].map(|()| {
            assert_eq!(memory.claims.ask(Ask::MomentaryRead, Pass::No), Answer::Granted);
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.release(Ask::MomentaryRead))
        });
        assert_eq!(memory.add(Ask::MoverWrite), Answer::Granted);
        for thread in readers {
            thread.join().unwrap();
        }
    });
}

#[test]
fn s5_1_of_two_who_wait_for_one_release_none_is_forgotten() {
    loom::model(|| {
        let memory = Memory::new();
        assert_eq!(memory.claims.ask(Ask::MomentaryWrite, Pass::No), Answer::Granted);
        let readers = [Ask::MoverRead, Ask::MomentaryRead].map(|ask| {
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.ask(ask))
        });
        memory.release(Ask::MomentaryWrite);
        for thread in readers {
            assert_eq!(thread.join().unwrap(), Answer::Granted);
        }
    });
}

#[test]
fn s4_14_a_free_and_a_claim_are_never_both_granted() {
    for ask in [Ask::KeptRead, Ask::KeptExclusive, Ask::MoverWrite, Ask::Export] {
        loom::model(move || {
            let memory = Memory::new();
            let other = Arc::clone(&memory);
            let freeing = thread::spawn(move || other.claims.ask(Ask::Free, Pass::No));
            let answer = memory.claims.ask(ask, Pass::No);
            let freed = freeing.join().unwrap();
            match (answer, freed) {
                (Answer::Granted, Answer::Busy) | (Answer::Dead, Answer::Granted) => {}
                // An export holds nothing: the bytes outlive the buffers.
                (Answer::Granted, Answer::Granted) => assert_eq!(ask, Ask::Export),
                both => panic!("{ask:?}: {both:?}"),
            }
            assert_eq!(memory.claims.is_dead(), freed == Answer::Granted);
        });
    }
}

#[test]
fn s5_5_under_one_exclusive_claim_an_export_and_a_consume_are_never_both_granted() {
    loom::model(|| {
        let memory = Memory::new();
        assert_eq!(memory.claims.ask(Ask::KeptExclusive, Pass::No), Answer::Granted);
        let other = Arc::clone(&memory);
        let exporting = thread::spawn(move || other.claims.ask(Ask::Export, Pass::Exclusive));
        let consumed = memory.claims.ask(Ask::Free, Pass::Exclusive);
        match (exporting.join().unwrap(), consumed) {
            (Answer::Granted, Answer::Busy) | (Answer::Dead, Answer::Granted) => {}
            both => panic!("{both:?}"),
        }
    });
}

#[test]
fn s4_14_a_free_waits_for_a_hand_over_and_sees_what_it_did() {
    loom::model(|| {
        let memory = Memory::new();
        let device = Arc::clone(&memory);
        let working = thread::spawn(move || device.add(Ask::MomentaryWrite));
        assert_eq!(memory.ask(Ask::Free), Answer::Granted);
        let seen = memory.bytes.load(Ordering::Relaxed);
        let worked = working.join().unwrap();
        assert_eq!(seen, u64::from(worked == Answer::Granted));
    });
}

#[test]
fn s5_1_a_mover_that_becomes_a_closure_is_always_seen_as_one_of_them() {
    loom::model(|| {
        let memory = Memory::new();
        assert_eq!(memory.claims.ask(Ask::MoverWrite, Pass::No), Answer::Granted);
        let device = Arc::clone(&memory);
        let working = thread::spawn(move || device.claims.ask(Ask::MomentaryWrite, Pass::No));
        assert_eq!(memory.claims.run_closure(Ask::MoverWrite).0, Ask::ClosureWrite);
        assert!(matches!(working.join().unwrap(), Answer::Waits | Answer::Busy));
        memory.release(Ask::ClosureWrite);
        assert_eq!(memory.add(Ask::MomentaryWrite), Answer::Granted);
    });
}
