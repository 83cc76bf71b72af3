//! Goals P10 and P11: copies that the host does itself, and copies and fills at odd offsets, on a
//! memory device.
//!
//! Prints Markdown. `RIG_BENCH_QUICK=1` or `--quick` takes fewer rounds and leaves 256 MiB out.
//! Every page was touched, and what is copied is no zeros; each copy's result is checked once.

#[path = "../measure/mod.rs"]
mod measure;

use crate::measure::is_quick;
use crate::measure::rounds::{Side, Times, race, side};
use crate::measure::table::{Goal, Row, head};
use rig::{Buffer, Device};
use std::hint::black_box;

fn main() {
    let device = rig::memory::open("copies").expect("a memory device opens");
    head("Copies by the host: share of memcpy's rate");
    let staged = rig::host().stats().staging_bytes;
    let sizes: &[usize] = if is_quick() {
        &[64 << 10, 1 << 20, 16 << 20]
    } else {
        &[64 << 10, 1 << 20, 16 << 20, 256 << 20]
    };
    for &len in sizes {
        onto_device(&device, len);
        through_borrow(&device, len);
    }
    assert_eq!(rig::host().stats().staging_bytes, staged, "nothing was staged");
    head("Odd offsets on a memory device, against aligned ones");
    for len in [128 << 10, 1 << 20, 16 << 20] {
        odd_copy(&device, len);
        odd_fill(&device, len);
    }
}

/// P10: from a host buffer to memory of a device that the host addresses.
fn onto_device(device: &Device, len: usize) {
    let (src, dst) = (filled(&rig::host(), len), filled(device, len));
    share("host buffer to memory device", len, copies(&src, &dst));
}

/// P10: through a borrow of device memory on the host.
fn through_borrow(device: &Device, len: usize) {
    let (src, dst) = (filled(device, len), filled(&rig::host(), len));
    let borrow = src.borrow(&rig::host()).expect("the device is well").expect("it is addressed");
    share("borrow of memory device to host buffer", len, copies(&borrow, &dst));
}

fn share(what: &str, len: usize, rig: Side<'_>) {
    let times = race(&mut [rig, memcpy(len)]);
    let figure = times[1].least() / times[0].least();
    row("P10", format!("{what}, {}", size(len)), figure, Goal::AtLeast(0.97), &times, "memcpy");
}

/// P11: a copy between odd offsets.
fn odd_copy(device: &Device, len: usize) {
    let (src, dst) = (filled(device, len + 64), filled(device, len + 64));
    let at = |buffer: &Buffer, offset| buffer.view(offset, len as u64).expect("it is within");
    let times = race(&mut [copies(&at(&src, 1), &at(&dst, 3)), copies(&at(&src, 0), &at(&dst, 0))]);
    let figure = times[0].least() / times[1].least();
    let what = format!("copy from offset 1 to offset 3, {}", size(len));
    row("P11", what, figure, Goal::AtMost(1.2), &times, "aligned");
}

/// P11: a fill of an odd length at an odd offset.
fn odd_fill(device: &Device, len: usize) {
    let buffer = filled(device, len + 64);
    let fills = |offset, len: usize| {
        let view = buffer.view(offset, len as u64).expect("it is within");
        side(move || view.fill(7).expect("nobody claims it"))
    };
    let times = race(&mut [fills(3, len + 5), fills(0, len)]);
    let figure = times[0].least() / times[1].least();
    let what = format!("fill of 5 bytes more at offset 3, {}", size(len));
    row("P11", what, figure, Goal::AtMost(1.2), &times, "aligned");
}

/// Copies from one buffer to another, again and again, once its result was checked.
fn copies(src: &Buffer, dst: &Buffer) -> Side<'static> {
    let (src, dst) = (src.clone(), dst.clone());
    rig::copy(&src, &dst).expect("two buffers of one length");
    let bytes = |buffer: &Buffer| buffer.read(<[u8]>::to_vec).expect("the host addresses it");
    assert!(bytes(&src) == bytes(&dst), "the bytes arrived");
    side(move || rig::copy(&src, &dst).expect("two buffers of one length"))
}

/// The floor: the library's copy between memory of the same kind.
fn memcpy(len: usize) -> Side<'static> {
    let buffers = [filled(&rig::host(), len), filled(&rig::host(), len)];
    Box::new(move |count| {
        let [src, dst] = &buffers;
        let run = |from: &[u8], into: &mut [u8]| {
            let start = std::time::Instant::now();
            for _ in 0..count {
                black_box(&mut *into).copy_from_slice(black_box(from));
            }
            start.elapsed()
        };
        let inside = dst.write(|into| src.read(|from| run(from, into)));
        inside.and_then(|took| took).expect("nobody else has them")
    })
}

/// Makes a buffer whose bytes differ from page to page.
fn filled(device: &Device, len: usize) -> Buffer {
    let buffer = device.create_buffer(len as u64).expect("there is room");
    let fill = |bytes: &mut [u8]| {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = (at * 31 + at / 251) as u8 | 1;
        }
    };
    buffer.write(fill).expect("the host addresses it");
    buffer
}

fn row(number: &str, what: String, figure: f64, goal: Goal, times: &[Times], floor: &str) {
    let (rig, floor) = (Some(&times[0]), Some((floor, &times[1])));
    Row { number, what, unit: "x", figure, goal, rig, floor }.print();
}

fn size(len: usize) -> String {
    if len >= 1 << 20 { format!("{} MiB", len >> 20) } else { format!("{} KiB", len >> 10) }
}
