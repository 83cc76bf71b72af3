//! P14: two threads on one device.

use crate::measure::null;
use crate::measure::rounds::{Times, round_count};
use crate::measure::table::{Goal, Row, head};
use parking_lot::Mutex;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

pub(crate) fn run() {
    head("Two threads on one null device");
    let device = null::device();
    let create = || drop(black_box(device.create_buffer(LEN).expect("there is room")));
    let (one, two) = rates(&create);
    let what = "create + drop by two threads, rate over that of one".into();
    print(what, one.least() / two.least(), Goal::AtLeast(1.7), &two, ("one thread", &one));
    let prepared = null::device().prepare().build().expect("an empty submission");
    let submit = || {
        black_box(prepared.submit(&[], &[]).expect("the device is well"));
    };
    let (_, rig) = rates(&submit);
    let turn = Mutex::new(());
    let locked = || {
        let _turn = turn.lock();
        submit();
    };
    let (_, locked) = rates(&locked);
    let what = "submit by two threads, over taking turns by a mutex".into();
    print(what, rig.least() / locked.least(), Goal::AtMost(1.2), &rig, ("a mutex", &locked));
}

fn print(what: String, figure: f64, goal: Goal, rig: &Times, floor: (&str, &Times)) {
    let (rig, floor) = (Some(rig), Some(floor));
    Row { number: "P14", what, unit: "x", figure, goal, rig, floor }.print();
}

/// Runs `f` on one thread and on two, in turn; answers nanoseconds a run of all threads together.
fn rates(f: &(impl Fn() + Sync)) -> (Times, Times) {
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..round_count() {
        one.push(round(f, 1));
        two.push(round(f, 2));
    }
    (Times::of(one), Times::of(two))
}

fn round(f: &(impl Fn() + Sync), threads: u64) -> f64 {
    let ready = Barrier::new(threads as usize);
    let work = || {
        ready.wait();
        let start = Instant::now();
        (0..RUNS).for_each(|_| f());
        start.elapsed()
    };
    let took = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).max().unwrap_or_default()
    });
    took.as_nanos() as f64 / (RUNS * threads) as f64
}

const LEN: u64 = 64 << 10;
const RUNS: u64 = 30_000;
