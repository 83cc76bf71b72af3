//! Goals P1 to P6, P10 and P14: the paths that programs take all the time, over memory and null
//! devices.
//!
//! Prints Markdown. `RIG_BENCH_QUICK=1` or `--quick` takes fewer rounds. Instructions are counted
//! where valgrind is installed.

#[path = "../measure/mod.rs"]
mod measure;

mod copy;
mod create;
mod submit;
mod threads;
mod waits;

use crate::measure::rounds::{Side, race};
use crate::measure::table::{Goal, Row, head};
use crate::measure::{allocations, instructions, is_quick};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// A path that is measured in time, instructions, atomic operations and allocations.
pub(crate) struct Path {
    /// The goal's number.
    pub(crate) number: &'static str,
    pub(crate) what: &'static str,
    /// The floor's name, and what the ratio to it has to be.
    pub(crate) floor: &'static str,
    pub(crate) goal: Goal,
    /// What the instructions and the atomic operations of one run have to be.
    pub(crate) instructions: Goal,
    pub(crate) atomics: Goal,
    /// The function inside of which they are counted, if not all of a run counts.
    pub(crate) within: Option<&'static str>,
    /// Makes rig's side, and the floor's.
    pub(crate) rig: fn() -> Side<'static>,
    pub(crate) bound: fn() -> Side<'static>,
}

fn paths() -> Vec<Path> {
    [create::paths(), waits::paths(), submit::paths(), copy::paths()]
        .into_iter()
        .flatten()
        .collect()
}

fn main() {
    if let Some((row, runs)) = instructions::asked() {
        let mut all = paths().into_iter().chain(create::counted_paths());
        let path = all.find(|path| path.what == row).expect("a row of this bench");
        (path.rig)()(runs);
        return;
    }
    head("Hot paths: time against the floor");
    for path in paths() {
        let mut sides = [(path.rig)(), (path.bound)()];
        let times = race(&mut sides);
        let floor = (path.floor, &times[1]);
        Row::print_ratio(path.number, path.what.into(), path.goal, &times[0], floor);
    }
    create::live();
    create::drains();
    submit::each();
    threads::run();
    counts();
}

/// Counts what time hides: heap allocations, bookkeeping, instructions.
fn counts() {
    head("Hot paths: heap allocations, instructions and atomic operations a run");
    create::bookkeeping();
    let row = |path: &Path, unit, figure, goal| {
        let what = path.what.to_owned();
        Row { number: path.number, what, unit, figure, goal, rig: None, floor: None }.print();
    };
    // A side that counts one function only allocates outside of it.
    for path in paths().into_iter().filter(|path| path.within.is_none()) {
        let mut side = (path.rig)();
        side(100);
        let count = allocations::count_in(|| {
            side(1_000);
        });
        row(&path, "allocations in 1,000 runs", count as f64, Goal::AtMost(0.0));
    }
    if !instructions::can_count() {
        println!("\nvalgrind is not installed, so instructions were not counted.");
        return;
    }
    let runs = if is_quick() { 2_000 } else { 20_000 };
    for path in paths().into_iter().chain(create::counted_paths()) {
        let runs = if path.within == Some("drain_all") { 200_000 } else { runs };
        if let Some(cost) = instructions::of(path.what, path.within, runs) {
            row(&path, "instructions", cost.instructions, path.instructions);
            row(&path, "atomic operations", cost.atomics, path.atomics);
        }
    }
}
