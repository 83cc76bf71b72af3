//! The classes of one kind of memory: what is used and what waits of each, and its window.
//!
//! All bins of both [`Bins`] have one index in the order of their bytes, so that entries serve on
//! when that option changes. The invariants: a class's window was noted after its counts; numbers
//! grow from the front of a class to its back; the bytes and the ages are those of the entries.
//! Plain data behind the lock of the cache's owner.

use crate::bin::{Bin, Bins, bin_of, bytes_of};
use crate::cache::waiting::{Entry, Waiting};
use crate::ordered::Ordered;
use crate::window::{Counts, Window};

/// What an allocation is counted in, charged as and returned to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// A bin, at its place in the order of all bins.
    Bin { index: u16, bytes: u64 },
    /// Just these bytes, which serve only that size.
    Exact { bytes: u64 },
}

impl Class {
    /// Returns the smallest class that holds `len_bytes`.
    #[inline]
    pub(crate) const fn of(bins: Bins, len_bytes: u64, bin_max_bytes: u64) -> Self {
        match bin_of(bins, len_bytes, bin_max_bytes) {
            Some(Bin { index, bytes }) => Self::Bin { index: index_of(bins, index), bytes },
            None => Self::Exact { bytes: len_bytes },
        }
    }

    /// Returns the bytes that an allocation of this class takes.
    #[inline]
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Bin { bytes, .. } | Self::Exact { bytes } => bytes,
        }
    }
}

/// The classes of one kind of memory.
pub(crate) struct OfKind<T> {
    /// By index, up to the greatest one used so far.
    bins: Vec<OfClass<T>>,
    /// By bytes; those without an allocation go at the next scan.
    exact: Ordered<Box<OfClass<T>>>,
    /// The bytes of each exact-size entry, by its number.
    ages: Ordered<u64>,
    bytes: u64,
}

impl<T> OfKind<T> {
    pub(crate) const fn new() -> Self {
        Self { bins: Vec::new(), exact: Ordered::new(), ages: Ordered::new(), bytes: 0 }
    }

    /// Takes the newest entry of a class and counts it as used.
    #[inline]
    pub(crate) fn take(&mut self, class: Class) -> Option<T> {
        match class {
            Class::Bin { index, bytes } => {
                let item = self.bins.get_mut(usize::from(index))?.take()?.item;
                self.bytes -= bytes;
                Some(item)
            }
            Class::Exact { bytes } => self.take_exact(bytes),
        }
    }

    /// Takes the newest entry of exactly that size and counts it as used.
    #[cold]
    fn take_exact(&mut self, bytes: u64) -> Option<T> {
        let entry = self.exact.find_mut(bytes)?.take()?;
        self.ages.remove(entry.number);
        self.bytes -= bytes;
        Some(entry.item)
    }

    /// Puts a used one in, as the newest entry of its class.
    #[inline]
    pub(crate) fn put(&mut self, class: Class, entry: Entry<T>) {
        match class {
            Class::Bin { index, bytes } => {
                self.bytes += bytes;
                match self.bins.get_mut(usize::from(index)) {
                    Some(of_class) => of_class.put(entry),
                    None => unused(entry),
                }
            }
            Class::Exact { bytes } => self.put_exact(bytes, entry),
        }
    }

    #[cold]
    fn put_exact(&mut self, bytes: u64, entry: Entry<T>) {
        self.ages.or_insert_with(entry.number, || bytes);
        self.bytes += bytes;
        match self.exact.find_mut(bytes) {
            Some(of_class) => of_class.put(entry),
            None => unused(entry),
        }
    }

    /// Whether a class has an entry.
    pub(crate) fn has(&self, class: Class) -> bool {
        let of_class = match class {
            Class::Bin { index, .. } => self.bins.get(usize::from(index)),
            Class::Exact { bytes } => self.exact.find(bytes).map(|of| &**of),
        };
        of_class.is_some_and(|of| of.waiting.count() > 0)
    }

    /// Counts one more used allocation.
    pub(crate) fn join(&mut self, class: Class) {
        match class {
            Class::Bin { index, .. } => {
                let index = usize::from(index);
                if index >= self.bins.len() {
                    self.bins.resize_with(index + 1, OfClass::new);
                }
                self.bins[index].join();
            }
            Class::Exact { bytes } => {
                self.exact.or_insert_with(bytes, || Box::new(OfClass::new())).join();
            }
        }
    }

    /// Counts one used allocation less.
    pub(crate) fn leave(&mut self, class: Class) {
        let of_class = match class {
            Class::Bin { index, .. } => self.bins.get_mut(usize::from(index)),
            Class::Exact { bytes } => self.exact.find_mut(bytes).map(|of| &mut **of),
        };
        of_class.expect(USED).leave();
    }

    /// Returns the class of the first entry in trim order: exact sizes, then the others, each
    /// oldest first (S9.10). Before it stands what is less the earlier it comes. Looks at each bin
    /// once.
    pub(crate) fn oldest(&self) -> Option<((bool, u64), Class)> {
        if let Some((number, bytes)) = self.ages.first_from(0) {
            return Some(((false, *number), Class::Exact { bytes: *bytes }));
        }
        let mut oldest: Option<(u64, u16)> = None;
        for (of_class, index) in self.bins.iter().zip(0..) {
            if let Some(number) = of_class.waiting.oldest()
                && oldest.is_none_or(|(oldest, _)| number < oldest)
            {
                oldest = Some((number, index));
            }
        }
        let class = |index| Class::Bin { index, bytes: bytes_at(index) };
        oldest.map(|(number, index)| ((true, number), class(index)))
    }

    /// Takes the oldest entry of a class out.
    pub(crate) fn pop_oldest(&mut self, class: Class) -> Option<T> {
        let entry = match class {
            Class::Bin { index, .. } => self.bins.get_mut(usize::from(index))?.pop_oldest(),
            Class::Exact { bytes } => self.exact.find_mut(bytes)?.pop_oldest(),
        }?;
        if let Class::Exact { .. } = class {
            self.ages.remove(entry.number);
        }
        self.bytes -= class.bytes();
        Some(entry.item)
    }

    /// Takes out some entries of each class, oldest first: as many as `count` says of its counts
    /// and window.
    pub(crate) fn pop_each(
        &mut self,
        count: &dyn Fn(Counts, &Window) -> u64,
        out: &mut dyn FnMut(T, Class),
    ) {
        for (of_class, index) in self.bins.iter_mut().zip(0..) {
            for _ in 0..count(of_class.counts(), &of_class.window) {
                let Some(entry) = of_class.pop_oldest() else { break };
                let class = Class::Bin { index, bytes: bytes_at(index) };
                self.bytes -= class.bytes();
                out(entry.item, class);
            }
        }
        for (bytes, of_class) in self.exact.iter_mut() {
            for _ in 0..count(of_class.counts(), &of_class.window) {
                let Some(entry) = of_class.pop_oldest() else { break };
                self.ages.remove(entry.number);
                self.bytes -= bytes;
                out(entry.item, Class::Exact { bytes });
            }
        }
    }

    /// Scans the windows of all classes. Returns whether any class changed since the last scan.
    pub(crate) fn scan(&mut self) -> bool {
        let mut changed = false;
        let mut scan = |of_class: &mut OfClass<T>| {
            changed |= of_class.window.scan(of_class.counts());
        };
        for of_class in &mut self.bins {
            scan(of_class);
        }
        for (_, of_class) in self.exact.iter_mut() {
            scan(of_class);
        }
        self.exact.retain(|of_class| of_class.counts() != Counts::default());
        changed
    }

    /// Returns the nearest larger bin with an entry, if it is within the near-fit of this class.
    pub(crate) fn nearest(&self, class: Class, near_fit_permille: u64) -> Option<Class> {
        let Class::Bin { index, bytes: asked_bytes } = class else { return None };
        let most_bytes = per_mille(asked_bytes, near_fit_permille);
        let larger = self.bins.get(usize::from(index) + 1..)?;
        for (of_class, index) in larger.iter().zip(index + 1..) {
            let bytes = bytes_at(index);
            if bytes > most_bytes {
                return None;
            }
            if of_class.waiting.count() > 0 {
                return Some(Class::Bin { index, bytes });
            }
        }
        None
    }

    /// Returns the bytes of all entries.
    #[inline]
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the bytes of the largest entry, or 0.
    pub(crate) fn largest_bytes(&self) -> u64 {
        let exact = self.exact.iter().rev().find(|(_, of)| of.waiting.count() > 0);
        let exact_bytes = exact.map_or(0, |(bytes, _)| *bytes);
        let filled = self.bins.iter().rposition(|of| of.waiting.count() > 0);
        filled.map_or(exact_bytes, |index| exact_bytes.max(bytes_at(index as u16)))
    }
}

/// The entries, counts and window of one class.
struct OfClass<T> {
    waiting: Waiting<T>,
    /// Used and available ones.
    count: u64,
    window: Window,
}

impl<T> OfClass<T> {
    const fn new() -> Self {
        Self { waiting: Waiting::new(), count: 0, window: Window::new() }
    }

    const fn counts(&self) -> Counts {
        Counts { used: self.used(), available: self.waiting.count() }
    }

    /// Returns how many live or return.
    #[inline]
    const fn used(&self) -> u64 {
        self.count - self.waiting.count()
    }

    #[inline]
    fn take(&mut self) -> Option<Entry<T>> {
        let entry = self.waiting.take_newest()?;
        self.window.note(self.used());
        Some(entry)
    }

    #[inline]
    fn put(&mut self, entry: Entry<T>) {
        if self.used() == 0 {
            unused(entry);
        }
        self.window.note_less();
        self.waiting.put(entry);
    }

    fn join(&mut self) {
        self.count += 1;
        self.window.note(self.used());
    }

    fn leave(&mut self) {
        assert!(self.used() > 0, "{USED}");
        self.count -= 1;
        self.window.note_less();
    }

    fn pop_oldest(&mut self) -> Option<Entry<T>> {
        let entry = self.waiting.pop_oldest()?;
        self.count -= 1;
        Some(entry)
    }
}

/// Tells a broken invariant; apart, so that putting keeps nothing for it.
#[cold]
#[inline(never)]
fn unused<T>(_entry: Entry<T>) -> ! {
    panic!("{USED}")
}

/// Returns the place of a bin in the order of all bins: those of [`Bins::Pow2`] below the least
/// of [`Bins::Eighths`], then all of the latter, each eighth of which is a power of two.
#[inline]
const fn index_of(bins: Bins, index: u16) -> u16 {
    match bins {
        Bins::Eighths => SMALL_COUNT + index,
        Bins::Pow2 if index < SMALL_COUNT => index,
        Bins::Pow2 => SMALL_COUNT + 8 * (index - SMALL_COUNT),
    }
}

/// Returns the bytes of the bin at an index.
fn bytes_at(index: u16) -> u64 {
    let bytes = match index.checked_sub(SMALL_COUNT) {
        Some(index) => bytes_of(Bins::Eighths, index),
        None => bytes_of(Bins::Pow2, index),
    };
    bytes.expect("an index in use is one of a bin")
}

/// Returns that many thousandths of a number, at most `u64::MAX`.
pub(crate) const fn per_mille(number: u64, thousandths: u64) -> u64 {
    let (thousands, rest) = (number / 1_000, number % 1_000);
    thousands.saturating_mul(thousandths).saturating_add(rest.saturating_mul(thousandths) / 1_000)
}

/// The powers of two below 512.
const SMALL_COUNT: u16 = 9;

const USED: &str = "what comes back to a cache was counted as used in its class";

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::bin::{Bins, bin_of, count_of};
    use crate::cache::class::{Class, bytes_at, index_of, per_mille};

    #[test]
    fn s9_9_all_bins_have_one_order_by_their_bytes() {
        let count = index_of(Bins::Eighths, count_of(Bins::Eighths) - 1) + 1;
        for index in 1..count {
            assert!(bytes_at(index - 1) < bytes_at(index));
        }
        assert_eq!((bytes_at(0), bytes_at(8), bytes_at(9)), (1, 256, 512));
    }

    #[test]
    fn s9_15_a_bin_that_both_bins_have_is_one() {
        for bins in [Bins::Eighths, Bins::Pow2] {
            for exponent in 0..64 {
                let len_bytes = 1 << exponent;
                let bytes = bin_of(bins, len_bytes, u64::MAX).unwrap().bytes;
                let Class::Bin { index, bytes: class_bytes } = Class::of(bins, len_bytes, u64::MAX)
                else {
                    panic!("{len_bytes} has a bin")
                };
                assert_eq!((class_bytes, bytes_at(index)), (bytes, bytes));
            }
        }
    }

    #[test]
    fn s9_9_a_share_of_a_number_is_exact_and_never_wraps_around() {
        for number in [0, 1, 999, 1_000, 1_001, 123_456_789, u64::MAX - 1, u64::MAX] {
            for thousandths in [0, 1, 250, 999, 1_000, 1_250, 1_001, u64::MAX] {
                let exact = u128::from(number) * u128::from(thousandths) / 1_000;
                let share = per_mille(number, thousandths);
                if thousandths < 1_000_000 {
                    assert_eq!(share, exact.min(u128::from(u64::MAX)) as u64);
                } else {
                    assert!(number == 0 || u128::from(share) * 1_001 >= u128::from(u64::MAX));
                }
            }
        }
    }
}
