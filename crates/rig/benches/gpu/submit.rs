//! P7: a program's own encoding, submitted and waited for; and copies that are submitted together,
//! as rig's own parts are where the program asks for it. Its own encodings are submitted at once.

use crate::measure::rounds::{Side, race, side};
use crate::measure::table::{Goal, Row};
use crate::raw::{Raw, pattern};
use rig::wgpu::encode;
use rig::{Buffer, Device, Prepared, Result};

/// One encoder with one copy, submitted and waited for: through rig, and by hand.
pub(crate) fn alone(gpu: &Device, raw: &Raw) {
    let [src, dst] = buffers(gpu);
    let copy = encode(|encoder, places| {
        let [src, dst] = places else { panic!("two buffers were named") };
        let (from, to) = (&src.buffer, &dst.buffer);
        encoder.copy_buffer_to_buffer(from, src.offset, to, dst.offset, src.len);
    });
    let work = gpu.prepare().native(copy).reads(&src).writes(&dst).build();
    let work = checked(work, &dst);
    let rig = side(move || {
        let point = work.submit(&[], &[]).expect("the device is well");
        point.wait().expect("the device is well");
    });
    let times = race(&mut [rig, raw.copy(LEN)]);
    let what = "an encoder, submitted and waited for".into();
    let floor = ("wgpu by hand", &times[1]);
    Row::print_ratio("P7", what, Goal::AtMost(1.01), &times[0], floor);
}

/// 64 values that are submitted together, for each of them.
pub(crate) fn batched(gpu: &Device) {
    let [src, dst] = buffers(gpu);
    let work = checked(gpu.prepare().copy(&src, &dst).build(), &dst);
    let rig: Side<'_> = Box::new(move |count| {
        let start = std::time::Instant::now();
        for at in 1..=count {
            let point = work.submit(&[], &[]).expect("the device is well");
            if at % BATCH == 0 || at == count {
                point.wait().expect("the device is well");
            }
        }
        start.elapsed()
    });
    let times = race(&mut [rig, Raw::of(gpu).copy(LEN)]);
    let figure = times[1].least() / times[0].least();
    let what = format!("wgpu by hand over a value of {BATCH} that are submitted together");
    let (goal, floor) = (Goal::AtLeast(8.0), Some(("wgpu by hand", &times[1])));
    Row { number: "P7", what, unit: "x", figure, goal, rig: Some(&times[0]), floor }.print();
}

/// Makes two buffers, of which the first has bytes.
fn buffers(gpu: &Device) -> [Buffer; 2] {
    let make = || gpu.create_buffer(LEN as u64).expect("there is room");
    let (src, dst) = (make(), make());
    src.blit_from(0, &pattern(LEN)).expect("the device is well");
    [src, dst]
}

/// Answers work that copies the bytes to `dst`, once it did.
fn checked(work: Result<Prepared>, dst: &Buffer) -> Prepared {
    let work = work.expect("the buffers are the device's");
    work.submit(&[], &[]).expect("the device is well");
    let mut seen = vec![0; LEN];
    dst.blit_to(0, &mut seen).expect("the device is well");
    assert!(seen == pattern(LEN), "the bytes arrived");
    work
}

const BATCH: u64 = 64;
const LEN: usize = 4 << 10;
