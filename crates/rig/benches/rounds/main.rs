//! Goals P13 and P15: rounds of reclaim, and what an idle program costs.
//!
//! Prints Markdown. `RIG_BENCH_QUICK=1` or `--quick` takes fewer rounds and fewer live buffers, and
//! watches the idle program for half a minute instead of one.

#[path = "../measure/mod.rs"]
mod measure;

mod idle;

use crate::measure::null::Null;
use crate::measure::rounds::{Times, race, round_count, side};
use crate::measure::table::{Goal, Row, head};
use crate::measure::{is_quick, null};
use rig::driver::{Alloc, Ask, Driver, Kind, Region};
use rig::{Buffer, CacheOptions, Device, Error};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() {
    idle::run();
    head("Rounds");
    one_round();
    for len in [256 << 10, 8 << 20] {
        many_returned(len);
    }
    after_out_of_memory();
}

/// P13: a round with a million live and ten cached.
fn one_round() {
    let count = if is_quick() { 100_000 } else { 1_000_000 };
    let device = null::device();
    let live: Vec<Buffer> = (0..count).map(|_| create(&device, LEN)).collect();
    let mut times = Vec::new();
    for _ in 0..round_count() {
        let served = timed_round(&device, 10, LEN, |_| {});
        times.push(served.as_nanos() as f64);
    }
    drop(live);
    let times = &Times::of(times);
    let what = format!("a create served by a round, {count} live and 10 cached");
    let figure = times.least() / 1e3;
    let (rig, goal) = (Some(times), Goal::AtMost(10.0));
    Row { number: "P13", what, unit: "us", figure, goal, rig, floor: None }.print();
}

/// Fills a device's cache, leaves no room and times a create, of twice the length of what is
/// cached, that a round has to serve.
fn timed_round(device: &Device, cached: usize, len: u64, fill: impl Fn(&Buffer)) -> Duration {
    let asked = 2 * len;
    device.set_budget(u64::MAX).expect("not in a callback");
    device.free_cache().expect("not in a callback");
    let kept: Vec<Buffer> = (0..cached).map(|_| create(device, len)).collect();
    kept.iter().for_each(fill);
    drop(kept);
    device.set_budget(device.held()).expect("not in a callback");
    assert_eq!(device.cached(), cached as u64 * len, "they wait in the cache");
    let start = Instant::now();
    let served = create(device, asked);
    let took = start.elapsed();
    assert!(device.cached() == 0 && served.len() == asked, "a round emptied the cache");
    took
}

/// P13: a round that returns many entries, against the driver's own frees and one allocation.
fn many_returned(len: u64) {
    let device = rig::memory::open("rounds").expect("a memory device opens");
    let driver = rig::drivers::memory::driver(rig::drivers::memory::Options::default());
    let (mut rig, mut raw) = (Vec::new(), Vec::new());
    for _ in 0..2 * round_count() {
        let touch = |buffer: &Buffer| buffer.fill(1).expect("nobody claims it");
        rig.push(timed_round(&device, MANY, len, touch).as_nanos() as f64);
        raw.push(raw_frees(&driver, len).as_nanos() as f64);
    }
    let (rig, raw) = (Times::of(rig), Times::of(raw));
    let what = format!("a create served by a round, returns {MANY} touched of {} KiB", len >> 10);
    Row::print_ratio("P13", what, Goal::AtMost(1.05), &rig, ("the driver's calls", &raw));
}

fn raw_frees(driver: &Arc<dyn Driver>, len: u64) -> Duration {
    let regions: Vec<Region> = (0..MANY).map(|_| region(driver, len)).collect();
    for region in &regions {
        driver.bytes(*region).expect("the host addresses it").fill_mixed(1);
    }
    let start = Instant::now();
    regions.into_iter().for_each(|region| driver.free(region));
    let last = black_box(region(driver, 2 * len));
    let took = start.elapsed();
    driver.free(last);
    took
}

fn region(driver: &Arc<dyn Driver>, len_bytes: u64) -> Region {
    match driver.alloc(Ask { kind: Kind::Device, len_bytes, paged: false }) {
        Alloc::Ready(region) => region,
        other => panic!("there is room: {other:?}"),
    }
}

/// P13: creating from the cache right after an `OutOfMemory`, against before.
fn after_out_of_memory() {
    let before = null::device();
    let after = Null::new(u64::MAX).open(CacheOptions::default());
    after.set_budget(64 * LEN).expect("not in a callback");
    let all: Vec<Buffer> = (0..64).map(|_| create(&after, LEN)).collect();
    assert!(matches!(after.create_buffer(LEN), Err(Error::OutOfMemory { .. })), "it is full");
    drop(all);
    let run = |device: Device| side(move || drop(black_box(create(&device, LEN))));
    let times = race(&mut [run(after), run(before)]);
    let what = "create + drop right after an OutOfMemory".into();
    let floor = ("without one", &times[1]);
    Row::print_ratio("P13", what, Goal::AtMost(1.05), &times[0], floor);
}

fn create(device: &Device, len: u64) -> Buffer {
    device.create_buffer(len).expect("there is room")
}

const LEN: u64 = 256 << 10;
const MANY: usize = 64;
