//! What waits for reuse, by bin.
//!
//! Entries of any type wait under a kind of memory and a class: a bin, or an exact size. The
//! newest of a class serves, the oldest is trimmed. Taking and putting touch one class, found by a
//! computed index, hash nothing and, once a class has grown, allocate nothing; finding the oldest
//! of all looks at each bin once.
//!
//! The invariant: each allocation that was counted in is either used or an entry of its class. A
//! cache only picks what goes: its owner frees it, and guards the cache with a lock of its own.

mod class;
#[cfg(all(test, not(rig_loom)))]
mod model;
#[cfg(all(test, not(rig_loom)))]
mod tests;
mod waiting;

pub(crate) use crate::cache::class::Class;

use crate::bin::{Bins, DEFAULT_BIN_MAX_BYTES};
use crate::cache::class::{OfKind, per_mille};
use crate::cache::waiting::Entry;
use crate::window::Greatest;

/// Entries waiting for reuse.
pub(crate) struct Cache<T> {
    options: Options,
    kinds: [OfKind<T>; KIND_COUNT],
    /// Entries put in and taken out, in all.
    put_count: u64,
    out_count: u64,
    live_count: Greatest,
    live_bytes: Greatest,
}

impl<T> Cache<T> {
    /// Makes an empty cache.
    pub(crate) const fn new(options: Options) -> Self {
        Self {
            options,
            kinds: [const { OfKind::new() }; KIND_COUNT],
            put_count: 0,
            out_count: 0,
            live_count: Greatest::new(0),
            live_bytes: Greatest::new(0),
        }
    }

    /// Returns the options.
    pub(crate) const fn options(&self) -> Options {
        self.options
    }

    /// Changes the options. Entries stay, and serve the classes that are theirs.
    pub(crate) const fn set_options(&mut self, options: Options) {
        self.options = options;
    }

    /// Returns the class that holds `len_bytes`.
    #[inline]
    pub(crate) const fn class(&self, len_bytes: u64) -> Class {
        Class::of(self.options.bins, len_bytes, self.options.bin_max_bytes)
    }

    /// Takes the newest entry of the class and counts it as used.
    #[inline]
    pub(crate) fn take(&mut self, kind: usize, class: Class) -> Option<T> {
        let item = self.kinds[kind].take(class)?;
        self.out_count += 1;
        Some(item)
    }

    /// Whether [`Cache::take`] would serve the class now.
    pub(crate) fn could_take(&self, kind: usize, class: Class) -> bool {
        self.kinds[kind].has(class)
    }

    /// Returns the nearest larger bin of that kind within the near-fit that would serve (S9.9).
    /// What is taken of it is counted as used there.
    pub(crate) fn near(&self, kind: usize, class: Class) -> Option<Class> {
        self.kinds[kind].nearest(class, self.options.near_fit_permille)
    }

    /// Counts an allocation that the driver made for the class as used.
    pub(crate) fn used_up(&mut self, kind: usize, class: Class) {
        self.kinds[kind].join(class);
    }

    /// Counts a used allocation as gone to the driver, without having been cached.
    ///
    /// # Panics
    ///
    /// If none of the class is used.
    pub(crate) fn freed_from(&mut self, kind: usize, class: Class) {
        self.kinds[kind].leave(class);
    }

    /// Puts a used allocation in, as the newest of its class.
    ///
    /// # Panics
    ///
    /// If none of the class is used.
    #[inline]
    pub(crate) fn put(&mut self, kind: usize, class: Class, item: T) {
        self.put_count += 1;
        self.kinds[kind].put(class, Entry { item, number: self.put_count });
    }

    /// Pops the first entry in trim order.
    pub(crate) fn pop_oldest(&mut self) -> Option<(T, usize, Class)> {
        let oldest = self.kinds.iter().zip(0..).filter_map(|(of, kind)| Some((of.oldest()?, kind)));
        let ((_, class), kind) = oldest.min_by_key(|((rank, _), _)| *rank)?;
        self.pop(kind, class).map(|item| (item, kind, class))
    }

    /// Pops the first entry of a kind in trim order.
    pub(crate) fn pop_oldest_of(&mut self, kind: usize) -> Option<(T, Class)> {
        let (_, class) = self.kinds[kind].oldest()?;
        self.pop(kind, class).map(|item| (item, class))
    }

    /// Takes all entries of a kind out, class by class, oldest first.
    pub(crate) fn pop_all_of(&mut self, kind: usize, mut out: impl FnMut(T, Class)) {
        self.kinds[kind].pop_each(&|counts, _| counts.available, &mut |item, class| {
            self.out_count += 1;
            out(item, class);
        });
    }

    /// Notes what is live of the memory that comes back to this cache, after it changed.
    #[inline]
    pub(crate) const fn note_live(&mut self, live: Live) {
        self.live_count.note(live.count);
        self.live_bytes.note(live.bytes);
    }

    /// Whether the cache holds more than it may (S9.10), beside what is live, or about to be, and
    /// what is on its way to the cache. Bytes on their way to the driver do not count: they go
    /// already.
    #[inline]
    pub(crate) const fn over_cap(&self, beside: Beside) -> bool {
        let bytes = self.all_bytes();
        if self.count() <= LEAST_CAP_COUNT && bytes <= LEAST_CAP_BYTES {
            return false;
        }
        let count_max = self.live_count.greatest();
        let mut greatest = self.live_bytes.greatest();
        if beside.live_bytes > greatest {
            greatest = beside.live_bytes;
        }
        let share = per_mille(greatest, self.options.cache_share_permille);
        let others = beside.live_bytes.saturating_add(beside.returning_bytes);
        self.count() > LEAST_CAP_COUNT && self.count() > count_max
            || bytes > LEAST_CAP_BYTES
                && bytes.saturating_add(others) > greatest.saturating_add(share)
    }

    /// Scans the windows of all classes and of what is live (S9.13). Returns whether any class
    /// changed since the last scan.
    pub(crate) fn scan(&mut self, live: Live) -> bool {
        self.note_live(live);
        self.live_count.scan(live.count);
        self.live_bytes.scan(live.bytes);
        self.kinds.iter_mut().fold(false, |changed, of_kind| of_kind.scan() | changed)
    }

    /// Takes out what each class may return by its window, oldest first (S9.14).
    pub(crate) fn reclaim(&mut self, mut out: impl FnMut(T, usize, Class)) {
        for (kind, of_kind) in self.kinds.iter_mut().enumerate() {
            of_kind.pop_each(&|counts, window| window.reclaimable(counts), &mut |item, class| {
                self.out_count += 1;
                out(item, kind, class);
            });
        }
    }

    /// Returns how many entries there are.
    pub(crate) const fn count(&self) -> u64 {
        self.put_count - self.out_count
    }

    /// Returns the bytes of all entries of a kind.
    #[cfg(all(test, not(rig_loom)))]
    pub(crate) const fn bytes(&self, kind: usize) -> u64 {
        self.kinds[kind].bytes()
    }

    /// Returns the bytes of the largest entry of a kind, or 0.
    pub(crate) fn largest_bytes(&self, kind: usize) -> u64 {
        self.kinds[kind].largest_bytes()
    }

    #[inline]
    const fn all_bytes(&self) -> u64 {
        let (mut bytes, mut kind) = (0, 0);
        while kind < KIND_COUNT {
            bytes += self.kinds[kind].bytes();
            kind += 1;
        }
        bytes
    }

    fn pop(&mut self, kind: usize, class: Class) -> Option<T> {
        let item = self.kinds[kind].pop_oldest(class)?;
        self.out_count += 1;
        Some(item)
    }
}

/// How a cache groups, fits and bounds what it holds. Its owner checks the numbers.
///
/// The near-fit and the share of the default were chosen by `benches/traces`: over nine traces
/// they hold 1.19 times the peak live bytes at a hit rate of 93.5 %. A larger near-fit takes
/// traces out of memory that otherwise fit 1.10 times their peak live bytes; from 0.1 to 0.15 the
/// share gains 1.5 % of hits for 0.045 times the peak, and above that 0.3 % for 0.08.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    pub(crate) bins: Bins,
    /// Above this, a request gets its exact size (S9.8).
    pub(crate) bin_max_bytes: u64,
    /// The largest bin that serves, in thousandths of the asked bin; 1,000 is own bin only (S9.9).
    pub(crate) near_fit_permille: u64,
    /// What may be cached above the greatest live bytes, in thousandths of them (S9.10).
    pub(crate) cache_share_permille: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bins: Bins::Eighths,
            bin_max_bytes: DEFAULT_BIN_MAX_BYTES,
            near_fit_permille: 1_250,
            cache_share_permille: 150,
        }
    }
}

/// What is live at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Live {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// What lies beside a cache's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Beside {
    /// What is live, and what an allocation in progress is about to add.
    pub(crate) live_bytes: u64,
    /// What is on its way to the cache.
    pub(crate) returning_bytes: u64,
}

/// Whether devices may have Pinned memory: those of browsers have none.
pub(crate) const HAS_PINNED: bool = cfg!(not(target_family = "wasm"));
/// Device, and Pinned.
pub(crate) const KIND_COUNT: usize = if HAS_PINNED { 2 } else { 1 };

/// What a cache may hold however little was live (S9.10).
const LEAST_CAP_COUNT: u64 = 4_096;
const LEAST_CAP_BYTES: u64 = 32 << 20;
