//! P9: copies between the host and a GPU through staging.

use crate::measure::rounds::{Side, Times, race, side};
use crate::measure::table::{Goal, Row};
use crate::raw::{Raw, memcpy, pattern};
use crate::size;
use rig::{Buffer, Device};

/// From the host to the GPU.
pub(crate) fn up(gpu: &Device, raw: &Raw, len: usize, how: &str) {
    let (src, dst) = (host(len), gpu.create_buffer(len as u64).expect("there is room"));
    let from = pattern(len);
    let mut sides = [copies(&src, &dst), memcpy(len), raw.write_buffer(&from), raw.belt(&from)];
    assert!(bytes(&dst) == from, "the bytes arrived");
    let times = race(&mut sides);
    let what = |beside: &str| format!("up {}{how}, {beside}", size(len));
    let row =
        |beside: &str, goal, floor: (&str, &Times)| print(what(beside), goal, &times[0], floor);
    let (share, wide) = goals(len);
    row("share of memcpy", share, ("memcpy", &times[1]));
    let most = if wide { [7.0, 1.3] } else { [1.0, 1.0] };
    row("over write_buffer", Goal::AtLeast(most[0]), ("write_buffer", &times[2]));
    row("over StagingBelt", Goal::AtLeast(most[1]), ("StagingBelt", &times[3]));
}

/// From the GPU to the host.
pub(crate) fn down(gpu: &Device, raw: &Raw, len: usize, how: &str) {
    let src = gpu.create_buffer(len as u64).expect("there is room");
    src.blit_from(0, &pattern(len)).expect("the device is well");
    let dst = host(len);
    dst.fill(0).expect("nobody claims it");
    let mut sides = [copies(&src, &dst), memcpy(len), raw.readback(len)];
    assert!(bytes(&dst) == pattern(len), "the bytes arrived");
    let times = race(&mut sides);
    let what = |beside: &str| format!("down {}{how}, {beside}", size(len));
    let (share, wide) = goals(len);
    print(what("share of memcpy"), share, &times[0], ("memcpy", &times[1]));
    let most = Goal::AtLeast(if wide { 2.8 } else { 1.0 });
    print(what("over the textbook readback"), most, &times[0], ("readback", &times[2]));
}

/// What staging holds after all of them.
pub(crate) fn held(gpu: &Device) {
    let figure = rig::host().stats().staging_bytes as f64 / f64::from(1 << 20);
    // Where a bus carries copies, halves are 32 MiB each.
    let shares = gpu.facts().half_bytes <= 4 << 20;
    // Two devices were used: with the host's halves, and with halves of its own.
    let goal = if shares { Goal::AtMost(32.0) } else { Goal::None };
    let what = "staging of two devices, at most 16 MiB each where memory is shared".into();
    Row { number: "P9", what, unit: "MiB", figure, goal, rig: None, floor: None }.print();
}

/// The share of memcpy's rate that is wanted at a size, and whether it is the largest.
fn goals(len: usize) -> (Goal, bool) {
    (if len >= 16 << 20 { Goal::AtLeast(0.7) } else { Goal::None }, len >= 256 << 20)
}

fn print(what: String, goal: Goal, rig: &Times, floor: (&str, &Times)) {
    let figure = floor.1.least() / rig.least();
    let (rig, floor) = (Some(rig), Some(floor));
    Row { number: "P9", what, unit: "x", figure, goal, rig, floor }.print();
}

/// Copies from one buffer to another, again and again, the first time before it is timed.
pub(crate) fn copies(src: &Buffer, dst: &Buffer) -> Side<'static> {
    let (src, dst) = (src.clone(), dst.clone());
    rig::copy(&src, &dst).expect("two buffers of one length");
    side(move || rig::copy(&src, &dst).expect("two buffers of one length"))
}

/// Makes a host buffer with bytes in it.
pub(crate) fn host(len: usize) -> Buffer {
    let buffer = rig::host().create_buffer(len as u64).expect("there is room");
    buffer.blit_from(0, &pattern(len)).expect("nobody claims it");
    buffer
}

pub(crate) fn bytes(buffer: &Buffer) -> Vec<u8> {
    let mut out = vec![0; buffer.len() as usize];
    buffer.blit_to(0, &mut out).expect("the device is well");
    out
}
