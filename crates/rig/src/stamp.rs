//! The stamps of an allocation: its last write, and its last use on each device.
//!
//! Two words serve as long as one device uses the memory; other devices' points spill into a
//! list. Per device values only grow (S3.2). A use is raised before the write of the same point,
//! so whoever sees the write sees the use. Any thread may read; whoever raises has the device's
//! turn, and a claim that keeps conflicting work away. One lock, a leaf, guards the spilled points.

#[cfg(all(test, rig_loom))]
mod loom_tests;
#[cfg(all(test, not(rig_loom)))]
mod tests;

use crate::once::OnceBox;
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use crate::timeline::{Access, DeviceId, Fate, Point, VALUE_MAX, device_of};

/// The record.
#[derive(Debug)]
pub(crate) struct Stamps {
    /// The word of the last write, or 0.
    write: AtomicU64,
    /// The word of the last use on the first device that used the memory, or 0.
    first: AtomicU64,
    /// The last uses on further devices, once one used the memory or is about to.
    more: OnceBox<More>,
}

impl Stamps {
    pub(crate) fn new() -> Self {
        Self { write: AtomicU64::new(0), first: AtomicU64::new(0), more: OnceBox::new() }
    }

    /// Makes room for the uses of further devices, so that raising them allocates nothing (S0.8).
    pub(crate) fn make_room(&self) {
        let _ = self.more();
    }

    /// Returns the point of the last write.
    pub(crate) fn write(&self) -> Option<Point> {
        // ORDERING: pairs with the release in `raise`: the uses up to this write are seen.
        Point::from_word(self.write.load(Ordering::Acquire))
    }

    /// Whether there is no write that is not reached: all that a reader on the host follows.
    #[inline]
    pub(crate) fn is_written(&self) -> bool {
        self.write().is_none_or(|point| point.fate() == Fate::Reached)
    }

    /// Calls `f` with the last use of each device, with no lock held. Allocates nothing.
    pub(crate) fn for_each_use(&self, mut f: impl FnMut(Point)) {
        // ORDERING: pairs with the release in `raise_use`: who sees a point sees its value
        // assigned.
        if let Some(point) = Point::from_word(self.first.load(Ordering::Acquire)) {
            f(point);
        }
        if let Some(more) = self.more.get() {
            more.for_each(&mut f);
        }
    }

    /// Calls `f` with the points that an access of the host, or of a device, has to follow
    /// (S3.7), reached ones among them. `by` is the accessing device; the host for none.
    pub(crate) fn for_each_followed(&self, access: Access, by: DeviceId, f: &mut dyn FnMut(Point)) {
        let mut other = |point: Point| {
            if point.device_id() != by {
                f(point);
            }
        };
        match access {
            Access::Read => self.write().into_iter().for_each(&mut other),
            Access::Write => self.for_each_use(other),
        }
    }

    /// Notes a use, and the write if it is one. The caller has the turn of the point's device.
    #[inline]
    pub(crate) fn raise(&self, point: Point, access: Access) {
        let first = self.first.load(Ordering::Relaxed);
        if !is_same_device(first, point) {
            self.raise_other(first, point);
        } else if first < point.word() {
            // ORDERING: releases the value's assignment, to `for_each_use`. A store, since only the
            // device's own turn comes here.
            self.first.store(point.word(), Ordering::Release);
        }
        if access == Access::Write && !is_later(self.write.load(Ordering::Relaxed), point) {
            // ORDERING: releases the use before it, to `write`.
            self.write.store(point.word(), Ordering::Release);
        }
    }

    /// Notes a use where the first device that was seen is none, or another.
    #[cold]
    fn raise_other(&self, first: u64, point: Point) {
        // ORDERING: as in `raise`. An exchange, since another device may come first.
        let exchange =
            || self.first.compare_exchange(0, point.word(), Ordering::Release, Ordering::Relaxed);
        if first != 0 || exchange().is_err() {
            self.more().raise(point);
        }
    }

    /// Whether no device but this one has left a point, so that its queue's order is enough.
    #[inline]
    pub(crate) fn is_only_of(&self, device: DeviceId) -> bool {
        let first = self.first.load(Ordering::Relaxed);
        (first == 0 || device_of(first) == device) && self.more.get().is_none()
    }

    /// Whether there is no point at all.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.load(Ordering::Relaxed) == 0
    }

    /// Forgets what no next user has to follow: all but unreached points. Nobody else has the
    /// allocation. Allocates nothing.
    #[inline]
    pub(crate) fn forget_done(&self) {
        if !self.is_empty() {
            self.forget_reached();
        }
    }

    fn forget_reached(&self) {
        let stays = |point: &Point| point.fate() == Fate::Unreached;
        let write = self.write().filter(stays);
        let mut first = Point::from_word(self.first.load(Ordering::Relaxed)).filter(stays);
        if let Some(more) = self.more.get() {
            first = more.forget(stays, first);
        }
        self.write.store(write.map_or(0, Point::word), Ordering::Relaxed);
        self.first.store(first.map_or(0, Point::word), Ordering::Relaxed);
    }

    /// Takes over the record of an allocation whose memory moves here. Nobody else has this one.
    pub(crate) fn take_over(&self, other: &Self) {
        other.for_each_use(|point| self.raise(point, Access::Read));
        self.write.store(other.write().map_or(0, Point::word), Ordering::Relaxed);
    }

    fn more(&self) -> &More {
        self.more.get_or_init(|| {
            let (count, points) = (AtomicU32::new(0), Mutex::new(Points::new()));
            More { count, points }
        })
    }
}

/// Points, natively a few off the heap: a browser's package has no code for that.
#[cfg(not(target_family = "wasm"))]
type Points = smallvec::SmallVec<[Point; FEW]>;
#[cfg(target_family = "wasm")]
type Points = Vec<Point>;

/// The last uses on further devices.
#[derive(Debug)]
struct More {
    /// How many points there are, so that nobody locks for none.
    count: AtomicU32,
    /// Guards the points, one a device; while the memory serves one buffer none goes away.
    points: Mutex<Points>,
}

impl More {
    fn for_each(&self, f: &mut dyn FnMut(Point)) {
        let mut from = 0;
        while from < self.count.load(Ordering::Relaxed) as usize {
            // A few at a time, since `f` is called without the lock.
            let mut few = [None; FEW];
            for (to, point) in few.iter_mut().zip(self.points.lock().iter().skip(from)) {
                *to = Some(*point);
            }
            few.into_iter().flatten().for_each(&mut *f);
            from += FEW;
        }
    }

    fn raise(&self, point: Point) {
        let mut points = self.points.lock();
        match points.iter_mut().find(|known| known.device_id() == point.device_id()) {
            Some(known) => *known = (*known).max(point),
            None => points.push(point),
        }
        // The points themselves are read under the lock; who sees a write sees its use counted.
        self.count.store(points.len() as u32, Ordering::Relaxed);
    }

    /// Forgets what does not stay; answers the first device's point, one of these if it has none.
    fn forget(&self, stays: impl Fn(&Point) -> bool, first: Option<Point>) -> Option<Point> {
        let mut points = self.points.lock();
        points.retain(|point| stays(point));
        let first = first.or_else(|| points.pop());
        self.count.store(points.len() as u32, Ordering::Relaxed);
        first
    }
}

#[inline]
fn is_same_device(word: u64, point: Point) -> bool {
    (word ^ point.word()) <= VALUE_MAX
}

#[inline]
fn is_later(word: u64, point: Point) -> bool {
    is_same_device(word, point) && word > point.word()
}

/// How many further devices have room from the start.
const FEW: usize = 6;
