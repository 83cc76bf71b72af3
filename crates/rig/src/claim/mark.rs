//! Marks: the momentary claims of a device on its own memory, which need no exchange.
//!
//! A hand-over stores its number in what it uses, passes one fence, and looks whether anything
//! stands in its way. Whoever takes another claim exchanges the word of the claims first and looks
//! at the mark then. So at least one of two that are in each other's way sees the other, and gives
//! way. Nobody releases marks: all of a hand-over's end at once, when its number is over.
//!
//! Memory that other devices use too is *counted*, until it serves the next buffer: its momentary
//! claims are in the word, and so decided by exchanges alone. So is what a death or an export, of
//! which no part can be taken back, is about to come over.

use crate::claim::{
    Answer, Ask, COUNTED, Claims, MOMENTARY_READ, MOMENTARY_WRITE, Pass, in_the_way, judge,
};
use crate::sync::{AtomicU64, HAS_THREADS, Ordering, fence, load_in_order};

/// The hand-overs of one device that mark, one after another.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Odd while one is in progress.
    number: AtomicU64,
}

impl Marks {
    pub(crate) fn new() -> Self {
        Self { number: AtomicU64::new(0) }
    }

    /// Begins a hand-over. The caller has the device's turn.
    pub(crate) fn begin(&self) -> Marking<'_> {
        let number = self.number.load(Ordering::Relaxed) + 1;
        self.number.store(number, Ordering::Relaxed);
        Marking { marks: self, number }
    }
}

/// A hand-over in progress that marks; its marks end on drop.
#[derive(Debug)]
pub(crate) struct Marking<'a> {
    marks: &'a Marks,
    number: u64,
}

impl Marking<'_> {
    /// Marks all that the hand-over uses; false if something may stand in the way.
    #[inline]
    pub(crate) fn mark<'c>(&self, used: impl Iterator<Item = (&'c Claims, Mark)> + Clone) -> bool {
        let number = self.number << 1;
        for (claims, mark) in used.clone() {
            // ORDERING: releases the number's start, to `marked`.
            claims.mark.store(number | mark.writes, Ordering::Release);
        }
        // ORDERING: the marks stand before the looks; pairs with `load_in_order`.
        fence(Ordering::SeqCst);
        let look = |met, (claims, mark): (&Claims, Mark)| {
            met | claims.word.load(Ordering::Relaxed) & mark.in_the_way
        };
        let met = used.fold(0, look);
        // ORDERING: acquires what was done under the claims released before.
        fence(Ordering::Acquire);
        met == 0
    }
}

impl Drop for Marking<'_> {
    fn drop(&mut self) {
        // ORDERING: releases what the hand-over did, to `marked`.
        self.marks.number.store(self.number + 1, Ordering::Release);
    }
}

/// How a momentary claim is marked, computed once for what is used often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// 1 for one that writes, else 0.
    writes: u64,
    /// What of the claims' word stands in its way.
    in_the_way: u64,
}

impl Mark {
    /// Returns the mark of a momentary claim.
    pub(crate) fn of(ask: Ask) -> Self {
        let in_the_way = in_the_way(ask).map_or(u64::MAX, |those| those | COUNTED);
        Self { writes: u64::from(ask == Ask::MomentaryWrite), in_the_way }
    }
}

impl Claims {
    /// Has device work that comes from now on count its momentary claims.
    pub(crate) fn count(&self) {
        // ORDERING: sequentially consistent, for the look at the mark that follows.
        if HAS_THREADS && self.word.load(Ordering::SeqCst) & COUNTED == 0 {
            // ORDERING: as above.
            self.word.fetch_or(COUNTED, Ordering::SeqCst);
        }
    }

    /// Whether a claim that was just granted meets a mark, and has to give way.
    #[inline]
    pub(crate) fn meets_mark(&self, ask: Ask, pass: Pass, marks: &Marks) -> bool {
        let marked = self.marked(marks);
        marked != 0 && judge(marked, ask, pass).0 != Answer::Granted
    }

    /// Asks for what cannot be taken back: a death, or an export.
    pub(crate) fn ask_counted(&self, ask: Ask, pass: Pass, marks: &Marks) -> Answer {
        self.count();
        match self.would(ask, pass, marks) {
            // No mark comes any more, so the word decides.
            Answer::Granted => self.ask(ask, pass),
            answer => answer,
        }
    }

    /// Makes the one kept read that is held exclusive, like [`Claims::make_exclusive`]; false
    /// beside a mark too.
    pub(crate) fn make_exclusive_beside(&self, marks: &Marks) -> bool {
        let made = self.make_exclusive();
        let meets = made && self.marked(marks) != 0;
        if meets {
            self.make_read();
        }
        made && !meets
    }

    /// Returns the answer that would be given now, and holds nothing.
    pub(crate) fn would(&self, ask: Ask, pass: Pass, marks: &Marks) -> Answer {
        let marked = self.marked(marks);
        // ORDERING: as in `ask`. After `wait_for_release` the load shows at least the word as it
        // was then, so it shows each release that came before.
        judge(self.word.load(Ordering::Acquire) | marked, ask, pass).0
    }

    /// Returns the mark of a hand-over in progress, as the word would count it.
    #[inline]
    fn marked(&self, marks: &Marks) -> u64 {
        if !HAS_THREADS {
            return 0;
        }
        let mark = load_in_order(&self.mark);
        // ORDERING: pairs with the end of the marking: what it did is seen once it is over.
        if mark == 0 || mark >> 1 != marks.number.load(Ordering::Acquire) {
            0
        } else if mark & 1 == 0 {
            1 << MOMENTARY_READ.shift
        } else {
            MOMENTARY_WRITE
        }
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::claim::{Answer, Ask, Claims, Mark, Marks, Pass};

    const READS: Ask = Ask::MomentaryRead;
    const WRITES: Ask = Ask::MomentaryWrite;

    /// Marks memory, and answers whether nothing stood in the way.
    fn is_free(marks: &Marks, claims: &Claims, ask: Ask) -> bool {
        marks.begin().mark([(claims, Mark::of(ask))].into_iter())
    }

    #[test]
    fn s5_1_a_mark_is_a_momentary_claim_until_its_hand_over_ends() {
        for momentary in [READS, WRITES] {
            let (marks, claims, counted) = (Marks::new(), Claims::new(), Claims::new());
            assert_eq!(counted.ask(momentary, Pass::No), Answer::Granted);
            let others = [
                Ask::KeptRead,
                Ask::KeptExclusive,
                Ask::MoverRead,
                Ask::MoverWrite,
                Ask::ClosureRead,
                Ask::ClosureWrite,
                READS,
                WRITES,
                Ask::Export,
                Ask::Free,
            ];
            for pass in [Pass::No, Pass::Mixed] {
                let free = others.map(|ask| claims.would(ask, pass, &marks));
                let marking = marks.begin();
                assert!(marking.mark([(&claims, Mark::of(momentary))].into_iter()));
                for ask in others {
                    let answer = counted.would(ask, pass, &Marks::new());
                    assert_eq!(claims.would(ask, pass, &marks), answer, "{ask:?}");
                    let meets = answer == Answer::Waits || answer == Answer::AsRead;
                    assert_eq!(claims.meets_mark(ask, pass, &marks), meets, "{ask:?}");
                }
                drop(marking);
                assert_eq!(others.map(|ask| claims.would(ask, pass, &marks)), free);
            }
        }
    }

    #[test]
    fn s5_1_what_stands_in_the_way_of_a_momentary_claim_stands_in_the_way_of_its_mark() {
        let held = [Ask::MoverRead, Ask::MoverWrite, Ask::ClosureRead, Ask::ClosureWrite];
        for held in held.into_iter().chain([READS, WRITES, Ask::KeptRead, Ask::KeptExclusive]) {
            for ask in [READS, WRITES] {
                let (marks, claims) = (Marks::new(), Claims::new());
                assert!(is_free(&marks, &claims, ask));
                claims.ask(held, Pass::No);
                let granted = claims.would(ask, Pass::No, &marks) == Answer::Granted;
                assert_eq!(is_free(&marks, &claims, ask), granted, "{ask:?} beside {held:?}");
                claims.release(held);
                assert!(is_free(&marks, &claims, ask));
            }
        }
    }

    #[test]
    fn s4_14_a_free_meets_a_mark_and_leaves_the_memory_alive_and_counted() {
        let (marks, claims) = (Marks::new(), Claims::new());
        let marking = marks.begin();
        assert!(marking.mark([(&claims, Mark::of(READS))].into_iter()));
        assert_eq!(claims.ask_counted(Ask::Free, Pass::No, &marks), Answer::Waits);
        assert!(!claims.is_dead());
        drop(marking);
        assert!(!is_free(&marks, &claims, READS), "counted from now on");
        assert_eq!(claims.ask(READS, Pass::No), Answer::Granted);
        assert!(!claims.release(READS));
        assert_eq!(claims.ask_counted(Ask::Free, Pass::No, &marks), Answer::Granted);
        assert!(claims.is_dead() && !is_free(&marks, &claims, READS));
        claims.reset();
        assert!(is_free(&marks, &claims, READS), "the next buffer's");
    }

    #[test]
    fn s5_3_a_read_becomes_exclusive_beside_no_mark() {
        let (marks, claims) = (Marks::new(), Claims::new());
        assert_eq!(claims.ask(Ask::KeptRead, Pass::No), Answer::Granted);
        let marking = marks.begin();
        assert!(marking.mark([(&claims, Mark::of(READS))].into_iter()));
        assert!(!claims.make_exclusive_beside(&marks));
        assert_eq!(claims.would(Ask::KeptRead, Pass::No, &marks), Answer::Granted);
        drop(marking);
        assert!(claims.make_exclusive_beside(&marks));
        assert!(is_free(&marks, &claims, WRITES), "it refuses no device work");
    }
}

#[cfg(all(test, rig_loom))]
mod loom_tests {
    use crate::claim::{Answer, Ask, Claims, Mark, Marks, Pass};
    use crate::sync::{AtomicU64, Ordering};
    use crate::turn::Turn;
    use loom::future::block_on;
    use loom::sync::Arc;
    use loom::thread;
    use std::future::poll_fn;
    use std::task::Poll;

    /// A device's memory: relaxed, so that only the claims and marks order it.
    struct Memory {
        turn: Turn,
        marks: Marks,
        claims: Claims,
        bytes: AtomicU64,
    }

    impl Memory {
        fn new() -> Arc<Self> {
            let (turn, marks, claims) = (Turn::new(), Marks::new(), Claims::new());
            Arc::new(Self { turn, marks, claims, bytes: AtomicU64::new(0) })
        }

        /// Adds one: whoever else does so at once loses an addition.
        fn add(&self) {
            let seen = self.bytes.load(Ordering::Relaxed);
            self.bytes.store(seen + 1, Ordering::Relaxed);
        }

        /// Adds one in a hand-over of the memory's own device, if it may mark; answers that.
        fn hand_over(&self) -> bool {
            let _turn = block_on(self.turn.take());
            let marking = self.marks.begin();
            let free = marking.mark([(&self.claims, Mark::of(Ask::MomentaryWrite))].into_iter());
            if free {
                self.add();
            }
            drop(marking);
            free
        }

        /// Asks as an allocation does.
        fn ask(&self, ask: Ask) -> Answer {
            if ask == Ask::Free {
                return self.claims.ask_counted(ask, Pass::No, &self.marks);
            }
            let answer = self.claims.ask(ask, Pass::No);
            if answer == Answer::Granted && self.claims.meets_mark(ask, Pass::No, &self.marks) {
                self.claims.release(ask);
                return Answer::Waits;
            }
            answer
        }

        /// Asks until no mark is in the way, as every waiting call does.
        fn ask_waiting(&self, ask: Ask) -> Answer {
            block_on(poll_fn(|cx| {
                let answer = self.ask(ask);
                if answer != Answer::Waits {
                    return Poll::Ready(answer);
                }
                self.turn.wake_at_end(cx.waker());
                if self.claims.would(ask, Pass::No, &self.marks) == Answer::Waits {
                    return Poll::Pending;
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }))
        }
    }

    #[test]
    fn s5_1_a_host_write_is_never_beside_a_marked_one_and_no_wake_is_missed() {
        loom::model(|| {
            let memory = Memory::new();
            let device = Arc::clone(&memory);
            let working = thread::spawn(move || device.hand_over());
            assert_eq!(memory.ask_waiting(Ask::MoverWrite), Answer::Granted);
            memory.add();
            memory.claims.release(Ask::MoverWrite);
            let worked = working.join().unwrap();
            // Whoever joined sees both additions.
            assert_eq!(memory.bytes.load(Ordering::Relaxed), 1 + u64::from(worked));
        });
    }

    #[test]
    fn s4_14_a_free_is_never_beside_a_mark_and_sees_what_it_did() {
        loom::model(|| {
            let memory = Memory::new();
            let device = Arc::clone(&memory);
            let working = thread::spawn(move || device.hand_over());
            assert_eq!(memory.ask_waiting(Ask::Free), Answer::Granted);
            let seen = memory.bytes.load(Ordering::Relaxed);
            assert_eq!(seen, u64::from(working.join().unwrap()));
        });
    }

    #[test]
    fn s5_1_work_of_another_device_is_never_beside_a_marked_one() {
        loom::model(|| {
            let memory = Memory::new();
            let device = Arc::clone(&memory);
            let working = thread::spawn(move || device.hand_over());
            memory.claims.count();
            let granted = memory.ask(Ask::MomentaryWrite) == Answer::Granted;
            if granted {
                memory.add();
                memory.claims.release(Ask::MomentaryWrite);
            }
            let worked = working.join().unwrap();
            let both = u64::from(granted) + u64::from(worked);
            assert_eq!(memory.bytes.load(Ordering::Relaxed), both);
        });
    }

    #[test]
    fn s5_3_a_donation_and_a_mark_see_one_another() {
        loom::model(|| {
            let memory = Memory::new();
            assert_eq!(memory.ask(Ask::KeptRead), Answer::Granted);
            let device = Arc::clone(&memory);
            let working = thread::spawn(move || device.hand_over());
            // What is taken over afterwards has what a hand-over before did.
            if !memory.claims.make_exclusive_beside(&memory.marks) {
                assert!(working.join().unwrap(), "a kept claim refuses no device work");
                return;
            }
            let free = memory.claims.ask_counted(Ask::Free, Pass::Exclusive, &memory.marks);
            let seen = memory.bytes.load(Ordering::Relaxed);
            let worked = working.join().unwrap();
            match free {
                Answer::Granted => assert_eq!(seen, u64::from(worked)),
                other => assert_eq!(other, Answer::Waits),
            }
        });
    }
}
