//! The locks of a program of one thread, as a browser runs it: each is a flag.
//!
//! They have the face of `parking_lot`'s, over `std`'s, which on wasm neither park nor poison. A
//! lock that is taken twice is a broken invariant and panics, where threads would wait for ever.

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

#[cfg(test)]
mod tests {
    use crate::sync::single::{Mutex, MutexGuard, RwLock};

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
}
