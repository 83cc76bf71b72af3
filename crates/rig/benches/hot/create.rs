//! P1 to P3: creating from the cache, dropping and draining.

use crate::Path;
use crate::measure::rounds::{Side, race, side};
use crate::measure::table::{Goal, Row, head};
use crate::measure::{Random, allocations, is_quick, null};
use parking_lot::Mutex;
use rig::{Buffer, Device};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) fn paths() -> Vec<Path> {
    vec![
        create_path("P1", "create + drop 4 KiB, memory device", 220.0, || on_memory(4 << 10)),
        create_path("P1", "create + drop 64 KiB, memory device", 220.0, || on_memory(64 << 10)),
        create_path("P1", "create + drop 4 MiB, memory device", 220.0, || on_memory(4 << 20)),
        create_path("P1", "create + drop 64 KiB, null device", 220.0, || {
            create_and_drop(null::device(), LEN)
        }),
        Path {
            number: "P3",
            what: "drop alone",
            floor: "3 atomic operations",
            goal: Goal::AtMost(1.0),
            instructions: Goal::None,
            atomics: Goal::AtMost(3.0),
            within: Some("drop_batch"),
            rig: dropped,
            bound: three_atomics,
        },
    ]
}

/// What is counted and not timed, or timed elsewhere.
pub(crate) fn counted_paths() -> Vec<Path> {
    vec![
        create_path("P2", "create + drop beside 1,000 live", 1.15 * 220.0, || {
            let device = null::device();
            let live: Vec<Buffer> = (0..1_000).map(|_| create(&device, LEN)).collect();
            let mut run = create_and_drop(device, LEN);
            Box::new(move |count| {
                black_box(&live);
                run(count)
            })
        }),
        create_path("P2", "create + drop first in, first out, of 1,000", 1.15 * 220.0, || {
            in_order(1_000)
        }),
        create_path("P2", "create + drop at random among 1,000", 1.5 * 220.0, || at_random(1_000)),
        Path {
            instructions: Goal::None,
            ..create_path("P10", "copy of 64 bytes, host buffer to memory device", 0.0, || {
                let device = rig::memory::open("hot").expect("a memory device opens");
                let (src, dst) = (create(&rig::host(), 64), create(&device, 64));
                side(move || rig::copy(&src, &dst).expect("two buffers of one length"))
            })
        },
        Path {
            number: "P3",
            instructions: Goal::None,
            within: Some("drain_all"),
            ..create_path("", "drain of 100,000 dropped, each", 0.0, drained)
        },
    ]
}

fn create_path(
    number: &'static str,
    what: &'static str,
    instructions_max: f64,
    rig: fn() -> Side<'static>,
) -> Path {
    Path {
        number,
        what,
        floor: "2 locks, pop and push",
        goal: Goal::None,
        instructions: Goal::AtMost(instructions_max),
        atomics: Goal::None,
        within: None,
        rig,
        bound: locks,
    }
}

/// The floor of create + drop: what one round trip through a cache behind a lock needs.
fn locks() -> Side<'static> {
    let cache = Mutex::new(vec![1_u64, 2, 3]);
    side(move || {
        let item = cache.lock().pop();
        cache.lock().extend(black_box(item));
    })
}

fn on_memory(len: u64) -> Side<'static> {
    let device = rig::memory::open("hot").expect("a memory device opens");
    create_and_drop(device, len)
}

fn create_and_drop(device: Device, len: u64) -> Side<'static> {
    side(move || drop(black_box(create(&device, len))))
}

fn create(device: &Device, len: u64) -> Buffer {
    device.create_buffer(len).expect("there is room")
}

/// P2: the same with many buffers live.
pub(crate) fn live() {
    head("Create + drop with many live, null device");
    let counts: &[usize] =
        if is_quick() { &[1_000, 100_000] } else { &[1_000, 100_000, 1_000_000] };
    for &count in counts {
        let device = null::device();
        let held: Vec<Buffer> = (0..count).map(|_| create(&device, LEN)).collect();
        row(count, "beside", 1.15, create_and_drop(device, LEN));
        drop(held);
        row(count, "first in, first out, of", 1.15, in_order(count));
        row(count, "at random among", 1.5, at_random(count));
    }
}

fn row(count: usize, how: &str, goal: f64, with_live: Side<'_>) {
    let mut sides = [with_live, create_and_drop(null::device(), LEN)];
    let times = race(&mut sides);
    let what = format!("create + drop {how} {count} live");
    let floor = ("none live", &times[1]);
    Row::print_ratio("P2", what, Goal::AtMost(goal), &times[0], floor);
}

fn in_order(count: usize) -> Side<'static> {
    let device = null::device();
    let mut live: VecDeque<Buffer> = (0..count).map(|_| create(&device, LEN)).collect();
    side(move || {
        drop(live.pop_front());
        live.push_back(create(&device, LEN));
    })
}

fn at_random(count: usize) -> Side<'static> {
    let device = null::device();
    let mut live: Vec<Option<Buffer>> = (0..count).map(|_| Some(create(&device, LEN))).collect();
    let mut random = Random::new(7);
    side(move || {
        let place = &mut live[random.below(count as u64) as usize];
        *place = None;
        *place = Some(create(&device, LEN));
    })
}

/// P3: a drain of many.
pub(crate) fn drains() {
    head("Drain, null device");
    let drain = &race(&mut [drained()])[0];
    Row {
        number: "P3",
        what: "drain of 100,000 dropped, each".into(),
        unit: "ns",
        figure: drain.least(),
        goal: Goal::AtMost(25.0),
        rig: Some(drain),
        floor: None,
    }
    .print();
}

/// The floor of a drop.
fn three_atomics() -> Side<'static> {
    let word = AtomicU64::new(0);
    side(move || {
        for _ in 0..3 {
            // ORDERING: as strong as a drop's own; it has no partner here.
            black_box(&word).fetch_add(1, Ordering::AcqRel);
        }
    })
}

/// Times drops alone: of batches, so that making and draining them stays outside.
fn dropped() -> Side<'static> {
    let device = null::device();
    Box::new(move |count| {
        let mut took = Duration::ZERO;
        let mut left = count;
        while left > 0 {
            let batch = left.min(BATCH);
            let held: Vec<Buffer> = (0..batch).map(|_| create(&device, LEN)).collect();
            took += drop_batch(held);
            left -= batch;
        }
        took
    })
}

/// A function of its own, by whose name its instructions are counted.
#[inline(never)]
fn drop_batch(held: Vec<Buffer>) -> Duration {
    let start = Instant::now();
    drop(held);
    start.elapsed()
}

fn drained() -> Side<'static> {
    let device = null::device();
    Box::new(move |count| {
        // Whole drains of 100,000 each; the time is scaled to what was asked.
        let mut took = Duration::ZERO;
        let drains = count.div_ceil(DRAINED);
        for _ in 0..drains {
            drop((0..DRAINED).map(|_| create(&device, LEN)).collect::<Vec<_>>());
            took += drain_all(&device);
        }
        took.mul_f64(count as f64 / (drains * DRAINED) as f64)
    })
}

/// A function of its own, by whose name its instructions are counted.
#[inline(never)]
fn drain_all(device: &Device) -> Duration {
    let start = Instant::now();
    device.set_budget(u64::MAX).expect("not in a callback");
    start.elapsed()
}

/// P1: what rig keeps for one buffer beside the driver.
pub(crate) fn bookkeeping() {
    const COUNT: u64 = 1 << 17;
    let device = null::device();
    let mut held = Vec::with_capacity(COUNT as usize);
    let before = allocations::held_bytes();
    held.extend((0..COUNT).map(|_| create(&device, LEN)));
    let each = (allocations::held_bytes() - before) as f64 / COUNT as f64;
    let what = format!("bookkeeping of a live buffer, of {COUNT}");
    let goal = Goal::AtMost(128.0);
    Row { number: "P1", what, unit: "bytes", figure: each, goal, rig: None, floor: None }.print();
}

const LEN: u64 = 64 << 10;
const BATCH: u64 = 1_000;
const DRAINED: u64 = 100_000;
