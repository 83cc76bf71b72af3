//! P10 and P11: copies that pass through no staging, and those at odd offsets.

use crate::measure::rounds::{Side, Times, race, side};
use crate::measure::table::{Goal, Row};
use crate::raw::{Raw, memcpy, pattern};
use crate::size;
use crate::staged::{bytes, copies, host};
use rig::{Buffer, Device};

/// P10: by the GPU, through a borrow of the host's own pages; also beside what bounds it, a copy
/// that wgpu submits and waits for.
pub(crate) fn through_borrow(gpu: &Device, raw: &Raw, len: usize) {
    let (src, dst) = (host(len), gpu.create_buffer(len as u64).expect("there is room"));
    let Some(borrow) = src.borrow(gpu).expect("the device is well") else {
        println!("no row for a borrow of {}: the GPU maps no host memory", size(len));
        return;
    };
    let staged = rig::host().stats().staging_bytes;
    let rig = copies(&borrow, &dst);
    assert!(bytes(&dst) == pattern(len), "the bytes arrived");
    let times = race(&mut [rig, memcpy(len), raw.copy(len)]);
    assert!(rig::host().stats().staging_bytes <= staged.max(16 << 20), "the copies staged nothing");
    let what = |beside: &str| format!("through a borrow, {}{beside}", size(len));
    share(what(""), &times[0], ("memcpy", &times[1]));
    share(what(", over a copy by wgpu alone"), &times[0], ("copy, submit, wait", &times[2]));
}

/// P10: by the host, into memory of a GPU that it addresses.
pub(crate) fn mapped(gpu: &Device, raw: &Raw, len: usize) {
    let (src, dst) = (host(len), gpu.create_buffer(len as u64).expect("there is room"));
    let before = gpu.submitted();
    let rig = copies(&src, &dst);
    let times = race(&mut [rig, memcpy(len), raw.mapped(&pattern(len))]);
    assert!(gpu.submitted() == before, "the host copied");
    assert!(bytes(&dst) == pattern(len), "the bytes arrived");
    let what = |beside: &str| format!("into mapped memory, {}{beside}", size(len));
    share(what(""), &times[0], ("memcpy", &times[1]));
    let figure = times[2].least() / times[0].least();
    let (goal, what) = (Goal::AtLeast(1.0), what(", over a map by hand"));
    let (rig, floor) = (Some(&times[0]), Some(("map, store, unmap", &times[2])));
    Row { number: "P10", what, unit: "x", figure, goal, rig, floor }.print();
}

fn share(what: String, rig: &Times, floor: (&str, &Times)) {
    let figure = floor.1.least() / rig.least();
    let (goal, rig, floor) = (Goal::AtLeast(0.97), Some(rig), Some(floor));
    Row { number: "P10", what, unit: "x", figure, goal, rig, floor }.print();
}

/// P11: copies on the GPU whose ends agree modulo 4, and whose ends do not.
pub(crate) fn odd_copies(gpu: &Device, len: usize) {
    let make = || gpu.create_buffer(len as u64 + 64).expect("there is room");
    let (src, dst) = (make(), make());
    src.blit_from(0, &pattern(len + 64)).expect("the device is well");
    for (from, to) in [(1, 5), (1, 3)] {
        let copy = |from, to| {
            let at = |buffer: &Buffer, offset| buffer.view(offset, len as u64);
            let src = at(&src, from).expect("it is within");
            copies(&src, &at(&dst, to).expect("it is within"))
        };
        let odd = copy(from, to);
        let arrived = bytes(&dst.view(to, len as u64).expect("it is within"));
        assert!(arrived == pattern(len + 64)[from as usize..][..len], "the bytes arrived");
        let times = race(&mut [odd, copy(0, 0)]);
        row(format!("copy from offset {from} to offset {to}, {}", size(len)), &times);
    }
}

/// P11: a fill of an odd length at an odd offset.
pub(crate) fn odd_fill(gpu: &Device, len: usize) {
    let buffer = gpu.create_buffer(len as u64 + 64).expect("there is room");
    let fills = |offset, len: usize| -> Side<'static> {
        let view = buffer.view(offset, len as u64).expect("it is within");
        side(move || view.fill(7).expect("nobody claims it"))
    };
    let times = race(&mut [fills(3, len + 5), fills(0, len)]);
    assert!(bytes(&buffer)[..len + 8].iter().all(|byte| *byte == 7), "the bytes arrived");
    row(format!("fill of 5 bytes more at offset 3, {}", size(len)), &times);
}

fn row(what: String, times: &[Times]) {
    Row::print_ratio("P11", what, Goal::AtMost(1.2), &times[0], ("aligned", &times[1]));
}
