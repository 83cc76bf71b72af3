//! Promises of timelines, one a test.

use crate::timeline::{Access, DeviceId, Fate, Point, Track, VALUE_MAX, track};
use std::sync::Arc;

#[test]
fn s2_2_the_point_word_of_device_3_value_7() {
    let point = Point::new(DeviceId(3), 7);
    assert_eq!(point.word(), 0x0003_0000_0000_0007);
    assert_eq!((point.device_id(), point.value()), (DeviceId(3), 7));
    assert_eq!(Point::from_word(0), None);
    let last = Point::new(DeviceId(u16::MAX), VALUE_MAX);
    assert_eq!((last.device_id().index(), last.value()), (65_535, VALUE_MAX));
}

#[test]
fn s2_2_a_point_prints_name_and_value() {
    let id = DeviceId(u16::MAX);
    track(id).start(&Arc::from("last"), 0, false);
    let point = Point::new(id, 7);
    assert_eq!(point.to_string(), "last:7");
    assert_eq!(format!("{point:?}"), "last:7");
    // A word that a program made up names no device, and still prints.
    assert_eq!(Point::new(DeviceId(u16::MAX - 3), 7).to_string(), "?:7");
}

#[test]
fn s2_2_every_word_but_0_is_a_point_and_comes_back_the_same() {
    for device in [0, 1, 2, 0x7fff, u16::MAX] {
        for value in [0, 1, VALUE_MAX - 1, VALUE_MAX] {
            if (device, value) == (0, 0) {
                continue;
            }
            let point = Point::new(DeviceId(device), value);
            assert_eq!((point.device_id(), point.value()), (DeviceId(device), value));
            assert_eq!(Point::from_word(point.word()), Some(point));
        }
    }
    assert_eq!(VALUE_MAX, (1 << 48) - 1);
    assert_eq!(size_of::<Option<Point>>(), 8);
}

#[test]
fn s2_2_points_of_one_device_are_ordered_by_value_and_stand_together() {
    let points = [1, 2, VALUE_MAX].map(|value| Point::new(DeviceId(3), value));
    assert!(points.is_sorted());
    let next = points[2].next_device().unwrap();
    assert!(points[2].word() < next && next < Point::new(DeviceId(4), 1).word());
    assert_eq!(Point::new(DeviceId(u16::MAX), 1).next_device(), None);
}

#[test]
fn s2_3_submitted_starts_at_0_and_is_the_last_value_assigned() {
    let track = Track::new();
    track.start(&Arc::from("d"), 0, false);
    assert_eq!([track.submitted(), track.reached()], [0, 0]);
    track.assign(1);
    track.assign(2);
    assert_eq!([track.submitted(), track.reached()], [2, 0]);
}

#[test]
fn s2_3_submitted_stays_after_a_loss() {
    let track = Track::new();
    track.assign(1);
    track.lose(&Arc::from("gone"));
    track.settle();
    assert_eq!([track.submitted(), track.reached()], [1, 0]);
}

#[test]
fn s15_2_a_device_may_start_after_a_first_value() {
    let track = Track::new();
    track.start(&Arc::from("d"), VALUE_MAX - 1, false);
    assert_eq!([track.submitted(), track.reached()], [VALUE_MAX - 1; 2]);
    track.assign(VALUE_MAX);
    assert_eq!(track.fate(VALUE_MAX), Fate::Unreached);
    assert!(track.raise(VALUE_MAX));
    assert_eq!(track.fate(VALUE_MAX), Fate::Reached);
    assert!(track.lose(&Arc::from("no values left")));
    assert_eq!((track.reached(), track.is_lost()), (VALUE_MAX, true));
}

#[test]
fn s2_4_the_word_never_falls_and_never_passes_what_was_submitted() {
    let track = Track::new();
    assert!(!track.raise(1));
    track.assign(1);
    track.assign(2);
    assert!(track.raise(7));
    assert_eq!(track.reached(), 2);
    assert!(!track.raise(1));
    assert_eq!(track.reached(), 2);
}

#[test]
fn s2_8_nothing_becomes_reached_after_a_loss() {
    let track = Track::new();
    track.assign(1);
    track.assign(2);
    track.raise(1);
    assert!(track.lose(&Arc::from("first")));
    assert!(!track.lose(&Arc::from("second")));
    assert!(!track.raise(2));
    assert_eq!(track.why().as_deref(), Some("first"));
    assert_eq!([track.fate(1), track.fate(2)], [Fate::Reached, Fate::Undone]);
    track.settle();
    assert_eq!([track.fate(1), track.fate(2)], [Fate::Reached, Fate::Dropped]);
    assert_eq!(track.reached(), 1);
}

#[test]
fn s2_8_a_value_is_done_unreached_undone_or_dropped() {
    let track = Track::new();
    (1..=2).for_each(|value| track.assign(value));
    let fates = || [0, 1, 2].map(|value| track.fate(value));
    assert_eq!(fates(), [Fate::Reached, Fate::Unreached, Fate::Unreached]);
    track.raise(1);
    assert_eq!(fates(), [Fate::Reached, Fate::Reached, Fate::Unreached]);
    assert_eq!([track.is_lost(), track.is_settled()], [false, false]);
    track.lose(&Arc::from("gone"));
    assert_eq!(fates(), [Fate::Reached, Fate::Reached, Fate::Undone]);
    assert_eq!([track.is_lost(), track.is_settled()], [true, false]);
    // A stop that writes the word itself makes nothing done.
    assert!(!track.raise(2));
    track.settle();
    assert!(!track.raise(2));
    assert_eq!(fates(), [Fate::Reached, Fate::Reached, Fate::Dropped]);
    assert_eq!([track.is_lost(), track.is_settled()], [true, true]);
}

#[test]
fn s12_1_the_first_reason_is_kept_and_a_live_device_has_none() {
    let track = Track::new();
    assert_eq!(track.why(), None);
    assert_eq!(["a", "b", "a"].map(|why| track.lose(&Arc::from(why))), [true, false, false]);
    assert_eq!(track.why().as_deref(), Some("a"));
}

#[test]
fn s2_8_a_points_fate_is_its_devices() {
    let id = DeviceId(u16::MAX - 2);
    let [one, two] = [1, 2].map(|value| Point::new(id, value));
    (1..=2).for_each(|value| track(id).assign(value));
    track(id).raise(1);
    assert_eq!([one.fate(), two.fate()], [Fate::Reached, Fate::Unreached]);
    track(id).lose(&Arc::from("gone"));
    assert_eq!([one.fate(), two.fate()], [Fate::Reached, Fate::Undone]);
}

#[test]
fn s3_2_a_write_is_the_stronger_access() {
    assert_eq!(Access::Read.max(Access::Write), Access::Write);
}
