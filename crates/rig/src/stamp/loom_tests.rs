//! What threads do at once to stamps, in every order.

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
