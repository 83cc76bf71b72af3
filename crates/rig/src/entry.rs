//! Where a thread is inside the library: the places that may only drop and ask facts (S0.5), and
//! the calls that count its time already (S11.2).
//!
//! Each thread has its own marker, so nothing here is shared and nothing is locked.

use crate::error::{Misuse, Outcome};
use std::cell::Cell;

/// Runs `f` inside a place from which other calls are `Misuse::Reentrant`.
#[inline]
pub(crate) fn inside<R>(place: &'static str, f: impl FnOnce() -> R) -> R {
    /// Restores the outer place, after a panic too.
    struct Outer(Option<&'static str>);
    impl Drop for Outer {
        fn drop(&mut self) {
            PLACE.set(self.0);
        }
    }
    let _outer = Outer(PLACE.replace(Some(place)));
    f()
}

/// Refuses the call inside any such place.
#[inline]
pub(crate) fn check(call: &'static str) -> Outcome<()> {
    match PLACE.get() {
        None => Ok(()),
        Some(inside) => Misuse::Reentrant { inside }.of(call),
    }
}

/// Refuses the call inside any such place but a collector, which may free.
pub(crate) fn check_free(call: &'static str) -> Outcome<()> {
    if PLACE.get() == Some(COLLECTOR) { Ok(()) } else { check(call) }
}

/// Runs `f` for a call that counts the time of all it does.
pub(crate) fn timed<R>(f: impl FnOnce() -> R) -> R {
    /// Restores what was, after a panic too.
    struct Outer(bool);
    impl Drop for Outer {
        fn drop(&mut self) {
            TIMED.set(self.0);
        }
    }
    let _outer = Outer(TIMED.replace(true));
    f()
}

/// Whether an outer call on this thread counts the time already.
pub(crate) fn is_timed() -> bool {
    TIMED.get()
}

/// The place in which collectors run.
pub(crate) const COLLECTOR: &str = "a collector";

thread_local! {
    static PLACE: Cell<Option<&'static str>> = const { Cell::new(None) };
    static TIMED: Cell<bool> = const { Cell::new(false) };
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::entry::{COLLECTOR, check, check_free, inside};
    use crate::error::{Error, Misuse, Outcome};
    use std::panic::catch_unwind;

    fn place_of(refused: Outcome<()>) -> Option<&'static str> {
        match refused.map_err(Error::from) {
            Ok(()) => None,
            Err(Error::Misuse { what: Misuse::Reentrant { inside }, .. }) => Some(inside),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn s0_5_a_call_inside_such_a_place_is_misuse_that_names_both() {
        assert_eq!(place_of(check("copy")), None);
        let refused = Error::from(inside("a profile sink", || check("copy")).unwrap_err());
        assert!(matches!(refused, Error::Misuse { call: "copy", .. }));
        assert_eq!(refused.misuse(), Some(&Misuse::Reentrant { inside: "a profile sink" }));
        assert_eq!(place_of(check("copy")), None);
    }

    #[test]
    fn s0_5_a_collector_may_free_and_nothing_else() {
        assert_eq!(inside(COLLECTOR, || place_of(check("copy"))), Some(COLLECTOR));
        assert_eq!(inside(COLLECTOR, || place_of(check_free("free"))), None);
        assert_eq!(inside("a launch", || place_of(check_free("free"))), Some("a launch"));
        assert_eq!(place_of(check_free("free")), None);
    }

    #[test]
    fn s0_5_the_innermost_place_counts_and_the_outer_one_comes_back() {
        inside(COLLECTOR, || {
            let destructor = || place_of(check_free("free"));
            assert_eq!(inside("a keeper's destructor", destructor), Some("a keeper's destructor"));
            assert_eq!(place_of(check("copy")), Some(COLLECTOR));
            assert_eq!(place_of(check_free("free")), None);
        });
    }

    #[test]
    fn s0_5_a_place_is_left_after_a_panic() {
        inside("an opener", || {
            let panicked = catch_unwind(|| inside("a launch", || panic!("as launches may")));
            assert!(panicked.is_err());
            assert_eq!(place_of(check("copy")), Some("an opener"));
        });
        assert_eq!(place_of(check("copy")), None);
    }

    #[test]
    fn s0_5_another_thread_is_in_no_such_place() {
        let elsewhere =
            inside("a launch", || std::thread::spawn(|| place_of(check("copy"))).join().unwrap());
        assert_eq!(elsewhere, None);
    }
}
