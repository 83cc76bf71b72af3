//! The end of mappings: due with the last borrow, released once the device is done, then forgotten.
//!
//! Part of a drain. The root's `extra` lock orders each change of state against borrows; the driver
//! is called with no lock held, and beside no stop.

use crate::allocation::mapping::{MapState, Mapping};
use crate::drain::{After, come_home};
use crate::sync::Ordering;
use std::sync::Arc;

/// Makes a mapping due that no borrow needs any more.
pub(crate) fn end_mapping(mapping: Arc<Mapping>) {
    let due = mapping.with_root(|root, _| {
        let mut state = mapping.state.lock();
        if *state != MapState::Live || mapping.is_wanted(root) {
            return None;
        }
        let value = mapping.due.load(Ordering::Relaxed);
        *state = MapState::Due(value);
        Some(value)
    });
    if let Some(value) = due {
        let device = Arc::clone(&mapping.device);
        device.heap.lock().unmapping.push((value, mapping));
        device.note_due();
    }
}

/// Releases a mapping that is still due at `value`; of a settled device, also one that is live.
pub(crate) fn release_mapping(mapping: &Arc<Mapping>, value: u64, after: &mut After) {
    let device = &mapping.device;
    let releases = mapping.with_root(|root, _| {
        let mut state = mapping.state.lock();
        let due = match *state {
            // A borrow that came and went since made it due later, by an entry of its own.
            MapState::Due(due) if due <= value => due,
            MapState::Live if device.track.is_settled() => 0,
            _ => return None,
        };
        let revived = mapping.is_wanted(root) && !device.track.is_settled();
        *state = if revived { MapState::Live } else { MapState::Releasing };
        (!revived).then_some(due)
    });
    let Some(due) = releases else { return };
    let entered = device.gate.enter();
    if !entered && !device.track.is_settled() {
        // Lost just now: no call comes beside the stop, after which the mapping ends.
        mapping.with_root(|_, _| *mapping.state.lock() = MapState::Due(due));
        return device.note_due();
    }
    device.driver.release(mapping.region());
    if entered {
        after.leave_gate(device);
    }
    forget_mapping(mapping, after);
}

/// Takes a mapping that is gone out of all records, and lets the memory go on its way.
pub(crate) fn forget_mapping(mapping: &Arc<Mapping>, after: &mut After) {
    mapping.device.heap.lock().maps.leave(mapping.place.load(Ordering::Relaxed));
    let parked = mapping.with_root(|root, extra| {
        *mapping.state.lock() = MapState::Released;
        extra.maps.retain(|map| !Arc::ptr_eq(map, mapping));
        let parked = extra.maps.is_empty() && std::mem::take(&mut extra.parked);
        parked.then(|| Arc::clone(root))
    });
    if let Some(root) = parked {
        come_home(&Arc::clone(&root.owner), root, after);
    }
}
