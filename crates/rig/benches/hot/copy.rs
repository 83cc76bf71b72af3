//! P10: what a copy by the host costs besides the move of its bytes.

use crate::Path;
use crate::measure::rounds::{Side, side};
use crate::measure::table::Goal;

pub(crate) fn paths() -> Vec<Path> {
    vec![Path {
        number: "P10",
        what: "copy of 64 bytes, host buffer to memory device",
        floor: "a copy between arrays",
        goal: Goal::None,
        instructions: Goal::None,
        atomics: Goal::None,
        within: None,
        rig: copied,
        bound: moved,
    }]
}

fn copied() -> Side<'static> {
    let device = rig::memory::open("small copies").expect("a memory device opens");
    let src = rig::host().create_buffer(LEN).expect("the host has room");
    let dst = device.create_buffer(LEN).expect("there is room");
    side(move || rig::copy(&src, &dst).expect("nothing is in the way"))
}

fn moved() -> Side<'static> {
    let (src, mut dst) = ([1_u8; LEN as usize], [0; LEN as usize]);
    side(move || std::hint::black_box(&mut dst).copy_from_slice(std::hint::black_box(&src)))
}

const LEN: u64 = 64;
