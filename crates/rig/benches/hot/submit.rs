//! P6: a prepared submission over the driver's own entry.

use crate::Path;
use crate::measure::rounds::{Side, race, side};
use crate::measure::table::{Goal, Row, head};
use crate::measure::{instructions, is_quick, null};
use rig::driver::{Access, Driver, HandOver, Region, Span, Work};
use rig::{Buffer, CacheOptions, Prepared};
use std::hint::black_box;
use std::sync::Arc;

pub(crate) fn paths() -> Vec<Path> {
    vec![
        Path {
            number: "P6",
            what: MANY,
            floor: "the driver's entry",
            goal: Goal::None,
            instructions: Goal::AtMost(300.0),
            atomics: Goal::None,
            within: None,
            rig: || submitted(24, 2),
            bound: entry,
        },
        Path {
            number: "P6",
            what: FEW,
            floor: "the driver's entry",
            goal: Goal::None,
            instructions: Goal::None,
            atomics: Goal::None,
            within: None,
            rig: || submitted(8, 2),
            bound: entry,
        },
    ]
}

/// What each further buffer costs.
pub(crate) fn each() {
    head("Submit: each further buffer, null device");
    let times = race(&mut [submitted(24, 2), submitted(8, 2)]);
    let row = |unit, figure, goal| {
        let what = "each further buffer, 8 to 24 reads".into();
        Row { number: "P6", what, unit, figure, goal, rig: None, floor: None }.print();
    };
    row("ns", (times[0].least() - times[1].least()) / 16.0, Goal::None);
    if instructions::can_count() {
        let runs = if is_quick() { 2_000 } else { 20_000 };
        let [many, few] = [MANY, FEW].map(|what| instructions::of(what, None, runs));
        if let (Some(many), Some(few)) = (many, few) {
            let each = (many.instructions - few.instructions) / 16.0;
            row("instructions", each, Goal::AtMost(8.0));
            row("atomic operations", (many.atomics - few.atomics) / 16.0, Goal::None);
        }
    }
}

fn submitted(reads: usize, writes: usize) -> Side<'static> {
    let prepared = prepared(reads, writes);
    side(move || {
        black_box(prepared.submit(&[], &[]).expect("the device is well"));
    })
}

fn prepared(reads: usize, writes: usize) -> Prepared {
    let device = null::device();
    let make = || device.create_buffer(4 << 10).expect("there is room");
    let mut builder = device.prepare();
    for index in 0..reads + writes {
        let buffer: Buffer = make();
        builder = if index < reads { builder.reads(&buffer) } else { builder.writes(&buffer) };
    }
    builder.build().expect("the buffers are the device's")
}

/// The driver's own entry, called as rig calls it.
fn entry() -> Side<'static> {
    let null = null::Null::new(u64::MAX);
    // A device of its own, so that the word it raises is nobody's.
    let _device = null.open(CacheOptions::default());
    let driver: Arc<dyn Driver> = null;
    let span = |index| Span {
        region: Region(index, 0),
        offset: 0,
        len: 1,
        access: Access::Read,
        is_last: true,
    };
    let spans: Vec<Span> = (0..26).map(span).collect();
    side(move || {
        let work = Work { prepared: Some(0), parts: &[], spans: &spans };
        let answer = black_box(&driver).hand_over(1, &work, &[]);
        assert_eq!(answer, HandOver::Done);
    })
}

const MANY: &str = "prepared submit, 24 reads and 2 writes, null device";
const FEW: &str = "prepared submit, 8 reads and 2 writes, null device";
