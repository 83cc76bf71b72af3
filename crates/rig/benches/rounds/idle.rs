//! P15: how often an idle program wakes, before its cache is trimmed and afterwards.
//!
//! Wakes are those of the tick's thread, as Linux counts them; other systems show no rows. It runs
//! first, while this device is the only one. A quick run empties the cache itself, as the whole
//! run's last part does, instead of watching the tick do it.

use crate::measure::table::{Goal, Row, head};
use crate::measure::{is_quick, null};
use rig::{Buffer, Device};
use std::time::{Duration, Instant};

pub(crate) fn run() {
    head("An idle program");
    let device = null::device();
    let live: Vec<Buffer> = (0..100).map(|_| create(&device)).collect();
    let kept = create(&device);
    drop(live);
    let start = Instant::now();
    // The first steps of the tick's pace are shorter; afterwards it looks every 5 s.
    sleep(8);
    watch("timer wakes in 5 s, before the cache is trimmed", 1.0);
    if !is_quick() {
        while device.cached() > 0 && start.elapsed() < Duration::from_secs(90) {
            std::thread::sleep(Duration::from_millis(250));
        }
        let took = start.elapsed().as_secs_f64();
        row("seconds until the tick has trimmed the cache", took, Goal::None);
        sleep(8);
        // A drop makes no call, so that whoever may drop something has to be looked after.
        watch("timer wakes in 5 s, nothing cached and one buffer live", 1.0);
    }
    drop(kept);
    device.free_cache().expect("not in a callback");
    // The next look finds that nothing is left to look after.
    sleep(6);
    watch("timer wakes in 5 s, nothing cached and nothing live", 0.0);
}

fn create(device: &Device) -> Buffer {
    device.create_buffer(1 << 20).expect("there is room")
}

fn sleep(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

fn watch(what: &str, most: f64) {
    let before = switches_of("rig-tick");
    sleep(WATCHED_S);
    if let (Some(before), Some(after)) = (before, switches_of("rig-tick")) {
        let wakes = (after - before) as f64 / WATCHED_S as f64 * 5.0;
        row(what, wakes, Goal::AtMost(most));
    }
}

fn row(what: &str, figure: f64, goal: Goal) {
    let what = what.into();
    Row { number: "P15", what, unit: "", figure, goal, rig: None, floor: None }.print();
}

/// Returns how often a thread of this process gave way so far, which it does once a wake.
fn switches_of(thread: &str) -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let folder = tasks.filter_map(|task| Some(task.ok()?.path())).find(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == thread)
    })?;
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
    line.split_whitespace().last()?.parse().ok()
}

const WATCHED_S: u64 = 10;
