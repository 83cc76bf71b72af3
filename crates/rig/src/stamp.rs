//! The stamps of an allocation: its last write, and its last use on each device.
//!
//! Two words serve as long as one device uses the memory; other devices' points spill into a
//! list. Per device values only grow (S3.2). A use is raised before the write of the same point,
//! so whoever sees the write sees the use. Any thread may read; whoever raises holds a claim that
//! keeps conflicting work away. One lock, a leaf, guards the spilled points.

use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::timeline::{Access, DeviceId, Fate, Point};

/// The record.
#[derive(Debug)]
pub(crate) struct Stamps {
    /// The word of the last write, or 0.
    write: AtomicU64,
    /// The word of the last use on the first device that used the memory, or 0.
    first: AtomicU64,
    /// How many points `more` holds, so that nobody locks for none.
    spilled: AtomicU64,
    /// Guards the last uses on further devices.
    more: Mutex<Vec<Point>>,
}

impl Stamps {
    pub(crate) fn new() -> Self {
        Self {
            write: AtomicU64::new(0),
            first: AtomicU64::new(0),
            spilled: AtomicU64::new(0),
            more: Mutex::new(Vec::new()),
        }
    }

    /// Returns the point of the last write.
    pub(crate) fn write(&self) -> Option<Point> {
        // ORDERING: pairs with the release in `raise`: the uses up to this write are seen.
        Point::from_word(self.write.load(Ordering::Acquire))
    }

    /// Calls `f` with the last use of each device.
    pub(crate) fn for_each_use(&self, mut f: impl FnMut(Point)) {
        // ORDERING: pairs with the exchange in `raise_use`.
        if let Some(point) = Point::from_word(self.first.load(Ordering::Acquire)) {
            f(point);
        }
        // ORDERING: pairs with the release in `raise_use`.
        if self.spilled.load(Ordering::Acquire) > 0 {
            let more = self.more.lock().clone();
            more.into_iter().for_each(f);
        }
    }

    /// Calls `f` with the points that an access of the host, or of a device, has to follow
    /// (S3.7), reached ones among them. `by` is the accessing device; the host for none.
    pub(crate) fn for_each_followed(&self, access: Access, by: DeviceId, mut f: impl FnMut(Point)) {
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

    /// Notes a use, and the write if it is one.
    pub(crate) fn raise(&self, point: Point, access: Access) {
        self.raise_use(point);
        if access == Access::Write {
            // ORDERING: releases the use before it, to `write`.
            self.write.store(point.word(), Ordering::Release);
        }
    }

    fn raise_use(&self, point: Point) {
        let mut first = self.first.load(Ordering::Relaxed);
        while first == 0 || same_device(first, point) {
            if first >= point.word() {
                return;
            }
            // ORDERING: releases to `for_each_use`, for the acquire there.
            match self.first.compare_exchange_weak(
                first,
                point.word(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
        let mut more = self.more.lock();
        match more.iter_mut().find(|known| known.device_id() == point.device_id()) {
            Some(known) => *known = (*known).max(point),
            None => more.push(point),
        }
        // ORDERING: pairs with the acquire in `for_each_use`.
        self.spilled.store(more.len() as u64, Ordering::Release);
    }

    /// Whether there is no point at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.load(Ordering::Relaxed) == 0
    }

    /// Forgets what no next user has to follow: all but unreached points. Nobody else has the
    /// allocation.
    pub(crate) fn forget_done(&self) {
        if self.is_empty() {
            return;
        }
        let stays = |point: &Point| point.fate() == Fate::Unreached;
        let mut kept = Vec::new();
        self.for_each_use(|point| kept.extend(stays(&point).then_some(point)));
        let write = self.write().filter(stays);
        self.clear();
        kept.into_iter().for_each(|point| self.raise_use(point));
        self.write.store(write.map_or(0, Point::word), Ordering::Relaxed);
    }

    /// Forgets everything. Nobody else has the allocation.
    pub(crate) fn clear(&self) {
        self.write.store(0, Ordering::Relaxed);
        self.first.store(0, Ordering::Relaxed);
        if self.spilled.load(Ordering::Relaxed) > 0 {
            self.more.lock().clear();
            self.spilled.store(0, Ordering::Relaxed);
        }
    }

    /// Takes over the record of an allocation whose memory moves here.
    pub(crate) fn take_over(&self, other: &Self) {
        other.for_each_use(|point| self.raise_use(point));
        self.write.store(other.write.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

fn same_device(word: u64, point: Point) -> bool {
    Point::from_word(word).is_some_and(|known| known.device_id() == point.device_id())
}
