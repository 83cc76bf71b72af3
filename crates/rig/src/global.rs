//! What the whole process shares: on wasm, one module instance, which has one thread.
//!
//! Natively a shared value is `Sync` by itself. On wasm its parts are not, since the objects of a
//! browser stay on one thread; this file's unsafe line says why a static of them is sound there.

/// A value that the whole process shares.
#[derive(Debug)]
pub(crate) struct Global<T>(T);

impl<T> Global<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> std::ops::Deref for Global<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

// SAFETY: without wasm's atomics there is one thread, so nothing is ever shared between two.
#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
unsafe impl<T> Sync for Global<T> {}
