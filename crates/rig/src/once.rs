//! A value on the heap that is made when it is first needed and then stays: one word until then.
//!
//! Any thread may call anything; no lock is taken. Of two that make the value at once one's stays,
//! and the other's is dropped.
//!
//! The unsafe code keeps one pointer straight: it is null or from `Box::into_raw`, it never changes
//! once it is set, and only the drop of the whole ends what it points to.

use crate::sync::{AtomicPtr, Mutex, Ordering};
use std::marker::PhantomData;
use std::ptr;

/// The value, or none yet.
#[derive(Debug)]
pub(crate) struct OnceBox<T> {
    made: AtomicPtr<T>,
    /// Guards nothing and holds nothing: it makes threads share the whole only where they may share
    /// a value, and give one away.
    owns: PhantomData<(T, Mutex<T>)>,
}

impl<T> OnceBox<T> {
    pub(crate) fn new() -> Self {
        Self { made: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    /// Returns the value, if it is made.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // ORDERING: pairs with the exchange in `set`.
        let made = self.made.load(Ordering::Acquire);
        // SAFETY: null, or set for good to what `into_raw` gave, which ends with `self`.
        unsafe { made.as_ref() }
    }

    /// Returns the value, and makes it if there is none.
    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        self.get().unwrap_or_else(|| self.set(Box::new(init())))
    }

    #[cold]
    fn set(&self, value: Box<T>) -> &T {
        let raw = Box::into_raw(value);
        // ORDERING: releases the value, to `get`; acquires another's.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        match self.made.compare_exchange(ptr::null_mut(), raw, set, fetch) {
            // SAFETY: as in `get`.
            Ok(_) => unsafe { &*raw },
            Err(first) => {
                // SAFETY: from `into_raw` above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(raw) });
                // SAFETY: as in `get`: it is not null.
                unsafe { &*first }
            }
        }
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        let made = self.made.load(Ordering::Relaxed);
        if !made.is_null() {
            // SAFETY: from `into_raw`, and ended nowhere else; nobody has the whole any more.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::once::OnceBox;
    use std::sync::Arc;

    #[test]
    fn a_value_is_made_once_and_ends_with_the_whole() {
        let (once, value) = (OnceBox::new(), Arc::new(7));
        assert!(once.get().is_none());
        assert_eq!(**once.get_or_init(|| Arc::clone(&value)), 7);
        assert_eq!(**once.get_or_init(|| Arc::new(8)), 7);
        assert!(once.get().is_some_and(|made| Arc::ptr_eq(made, &value)));
        assert_eq!(Arc::strong_count(&value), 2);
        drop(once);
        assert_eq!(Arc::strong_count(&value), 1);
        drop(OnceBox::<Arc<u8>>::new());
    }

    #[test]
    fn of_values_made_at_once_one_stays_and_the_others_end() {
        for _ in 0..if cfg!(miri) { 5 } else { 200 } {
            let (once, value) = (OnceBox::new(), Arc::new(()));
            std::thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| once.get_or_init(|| Arc::clone(&value)));
                }
            });
            assert_eq!(Arc::strong_count(&value), 2);
        }
    }
}

#[cfg(all(test, rig_loom))]
mod loom_tests {
    use crate::once::OnceBox;
    use loom::thread;
    use std::sync::Arc;

    #[test]
    fn of_two_values_made_at_once_both_threads_see_the_one_that_stays() {
        loom::model(|| {
            let once = Arc::new(OnceBox::new());
            let other = Arc::clone(&once);
            let making = thread::spawn(move || *other.get_or_init(|| 1));
            let seen = *once.get_or_init(|| 2);
            assert_eq!(making.join().unwrap(), seen);
            assert_eq!(once.get(), Some(&seen));
        });
    }
}
