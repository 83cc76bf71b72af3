//! The turn of a device's submissions: one caller at a time, which may give way to others by
//! waiting without blocking a thread.
//!
//! Any thread may ask. The turn is no lock: nobody waits for anything but a driver's hand-over
//! while holding it.

use crate::sync::{AtomicU32, Ordering, Wakers};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The turn itself.
#[derive(Debug)]
pub(crate) struct Turn {
    /// `TAKEN`, and `WAITED` if somebody may wait for its end.
    word: AtomicU32,
    waiters: Wakers,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU32::new(0), waiters: Wakers::new() }
    }

    /// Takes the turn if it is free.
    pub(crate) fn try_take(&self) -> Option<Taken<'_>> {
        // ORDERING: acquires what the last holder did; pairs with the swap in `Taken::drop`.
        let before = self.word.fetch_or(TAKEN, Ordering::Acquire);
        self.taken_after(before)
    }

    /// Takes the turn when it is free.
    pub(crate) fn take(&self) -> impl Future<Output = Taken<'_>> {
        Take { turn: self }
    }

    /// Wakes the waker at the end of the present turn; whoever asks looks afterwards at what the
    /// turn changes.
    pub(crate) fn wake_at_end(&self, waker: &Waker) {
        self.waiters.register(waker);
        // ORDERING: one word decides: either the holder sees the bit, and the wakers' fences show
        // it the waker, or what it did in the turn is seen here.
        self.word.fetch_or(WAITED, Ordering::Acquire);
    }

    /// Answers the turn if it was free; a `Taken` made for nothing would end another's.
    fn taken_after(&self, before: u32) -> Option<Taken<'_>> {
        if before & TAKEN == 0 { Some(Taken { turn: self }) } else { None }
    }
}

/// The turn, held; it ends on drop.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    turn: &'a Turn,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        // ORDERING: releases what was done in the turn, to whoever takes it next.
        let before = self.turn.word.swap(0, Ordering::Release);
        if before & WAITED != 0 {
            self.turn.waiters.wake_all();
        }
    }
}

struct Take<'a> {
    turn: &'a Turn,
}

impl<'a> Future for Take<'a> {
    type Output = Taken<'a>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Taken<'a>> {
        if let Some(taken) = self.turn.try_take() {
            return Poll::Ready(taken);
        }
        self.turn.waiters.register(cx.waker());
        // ORDERING: as in `try_take`. One word decides what comes first: either the turn is free
        // here, or its holder sees the bit, and the wakers' fences show it the waker.
        let before = self.turn.word.fetch_or(TAKEN | WAITED, Ordering::Acquire);
        self.turn.taken_after(before).map_or(Poll::Pending, Poll::Ready)
    }
}

const TAKEN: u32 = 1;
const WAITED: u32 = 2;

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::turn::Turn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    struct Counted(AtomicU32);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn s8_3_one_caller_at_a_time_has_the_turn() {
        let turn = Turn::new();
        let taken = turn.try_take().unwrap();
        // Asking in vain changes nothing.
        assert!(turn.try_take().is_none());
        assert!(turn.try_take().is_none());
        drop(taken);
        let again = turn.try_take().unwrap();
        assert!(turn.try_take().is_none());
        drop(again);
    }

    #[test]
    fn s8_3_the_end_of_a_turn_wakes_all_who_wait_and_one_takes_it() {
        let turn = Turn::new();
        let tasks = [0; 2].map(|zero| Arc::new(Counted(zero.into())));
        let wakers = tasks.each_ref().map(|task| Waker::from(Arc::clone(task)));
        let woken = || tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
        let (mut one, mut other) = (pin!(turn.take()), pin!(turn.take()));
        let taken = turn.try_take().unwrap();
        assert!(one.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
        assert!(other.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
        assert_eq!(woken(), [0, 0]);
        drop(taken);
        assert_eq!(woken(), [1, 1]);
        let Poll::Ready(taken) = other.as_mut().poll(&mut Context::from_waker(&wakers[1])) else {
            panic!("the turn is free");
        };
        assert!(one.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
        drop(taken);
        assert_eq!(woken()[0], 2);
    }

    #[test]
    fn s0_6_a_dropped_future_holds_no_turn_and_keeps_no_wake_from_others() {
        let turn = Turn::new();
        let task = Arc::new(Counted(AtomicU32::new(0)));
        let waker = Waker::from(Arc::clone(&task));
        let taken = turn.try_take().unwrap();
        let mut other = pin!(turn.take());
        {
            let mut one = pin!(turn.take());
            assert!(one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(taken);
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        assert!(turn.try_take().is_some());
    }
}

#[cfg(all(test, rig_loom))]
mod loom_tests {
    use crate::sync::{AtomicU64, Ordering};
    use crate::turn::Turn;
    use loom::future::block_on;
    use loom::sync::Arc;
    use loom::thread;

    /// A turn, and what is only touched in it: relaxed, so that only the turn orders it.
    type Shared = Arc<(Turn, AtomicU64)>;

    fn count_in_turn(shared: &Shared) {
        let taken = block_on(shared.0.take());
        let seen = shared.1.load(Ordering::Relaxed);
        shared.1.store(seen + 1, Ordering::Relaxed);
        drop(taken);
    }

    #[test]
    fn s8_3_each_turn_sees_the_one_before_and_no_wake_up_is_lost() {
        loom::model(|| {
            let shared: Shared = Arc::new((Turn::new(), AtomicU64::new(0)));
            let others = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || count_in_turn(&shared))
            });
            count_in_turn(&shared);
            for thread in others {
                thread.join().unwrap();
            }
            assert_eq!(shared.1.load(Ordering::Relaxed), 3);
        });
    }

    #[test]
    fn s8_3_asking_in_vain_ends_nobodys_turn() {
        loom::model(|| {
            let shared: Shared = Arc::new((Turn::new(), AtomicU64::new(0)));
            let others = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let taken = shared.0.try_take();
                    if taken.is_some() {
                        assert_eq!(shared.1.fetch_add(1, Ordering::Relaxed), 0);
                        thread::yield_now();
                        assert_eq!(shared.1.fetch_sub(1, Ordering::Relaxed), 1);
                    }
                })
            });
            for thread in others {
                thread.join().unwrap();
            }
            assert!(shared.0.try_take().is_some());
        });
    }
}
