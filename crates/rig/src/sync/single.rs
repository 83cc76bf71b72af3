//! The locks and atomics of a program of one thread, as a browser runs it: each lock is a flag,
//! and each atomic a plain cell, in whose code the compiler sees that nothing comes in between.
//!
//! They have the face of `parking_lot`'s, over `std`'s, which on wasm neither park nor poison. A
//! lock that is taken twice is a broken invariant and panics, where threads would wait for ever.

use crate::global::Global;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard as Guard, PoisonError, RwLock as StdRwLock, TryLockError};
use std::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A lock.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

/// What a lock guards, while it is held.
pub(crate) type MutexGuard<'a, T> = Guard<'a, T>;

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A lock of readers or one writer.
#[derive(Debug)]
pub(crate) struct RwLock<T>(StdRwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(StdRwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A value with the face of `std`'s atomics.
#[derive(Debug)]
pub(crate) struct Atomic<T: Copy>(Global<Cell<T>>);

pub(crate) type AtomicBool = Atomic<bool>;
pub(crate) type AtomicPtr<T> = Atomic<*mut T>;
pub(crate) type AtomicU32 = Atomic<u32>;
pub(crate) type AtomicU64 = Atomic<u64>;

impl<T: Copy + PartialEq> Atomic<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Global::new(Cell::new(value)))
    }

    pub(crate) fn load(&self, _: Ordering) -> T {
        self.0.get()
    }

    pub(crate) fn store(&self, value: T, _: Ordering) {
        self.0.set(value);
    }

    pub(crate) fn swap(&self, value: T, _: Ordering) -> T {
        self.0.replace(value)
    }

    pub(crate) fn compare_exchange(
        &self,
        current: T,
        new: T,
        _: Ordering,
        _: Ordering,
    ) -> Result<T, T> {
        let before = self.0.get();
        if before != current {
            return Err(before);
        }
        self.0.set(new);
        Ok(before)
    }

    pub(crate) fn compare_exchange_weak(
        &self,
        current: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T> {
        self.compare_exchange(current, new, success, failure)
    }

    pub(crate) fn fetch_update(
        &self,
        _: Ordering,
        _: Ordering,
        mut next: impl FnMut(T) -> Option<T>,
    ) -> Result<T, T> {
        let before = self.0.get();
        self.0.set(next(before).ok_or(before)?);
        Ok(before)
    }
}

/// The arithmetic of numbers of one type.
macro_rules! numbers {
    ($number:ty) => {
        impl Atomic<$number> {
            pub(crate) fn fetch_add(&self, value: $number, _: Ordering) -> $number {
                self.0.replace(self.0.get().wrapping_add(value))
            }

            pub(crate) fn fetch_sub(&self, value: $number, _: Ordering) -> $number {
                self.0.replace(self.0.get().wrapping_sub(value))
            }

            pub(crate) fn fetch_or(&self, value: $number, _: Ordering) -> $number {
                self.0.replace(self.0.get() | value)
            }

            pub(crate) fn fetch_and(&self, value: $number, _: Ordering) -> $number {
                self.0.replace(self.0.get() & value)
            }
        }
    };
}

numbers!(u32);
numbers!(u64);

impl AtomicU64 {
    pub(crate) fn fetch_max(&self, value: u64, _: Ordering) -> u64 {
        self.0.replace(self.0.get().max(value))
    }
}

/// Orders nothing, since nothing runs beside.
pub(crate) fn fence(_: Ordering) {}

#[cfg(test)]
mod tests {
    use crate::sync::single::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Mutex, MutexGuard, RwLock, fence,
    };
    use std::ptr::null_mut;
    use std::sync::atomic::{self, Ordering::SeqCst};

    #[test]
    fn a_lock_gives_what_it_guards_to_one_at_a_time() {
        let lock = Mutex::new(1);
        *lock.lock() += 1;
        let held: MutexGuard<'_, i32> = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert_eq!(lock.try_lock().map(|guard| *guard), Some(2));
    }

    #[test]
    fn a_lock_of_readers_shows_them_what_the_writer_left() {
        let lock = RwLock::new(1);
        *lock.write() += 1;
        let (first, second) = (lock.read(), lock.read());
        assert_eq!((*first, *second), (2, 2));
    }

    /// Does the same with an atomic and with one of std's, and compares what they answer.
    macro_rules! agree {
        ($own:ty, $std:ty, $start:expr, $($call:ident($($with:expr),*)),*) => {
            let (own, std) = (<$own>::new($start), <$std>::new($start));
            $(
                assert_eq!(own.$call($($with),*), std.$call($($with),*));
                assert_eq!(own.load(SeqCst), std.load(SeqCst));
            )*
        };
    }

    #[test]
    fn an_atomic_answers_and_becomes_what_one_of_std_does() {
        agree!(AtomicBool, atomic::AtomicBool, false, swap(true, SeqCst), store(false, SeqCst));
        let (null, mut byte) = (null_mut(), 0_u8);
        agree!(
            AtomicPtr<u8>,
            atomic::AtomicPtr<u8>,
            null,
            compare_exchange(null, &raw mut byte, SeqCst, SeqCst),
            compare_exchange(null, null, SeqCst, SeqCst)
        );
        agree!(
            AtomicU32,
            atomic::AtomicU32,
            1,
            fetch_sub(2, SeqCst),
            fetch_add(7, SeqCst),
            fetch_or(8, SeqCst),
            fetch_and(12, SeqCst)
        );
        agree!(
            AtomicU64,
            atomic::AtomicU64,
            1,
            fetch_sub(2, SeqCst),
            fetch_add(7, SeqCst),
            fetch_or(8, SeqCst),
            fetch_and(12, SeqCst),
            fetch_max(3, SeqCst),
            fetch_max(99, SeqCst),
            fetch_update(SeqCst, SeqCst, |value| (value == 99).then_some(5)),
            fetch_update(SeqCst, SeqCst, |value| (value == 99).then_some(6)),
            compare_exchange(5, 6, SeqCst, SeqCst)
        );
        let weak = AtomicU64::new(1);
        assert_eq!(weak.compare_exchange_weak(1, 2, SeqCst, SeqCst), Ok(1));
        fence(SeqCst);
    }
}
