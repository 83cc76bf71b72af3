//! What threads do at once to timelines, in every order.

use crate::sync::{AtomicU64, Ordering, Steps, Wakers};
use crate::timeline::{Fate, Track};
use loom::future::block_on;
use loom::sync::Arc;
use loom::thread;
use std::future::poll_fn;
use std::task::Poll;

fn track_with(submitted: u64) -> Arc<Track> {
    let track = Track::new();
    (1..=submitted).for_each(|value| track.assign(value));
    Arc::new(track)
}

#[test]
fn s2_8_nothing_becomes_reached_after_a_loss() {
    loom::model(|| {
        let (track, steps) = (track_with(2), Arc::new(Steps::default()));
        let raiser = (Arc::clone(&track), Arc::clone(&steps));
        let raising = thread::spawn(move || {
            [1, 2].map(|value| {
                raiser.1.step();
                raiser.0.raise(value)
            })
        });
        steps.step();
        let before = track.reached();
        assert!(track.lose(&std::sync::Arc::from("gone")));
        let done = track.reached();
        assert!(done >= before, "what was reached stays reached");
        let fates = [1, 2].map(|value| track.fate(value));
        let rose = raising.join().unwrap();
        assert_eq!(track.reached(), done, "nothing becomes reached any more");
        assert_eq!(rose, [done >= 1, done >= 2]);
        assert_eq!(fates, [1, 2].map(|value| track.fate(value)));
        assert!(fates.iter().all(|fate| matches!(fate, Fate::Reached | Fate::Undone)));
    });
}

#[test]
fn s12_1_of_two_losers_one_is_first_and_both_tell_its_reason() {
    loom::model(|| {
        let track = track_with(1);
        let losers = ["a", "b"].map(|why| {
            let track = Arc::clone(&track);
            thread::spawn(move || {
                let first = track.lose(&std::sync::Arc::from(why));
                (first, why, track.why())
            })
        });
        let told = losers.map(|thread| thread.join().unwrap());
        let firsts: Vec<_> = told.iter().filter(|(first, ..)| *first).collect();
        assert_eq!(firsts.len(), 1);
        for (_, _, why) in &told {
            assert_eq!(why.as_deref(), Some(firsts[0].1));
        }
    });
}

#[test]
fn s2_4_who_sees_a_value_sees_the_writes_of_all_up_to_it_and_the_word_never_falls() {
    loom::model(|| {
        let shared = Arc::new((track_with(2), Steps::default(), AtomicU64::new(0)));
        let others = [1, 2].map(|value| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (track, steps, written) = &*shared;
                steps.step();
                if value == 2 {
                    written.store(2, Ordering::Relaxed);
                }
                track.raise(value);
                steps.step();
            })
        });
        let (track, steps, written) = &*shared;
        steps.step();
        let reached = track.reached();
        assert!(reached < 2 || written.load(Ordering::Relaxed) == 2);
        steps.step();
        assert!(track.reached() >= reached);
        for thread in others {
            thread.join().unwrap();
        }
        assert_eq!(track.reached(), 2);
    });
}

#[test]
fn s0_7_a_waiter_misses_neither_a_value_nor_a_loss() {
    loom::model(|| {
        let shared = Arc::new((track_with(1), Wakers::new()));
        let others = [true, false].map(|raises| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let changed = if raises {
                    shared.0.raise(1)
                } else {
                    shared.0.lose(&std::sync::Arc::from("gone"))
                };
                if changed {
                    shared.1.wake_all();
                }
            })
        });
        let fate = block_on(poll_fn(|cx| {
            shared.1.register(cx.waker());
            match shared.0.fate(1) {
                Fate::Unreached => Poll::Pending,
                fate => Poll::Ready(fate),
            }
        }));
        assert_eq!(shared.0.fate(1), fate, "a fate that is told stays");
        for thread in others {
            thread.join().unwrap();
        }
        assert_eq!(shared.0.fate(1), fate);
    });
}
