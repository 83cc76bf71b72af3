//! The stamps of an allocation: its last write, and its last use on each device.
//!
//! Two words serve as long as one device uses the memory; other devices' points spill into a
//! list. Per device values only grow (S3.2). A use is raised before the write of the same point,
//! so whoever sees the write sees the use. Any thread may read; whoever raises has the device's
//! turn, and a claim that keeps conflicting work away. One lock, a leaf, guards the spilled points.

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

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::stamp::{FEW, Stamps};
    use crate::timeline::{Access, DeviceId, Point, VALUE_MAX, track};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, Ordering};

    const D: DeviceId = DeviceId(1);
    const E: DeviceId = DeviceId(2);
    const F: DeviceId = DeviceId(3);

    fn at(device: DeviceId, value: u64) -> Point {
        Point::new(device, value)
    }

    fn uses(stamps: &Stamps) -> Vec<Point> {
        let mut points = Vec::new();
        stamps.for_each_use(|point| points.push(point));
        points.sort_unstable();
        points
    }

    fn followed(stamps: &Stamps, access: Access, by: DeviceId) -> Vec<Point> {
        let mut points = Vec::new();
        stamps.for_each_followed(access, by, &mut |point| points.push(point));
        points.sort_unstable();
        points
    }

    /// A record with uses of three devices and a write of the second.
    fn used() -> Stamps {
        let stamps = Stamps::new();
        stamps.raise(at(D, 4), Access::Read);
        stamps.raise(at(E, 2), Access::Write);
        stamps.raise(at(E, 5), Access::Read);
        stamps.raise(at(F, 1), Access::Read);
        stamps
    }

    /// A device of its own for a test that needs fates, with 9 values of which 3 are reached.
    fn device() -> DeviceId {
        static NEXT: AtomicU16 = AtomicU16::new(60_000);
        let id = DeviceId(NEXT.fetch_add(1, Ordering::Relaxed));
        track(id).start(&Arc::from("test"), 0, false);
        (1..=9).for_each(|value| track(id).assign(value));
        track(id).raise(3);
        id
    }

    #[test]
    fn s3_1_the_record_is_the_last_write_and_the_last_use_of_each_device() {
        let stamps = Stamps::new();
        assert_eq!((stamps.write(), uses(&stamps), stamps.is_empty()), (None, vec![], true));
        let stamps = used();
        assert_eq!(stamps.write(), Some(at(E, 2)));
        assert_eq!(uses(&stamps), [at(D, 4), at(E, 5), at(F, 1)]);
        assert!(!stamps.is_empty());
    }

    #[test]
    fn s3_2_reading_sets_the_use_and_writing_sets_both() {
        for device in [D, E] {
            let stamps = Stamps::new();
            stamps.raise(at(D, 1), Access::Read);
            assert_eq!((stamps.write(), uses(&stamps)), (None, vec![at(D, 1)]));
            stamps.raise(at(device, 2), Access::Write);
            assert_eq!(stamps.write(), Some(at(device, 2)));
            assert!(uses(&stamps).contains(&at(device, 2)));
        }
    }

    #[test]
    fn s3_2_per_device_values_only_grow() {
        for device in [D, E] {
            let stamps = Stamps::new();
            stamps.raise(at(D, 1), Access::Read);
            stamps.raise(at(device, 7), Access::Write);
            for (value, access) in [(6, Access::Read), (5, Access::Write), (7, Access::Read)] {
                stamps.raise(at(device, value), access);
                assert_eq!(stamps.write(), Some(at(device, 7)));
                assert_eq!(uses(&stamps).last(), Some(&at(device, 7)));
            }
            stamps.raise(at(device, VALUE_MAX), Access::Write);
            assert_eq!(stamps.write(), Some(at(device, VALUE_MAX)));
            assert_eq!(uses(&stamps).last(), Some(&at(device, VALUE_MAX)));
        }
    }

    #[test]
    fn s3_2_another_devices_write_replaces_the_write_whatever_its_value() {
        let stamps = Stamps::new();
        stamps.raise(at(E, 9), Access::Write);
        stamps.raise(at(D, 1), Access::Write);
        assert_eq!(stamps.write(), Some(at(D, 1)));
        assert_eq!(uses(&stamps), [at(D, 1), at(E, 9)]);
        stamps.raise(at(E, 10), Access::Write);
        assert_eq!(stamps.write(), Some(at(E, 10)));
    }

    #[test]
    fn s3_1_the_uses_of_many_devices_are_each_kept() {
        for count in [1, 2, FEW, FEW + 1, FEW + 2, 2 * FEW + 1, 2 * FEW + 2, 100] {
            let stamps = Stamps::new();
            let points = |value| (1..=count as u16).map(move |id| at(DeviceId(id), value));
            points(1).for_each(|point| stamps.raise(point, Access::Read));
            points(2).rev().for_each(|point| stamps.raise(point, Access::Read));
            assert_eq!(uses(&stamps), points(2).collect::<Vec<_>>(), "{count} devices");
            assert_eq!(stamps.write(), None);
        }
    }

    #[test]
    fn s3_6_points_stay_after_they_are_reached() {
        let (stamps, device) = (Stamps::new(), device());
        stamps.raise(at(device, 3), Access::Write);
        assert_eq!((stamps.write(), uses(&stamps)), (Some(at(device, 3)), vec![at(device, 3)]));
    }

    #[test]
    fn s3_7_f1_a_read_by_a_device_follows_anothers_write() {
        let stamps = used();
        assert_eq!(followed(&stamps, Access::Read, D), [at(E, 2)]);
        assert_eq!(followed(&stamps, Access::Read, E), []);
        assert_eq!(followed(&Stamps::new(), Access::Read, D), []);
    }

    #[test]
    fn s3_7_f2_a_write_by_a_device_follows_every_others_use() {
        let stamps = used();
        assert_eq!(followed(&stamps, Access::Write, D), [at(E, 5), at(F, 1)]);
        assert_eq!(followed(&stamps, Access::Write, E), [at(D, 4), at(F, 1)]);
        assert_eq!(followed(&stamps, Access::Write, F), [at(D, 4), at(E, 5)]);
        assert_eq!(followed(&stamps, Access::Write, DeviceId(9)), uses(&stamps));
    }

    #[test]
    fn s3_7_f3_a_read_by_the_host_follows_the_write() {
        assert_eq!(followed(&used(), Access::Read, DeviceId::HOST), [at(E, 2)]);
        let read_only = Stamps::new();
        read_only.raise(at(D, 1), Access::Read);
        assert_eq!(followed(&read_only, Access::Read, DeviceId::HOST), []);
    }

    #[test]
    fn s3_7_f4_a_write_by_the_host_follows_every_use() {
        let stamps = used();
        assert_eq!(followed(&stamps, Access::Write, DeviceId::HOST), uses(&stamps));
    }

    #[test]
    fn s3_4_looking_raises_nothing() {
        let stamps = used();
        let before = (stamps.write(), uses(&stamps));
        followed(&stamps, Access::Write, DeviceId::HOST);
        stamps.make_room();
        assert_eq!((stamps.write(), uses(&stamps)), before);
    }

    #[test]
    fn s3_5_only_unreached_points_stay_for_the_next_buffer() {
        // Which of three devices have an unreached use, in every combination.
        for unreached in 0..8 {
            let (stamps, ids) = (Stamps::new(), [device(), device(), device()]);
            let value_of = |index: usize| if unreached >> index & 1 == 1 { 4 } else { 3 };
            for (index, id) in ids.into_iter().enumerate() {
                stamps.raise(at(id, value_of(index)), Access::Read);
            }
            stamps.raise(at(ids[1], value_of(1)), Access::Write);
            let points = uses(&stamps);
            stamps.forget_done();
            let stay: Vec<_> = points.into_iter().filter(|point| point.value() == 4).collect();
            assert_eq!(uses(&stamps), stay, "{unreached:03b}");
            assert_eq!(stamps.write(), (value_of(1) == 4).then(|| at(ids[1], 4)));
            assert_eq!(stamps.is_empty(), stay.is_empty());
            // The record goes on as any other.
            ids.iter().for_each(|id| stamps.raise(at(*id, 5), Access::Read));
            assert_eq!(uses(&stamps), ids.map(|id| at(id, 5)));
        }
    }

    #[test]
    fn s12_3_what_a_lost_device_left_goes_with_the_memory_to_no_next_buffer() {
        let (stamps, lost, other) = (Stamps::new(), device(), device());
        stamps.raise(at(other, 4), Access::Read);
        stamps.raise(at(lost, 4), Access::Write);
        track(lost).lose(&Arc::from("gone"));
        track(lost).settle();
        stamps.forget_done();
        assert_eq!((stamps.write(), uses(&stamps)), (None, vec![at(other, 4)]));
    }

    #[test]
    fn s4_15_a_record_moves_whole_and_the_old_one_stays() {
        for from in [Stamps::new(), used()] {
            let to = Stamps::new();
            to.take_over(&from);
            assert_eq!((to.write(), uses(&to)), (from.write(), uses(&from)));
        }
    }
}

#[cfg(all(test, rig_loom))]
mod loom_tests {
    use crate::stamp::Stamps;
    use crate::sync::Steps;
    use crate::timeline::{Access, DeviceId, Point, Track};
    use loom::sync::Arc;
    use loom::thread;

    const D: DeviceId = DeviceId(1);
    const E: DeviceId = DeviceId(2);

    struct Shared {
        stamps: Stamps,
        tracks: [Track; 2],
        steps: Steps,
    }

    impl Shared {
        fn new() -> Arc<Self> {
            let tracks = [Track::new(), Track::new()];
            Arc::new(Self { stamps: Stamps::new(), tracks, steps: Steps::default() })
        }

        /// Assigns a value and raises it, as a turn does.
        fn hand_over(&self, device: DeviceId, value: u64, access: Access) {
            self.steps.step();
            self.tracks[index(device)].assign(value);
            self.stamps.raise(Point::new(device, value), access);
            self.steps.step();
        }

        /// Returns the value of each device's last use, 0 for none.
        fn uses(&self) -> [u64; 2] {
            let mut values = [0; 2];
            self.stamps.for_each_use(|point| {
                let (value, index) = (point.value(), index(point.device_id()));
                assert_eq!(values[index], 0, "each device stands there once");
                assert!(self.tracks[index].submitted() >= value, "its value is assigned");
                values[index] = value;
            });
            values
        }

        /// Returns the value of each device's last write, if it is the last of all.
        fn write(&self) -> [u64; 2] {
            let mut values = [0; 2];
            if let Some(point) = self.stamps.write() {
                values[index(point.device_id())] = point.value();
            }
            values
        }
    }

    fn index(device: DeviceId) -> usize {
        device.index() as usize - 1
    }

    #[test]
    fn s3_2_who_sees_a_write_sees_its_use_and_values_only_grow() {
        // The device that writes has used the memory first, or the other one has.
        for (first, writer) in [(D, D), (D, E)] {
            loom::model(move || {
                let shared = Shared::new();
                shared.hand_over(first, 1, Access::Read);
                let device = Arc::clone(&shared);
                let working = thread::spawn(move || device.hand_over(writer, 2, Access::Write));
                shared.steps.step();
                let write = shared.write();
                let before = shared.uses();
                shared.steps.step();
                let after = shared.uses();
                for index in [0, 1] {
                    assert!(write[index] <= before[index], "its use is seen");
                    assert!(before[index] <= after[index], "values only grow");
                }
                working.join().unwrap();
                assert_eq!(shared.write()[index(writer)], 2);
            });
        }
    }

    #[test]
    fn s3_1_of_two_devices_that_use_the_memory_first_none_is_forgotten() {
        loom::model(|| {
            let shared = Shared::new();
            let others = [D, E].map(|device| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.hand_over(device, 1, Access::Read);
                    assert_eq!(shared.uses()[index(device)], 1);
                })
            });
            for thread in others {
                thread.join().unwrap();
            }
            assert_eq!(shared.uses(), [1, 1]);
        });
    }

    #[test]
    fn s3_3_who_sees_a_stamp_sees_its_value_assigned() {
        for first in [None, Some(D), Some(E)] {
            loom::model(move || {
                let shared = Shared::new();
                first.into_iter().for_each(|first| shared.hand_over(first, 1, Access::Read));
                let device = Arc::clone(&shared);
                let working = thread::spawn(move || device.hand_over(D, 2, Access::Read));
                shared.steps.step();
                let uses = shared.uses();
                assert!(uses[0] == 2 || uses[0] == u64::from(first == Some(D)));
                working.join().unwrap();
            });
        }
    }
}
