//! Goals P1, P2 and P12 against a peer: CubeCL's memory pools, in one process and in turn.
//!
//! Prints Markdown. `RIG_BENCH_QUICK=1` or `--quick` takes fewer rounds. A workspace of its own
//! outside the members of rig's, so that users and tests never compile the peer.

#[path = "../../rig/benches/measure/mod.rs"]
mod measure;

mod pool;
#[path = "../../rig/benches/traces/recipe.rs"]
mod recipe;
#[allow(dead_code)]
#[path = "../../rig/benches/traces/replay.rs"]
mod replay;
#[path = "../../rig/benches/traces/trace.rs"]
mod trace;

use crate::measure::rounds::{Side, Times, race, side};
use crate::measure::table::{Goal, Row, head};
use crate::measure::{is_quick, null};
use crate::pool::Pool;
use crate::replay::replay;
use crate::trace::{Event, Trace};
use rig::{CacheOptions, Device};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

fn main() {
    head("Create + drop from the cache, beside CubeCL 0.6's pools, null device and storage");
    for len in [4 << 10, 64 << 10, 4 << 20] {
        one(len);
    }
    let counts: &[usize] = if is_quick() { &[1_000] } else { &[1_000, 10_000] };
    for &count in counts {
        in_order(count);
    }
    let all = trace::all();
    peaks(&all);
    events(&all);
}

/// P1: at most 0.35 of the exclusive pool.
fn one(len: u64) {
    let (exclusive, adaptive) = (Pool::exclusive(), Pool::adaptive());
    let mut sides = [rig_one(len), pool_one(exclusive, len), pool_one(adaptive, len)];
    let [rig, exclusive, adaptive] = &race(&mut sides)[..] else { return };
    let row = |goal, name, peer: &Times| {
        let what = format!("create + drop {} KiB", len >> 10);
        Row::print_ratio("P1", what, goal, rig, (name, peer));
    };
    row(Goal::AtMost(0.35), "exclusive pool", exclusive);
    row(Goal::None, "adaptive pool", adaptive);
}

fn rig_one(len: u64) -> Side<'static> {
    let device = null::device();
    side(move || drop(black_box(device.create_buffer(len).expect("there is room"))))
}

fn pool_one(mut pool: Pool, len: u64) -> Side<'static> {
    side(move || drop(black_box(pool.reserve(len))))
}

/// P2: churn, first in, first out.
fn in_order(count: usize) {
    let (device, mut pool) = (null::device(), Pool::exclusive());
    let create = |device: &Device| device.create_buffer(LEN).expect("there is room");
    let mut live: VecDeque<_> = (0..count).map(|_| create(&device)).collect();
    let mut slices: VecDeque<_> = (0..count).map(|_| pool.reserve(LEN)).collect();
    let rig = side(move || {
        drop(live.pop_front());
        live.push_back(create(&device));
    });
    let peer = side(move || {
        drop(slices.pop_front());
        slices.push_back(pool.reserve(LEN));
    });
    let times = race(&mut [rig, peer]);
    let what = format!("create + drop, first in, first out, of {count} live");
    Row::print_ratio("P2", what, Goal::None, &times[0], ("exclusive pool", &times[1]));
}

/// P12: no trace worse than the exclusive pool.
fn peaks(all: &[Trace]) {
    head("Traces: peak held over peak live, rig's default settings over CubeCL's exclusive pool");
    let mut sums = [0.0; 3];
    let counted: Vec<&Trace> = all.iter().filter(|trace| !trace.is_small).collect();
    for trace in &counted {
        let live = trace.peak_live_bytes() as f64;
        let rig = replay(trace, CacheOptions::default()).peak_over_live(trace);
        let (mut exclusive, mut adaptive) = (Pool::exclusive(), Pool::adaptive());
        let peers = [&mut exclusive, &mut adaptive].map(|pool| {
            run(trace, pool);
            pool.peak_held_bytes() as f64 / live
        });
        for (sum, peak) in sums.iter_mut().zip([rig, peers[0], peers[1]]) {
            *sum += peak.ln() / counted.len() as f64;
        }
        let of = |goal, name: &str, peer: f64| {
            let what = format!("{}: {rig:.2}, {name} pool {peer:.2}", trace.name);
            row(what, "x", rig / peer, goal);
        };
        of(Goal::AtMost(1.0), "exclusive", peers[0]);
        of(Goal::None, "adaptive", peers[1]);
    }
    let [rig, exclusive, adaptive] = sums.map(f64::exp);
    row("geometric mean, rig".into(), "x", rig, Goal::AtMost(1.25));
    row("geometric mean, exclusive pool".into(), "x", exclusive, Goal::None);
    row("geometric mean, adaptive pool".into(), "x", adaptive, Goal::None);
}

/// P12: the bookkeeping of an event, against the adaptive pool.
fn events(all: &[Trace]) {
    head("Traces: nanoseconds an event, over CubeCL's adaptive pool");
    for trace in all.iter().filter(|trace| !trace.is_small) {
        let count = trace.events.len() as f64;
        let (mut rig, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..if is_quick() { 1 } else { 5 } {
            rig.push(replay(trace, CacheOptions::default()).ns_an_event);
            let mut pool = Pool::adaptive();
            let start = Instant::now();
            run(trace, &mut pool);
            peer.push(start.elapsed().as_nanos() as f64 / count);
        }
        let (rig, peer) = (Times::of(rig), Times::of(peer));
        let goal = Goal::AtMost(0.05);
        Row::print_ratio("P12", trace.name.clone(), goal, &rig, ("adaptive pool", &peer));
    }
}

fn run(trace: &Trace, pool: &mut Pool) {
    let mut live: Vec<_> = (0..trace.creates()).map(|_| None).collect();
    for event in &trace.events {
        match *event {
            Event::Create { id, len } => live[id] = Some(pool.reserve(len)),
            Event::Drop { id } => live[id] = None,
        }
    }
}

fn row(what: String, unit: &str, figure: f64, goal: Goal) {
    Row { number: "P12", what, unit, figure, goal, rig: None, floor: None }.print();
}

const LEN: u64 = 64 << 10;
