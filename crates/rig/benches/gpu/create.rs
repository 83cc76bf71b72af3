//! P1 and P2: buffers from the cache of a GPU.

use crate::measure::rounds::{Side, race, side};
use crate::measure::table::{Goal, Row};
use crate::measure::{Random, is_quick};
use crate::raw::Raw;
use crate::size;
use rig::{Buffer, Device};
use std::collections::VecDeque;
use std::hint::black_box;

/// P1: create + drop beside wgpu's own.
pub(crate) fn beside_wgpu(gpu: &Device, raw: &Raw) {
    for len in [4 << 10, 64 << 10, 4 << 20] {
        let own = || drop(black_box(raw.plain(len)));
        let times = race(&mut [create_and_drop(gpu, len), side(own)]);
        let what = format!("create + drop {}", size(len));
        let floor = ("wgpu create + drop", &times[1]);
        Row::print_ratio("P1", what, Goal::AtMost(0.06), &times[0], floor);
    }
}

/// P2: the same with many buffers live.
pub(crate) fn with_live(gpu: &Device) {
    let counts: &[usize] = if is_quick() { &[1_000] } else { &[1_000, 100_000] };
    for &count in counts {
        let held: Vec<Buffer> = (0..count).map(|_| create(gpu, LEN)).collect();
        row(count, "beside", 1.15, gpu, create_and_drop(gpu, LEN));
        drop(held);
        row(count, "first in, first out, of", 1.15, gpu, in_order(gpu, count));
        row(count, "at random among", 1.5, gpu, at_random(gpu, count));
        gpu.free_cache().expect("not in a callback");
    }
}

fn row(count: usize, how: &str, goal: f64, gpu: &Device, with_live: Side<'_>) {
    // The other side's bin is one of its own, with nothing live.
    let times = race(&mut [with_live, create_and_drop(gpu, 2 * LEN)]);
    let what = format!("create + drop {how} {count} live");
    let floor = ("none live", &times[1]);
    Row::print_ratio("P2", what, Goal::AtMost(goal), &times[0], floor);
}

fn create_and_drop(gpu: &Device, len: usize) -> Side<'_> {
    side(move || drop(black_box(create(gpu, len))))
}

fn in_order(gpu: &Device, count: usize) -> Side<'_> {
    let mut live: VecDeque<Buffer> = (0..count).map(|_| create(gpu, LEN)).collect();
    side(move || {
        drop(live.pop_front());
        live.push_back(create(gpu, LEN));
    })
}

fn at_random(gpu: &Device, count: usize) -> Side<'_> {
    let mut live: Vec<Option<Buffer>> = (0..count).map(|_| Some(create(gpu, LEN))).collect();
    let mut random = Random::new(7);
    side(move || {
        let place = &mut live[random.below(count as u64) as usize];
        *place = None;
        *place = Some(create(gpu, LEN));
    })
}

fn create(gpu: &Device, len: usize) -> Buffer {
    gpu.create_buffer(len as u64).expect("there is room")
}

/// Small, so that 100,000 of them fit any GPU.
const LEN: usize = 512;
