//! Promises of stamps, one a test.

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
