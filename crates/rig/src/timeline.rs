//! Devices by number, values and points: the timeline of each device as one word.
//!
//! A track is the part of a timeline that everybody may look at without a lock: the last value
//! assigned, and the *word*, which holds the last value reached and whether the device is lost
//! or settled. All three stand in one atomic, so a loss fixes what was reached: nothing becomes
//! reached after it (S2.8). Tracks live for ever in chunks that are made when first needed, 65,535
//! at most (S1.5), so that an old point can always be judged. Any thread may call anything here.

#[cfg(all(test, rig_loom))]
mod loom_tests;
#[cfg(all(test, not(rig_loom)))]
mod tests;

use crate::sync::{AtomicBool, AtomicU64, OnceLock, Ordering};
use std::num::NonZeroU64;
use std::sync::Arc;

/// A device's index. It is never used again (S1.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct DeviceId(pub(crate) u16);

impl DeviceId {
    /// The host, which has no timeline.
    pub const HOST: Self = Self(0);

    /// Returns the index.
    pub fn index(self) -> u64 {
        u64::from(self.0)
    }
}

/// A device and a value of it, in one word: the index in the top 16 bits (S2.2).
///
/// A submission answers one. It is plain data: it keeps nothing alive, may be kept for ever, and
/// prints as `name:value`. Points are ordered by device, then by value.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::memory::open("gpu")?;
/// let x = device.create_buffer(4)?;
/// let point = device.prepare().fill(&x, 1).build()?.submit(&[], &[])?;
/// assert_eq!(point.to_string(), "gpu:1");
/// point.wait()?;
/// assert!(point.is_reached() && device.reached() >= point.value());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point(NonZeroU64);

impl Point {
    /// Makes the point of a device and a value, which are not both 0.
    pub(crate) fn new(device: DeviceId, value: u64) -> Self {
        debug_assert!(value <= VALUE_MAX, "a value has at most 48 bits");
        let word = u64::from(device.0) << VALUE_BITS | value;
        Self(NonZeroU64::new(word).expect("word 0 is no point"))
    }

    /// Returns the point of a word, or none for word 0.
    pub fn from_word(word: u64) -> Option<Self> {
        NonZeroU64::new(word).map(Self)
    }

    /// Returns the word.
    pub fn word(self) -> u64 {
        self.0.get()
    }

    /// Returns the device's index.
    pub fn device_id(self) -> DeviceId {
        device_of(self.0.get())
    }

    /// Returns the value.
    pub fn value(self) -> u64 {
        self.0.get() & VALUE_MAX
    }

    /// Returns the word that the next device's points start at, if there may be one.
    pub(crate) fn next_device(self) -> Option<u64> {
        self.device_id().0.checked_add(1).map(|next| u64::from(next) << VALUE_BITS)
    }

    /// Whether a wait for it is over already, whatever its driver might say.
    #[inline]
    pub(crate) fn is_done(self) -> bool {
        track(self.device_id()).is_done(self.value())
    }

    /// Returns what has become of this point's work.
    #[inline]
    pub(crate) fn fate(self) -> Fate {
        track(self.device_id()).fate(self.value())
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", track(self.device_id()).name(), self.value())
    }
}

impl std::fmt::Debug for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Returns the device that a point's word names.
#[inline]
pub(crate) fn device_of(word: u64) -> DeviceId {
    DeviceId((word >> VALUE_BITS) as u16)
}

/// What work, or the host, does to memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it, and may read it.
    Write,
}

/// What has become of the work of a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Complete, and its writes visible; also after a later loss (S2.8, done).
    Reached,
    /// Not complete yet.
    Unreached,
    /// Its device was lost before it was complete, and has not settled.
    Undone,
    /// Its device was lost before it was complete, and has settled.
    Dropped,
}

/// The part of a timeline that everybody may look at.
#[derive(Debug)]
pub(crate) struct Track {
    /// The last value reached in the low 48 bits, `LOST` and `SETTLED` above.
    word: AtomicU64,
    /// The last value assigned.
    submitted: AtomicU64,
    name: OnceLock<Arc<str>>,
    why: OnceLock<Arc<str>>,
    /// Whether the driver may find work wrong after it is reached (S8.8).
    rejects_later: AtomicBool,
}

impl Track {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            name: OnceLock::new(),
            why: OnceLock::new(),
            rejects_later: AtomicBool::new(false),
        }
    }

    /// Names the device and starts its values after `first`; once, before anybody knows it.
    pub(crate) fn start(&self, name: &Arc<str>, first: u64, rejects_later: bool) {
        self.rejects_later.store(rejects_later, Ordering::Relaxed);
        let _ = self.name.set(Arc::clone(name));
        self.submitted.store(first, Ordering::Relaxed);
        self.word.store(first, Ordering::Relaxed);
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.name.get().cloned().unwrap_or_else(|| Arc::from("?"))
    }

    /// Returns the reason of the loss, once the device is lost.
    pub(crate) fn why(&self) -> Option<Arc<str>> {
        self.is_lost().then(|| self.why.get().cloned().unwrap_or_else(|| Arc::from("lost")))
    }

    /// Returns the last value reached, as last seen.
    pub(crate) fn reached(&self) -> u64 {
        // ORDERING: pairs with the release in `raise`: who sees the value sees its writes.
        self.word.load(Ordering::Acquire) & VALUE_MAX
    }

    pub(crate) fn submitted(&self) -> u64 {
        // ORDERING: pairs with the release in `assign`.
        self.submitted.load(Ordering::Acquire)
    }

    pub(crate) fn is_lost(&self) -> bool {
        // ORDERING: pairs with the release in `lose`: who sees the loss sees its reason.
        self.word.load(Ordering::Acquire) & LOST != 0
    }

    pub(crate) fn is_settled(&self) -> bool {
        // ORDERING: pairs with the release in `settle`: what the device did last is seen.
        self.word.load(Ordering::Acquire) & SETTLED != 0
    }

    #[inline]
    pub(crate) fn fate(&self, value: u64) -> Fate {
        // ORDERING: as in `reached`.
        let word = self.word.load(Ordering::Acquire);
        if word & VALUE_MAX >= value {
            Fate::Reached
        } else if word & LOST == 0 {
            Fate::Unreached
        } else if word & SETTLED == 0 {
            Fate::Undone
        } else {
            Fate::Dropped
        }
    }

    /// Whether a wait for `value` is over already, whatever the driver might say.
    #[inline]
    pub(crate) fn is_done(&self, value: u64) -> bool {
        // ORDERING: as in `reached`.
        let word = self.word.load(Ordering::Acquire);
        word & LOST == 0 && word & VALUE_MAX >= value && !self.rejects_later.load(Ordering::Relaxed)
    }

    /// Assigns `value`, the next one.
    pub(crate) fn assign(&self, value: u64) {
        debug_assert!(value > self.submitted.load(Ordering::Relaxed), "values only grow");
        // ORDERING: pairs with the acquire in `submitted`.
        self.submitted.store(value, Ordering::Release);
    }

    /// Raises the word to `value`, at most to what was submitted, unless the device is lost.
    /// Returns whether it rose.
    pub(crate) fn raise(&self, value: u64) -> bool {
        let value = value.min(self.submitted());
        let mut word = self.word.load(Ordering::Relaxed);
        while word & LOST == 0 && word & VALUE_MAX < value {
            // ORDERING: releases the writes of what is reached, to the acquiring loads. All changes
            // of the word are exchanges, so a later one hides no release.
            match self.word.compare_exchange_weak(word, value, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Marks the device lost; the first caller gets true, and its reason is kept. After this call
    /// everybody's look shows the loss, and the first reason, whoever came first.
    pub(crate) fn lose(&self, why: &Arc<str>) -> bool {
        let first = self.why.set(Arc::clone(why)).is_ok();
        // ORDERING: releases the reason, to `is_lost`. That the loss and the last value share one
        // word fixes what was reached. A second caller may come before the first one's mark, and
        // marks it too, so that it can tell the reason.
        self.word.fetch_or(LOST, Ordering::Release);
        first
    }

    /// Marks a lost device settled: nothing of it runs any more.
    pub(crate) fn settle(&self) {
        debug_assert!(self.is_lost(), "only a lost device settles");
        // ORDERING: releases the end of the stop, to the acquiring loads: who sees it may reuse
        // the memory.
        self.word.fetch_or(SETTLED, Ordering::Release);
    }
}

/// Returns the track of a device.
#[inline]
pub(crate) fn track(id: DeviceId) -> &'static Track {
    let chunk = TRACKS[usize::from(id.0) / CHUNK]
        .get_or_init(|| Box::new(std::array::from_fn(|_| Track::new())));
    &chunk[usize::from(id.0) % CHUNK]
}

/// The greatest value of a timeline.
pub(crate) const VALUE_MAX: u64 = (1 << VALUE_BITS) - 1;
const VALUE_BITS: u32 = 48;
const LOST: u64 = 1 << 63;
const SETTLED: u64 = 1 << 62;
const CHUNK: usize = 64;

static TRACKS: [std::sync::OnceLock<Box<[Track; CHUNK]>>; (1 << 16) / CHUNK] =
    [const { std::sync::OnceLock::new() }; (1 << 16) / CHUNK];
