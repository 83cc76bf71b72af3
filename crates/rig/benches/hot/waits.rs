//! P4 and P5: waits for what is reached already, and claims.

use crate::Path;
use crate::measure::null;
use crate::measure::rounds::{Side, side};
use crate::measure::table::Goal;
use rig::{Buffer, Device, Use};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) fn paths() -> Vec<Path> {
    let wait = |what, floor, rig, bound| Path {
        number: "P4",
        what,
        floor,
        goal: Goal::AtMost(2.0),
        instructions: Goal::None,
        atomics: Goal::AtMost(0.0),
        within: None,
        rig,
        bound,
    };
    vec![
        wait("reached wait on a point", "2 loads", on_a_point, || loads(2)),
        wait("reached wait on a buffer, to read", "5 loads", || on_buffers(1), || loads(5)),
        wait("reached wait on 24 buffers, to read", "120 loads", || on_buffers(24), || loads(120)),
        Path {
            number: "P5",
            what: "claim + release",
            floor: "2 compare-and-swaps",
            goal: Goal::None,
            instructions: Goal::None,
            atomics: Goal::AtMost(2.0),
            within: None,
            rig: claim,
            bound: swaps,
        },
    ]
}

fn on_a_point() -> Side<'static> {
    let device = null::device();
    let used = used(&device, 1);
    let point = used[0].stamps().write.expect("it was written");
    side(move || {
        black_box(point).wait().expect("it is reached");
    })
}

fn on_buffers(count: usize) -> Side<'static> {
    let device = null::device();
    let used = used(&device, count);
    side(move || {
        for buffer in &used {
            buffer.wait(Use::Read).expect("it is reached");
        }
    })
}

/// Makes buffers that work of their device has written.
fn used(device: &Device, count: usize) -> Vec<Buffer> {
    let made: Vec<Buffer> =
        (0..count).map(|_| device.create_buffer(4 << 10).expect("there is room")).collect();
    let writes: Vec<&Buffer> = made.iter().collect();
    device.record_use(&[], &writes).expect("an empty submission");
    device.wait(device.submitted()).expect("it is reached");
    made
}

/// The floor of a wait: the loads that tell that nothing has to be waited for. A point: what was
/// submitted and the word. A buffer: its claims (is it dead), its stamp, and for the device's own
/// loss and the stamp's fate the word, each looked at once, and the place of the call.
fn loads(count: usize) -> Side<'static> {
    let words: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(1)).collect();
    side(move || {
        for word in &words {
            // ORDERING: as strong as a wait's own; it has no partner here.
            black_box(word.load(Ordering::Acquire));
        }
    })
}

fn claim() -> Side<'static> {
    let device = null::device();
    let buffer = device.create_buffer(4 << 10).expect("there is room");
    side(move || drop(black_box(buffer.claim_read().expect("nobody else claims"))))
}

fn swaps() -> Side<'static> {
    let word = AtomicU64::new(0);
    side(move || {
        for (now, next) in [(0, 1), (1, 0)] {
            // ORDERING: as strong as a claim's own; it has no partner here.
            let swapped = word.compare_exchange(now, next, Ordering::AcqRel, Ordering::Acquire);
            let _ = black_box(swapped);
        }
    })
}
