//! Inputs about budgets: what makes room, what does not, and what an error says.

use crate::watch::{Running, alone, begin, rounds};
use rig::driver::Facts;
use rig::memory::{self, Options};
use rig::{Buffer, Device, Error, Report};
use rig_support::{Call, Known, Script, drain};
use std::sync::Arc;

/// A unit of the inputs' budgets of 100, such that whole tens of it fill their bins.
const UNIT: u64 = 64 << 10;

/// Numbers that repeat with their seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn memory_of(name: &str, budget_bytes: u64) -> Device {
    let options = Options { budget_bytes, ..Options::default() };
    Device::open(name, memory::opener(options)).unwrap()
}

/// Returns the numbers of an error of memory: asked, held, budget; and its report.
fn numbers(answer: rig::Result<Buffer>) -> ([u64; 3], Arc<Report>) {
    match answer {
        Err(Error::OutOfMemory { asked_bytes, held_bytes, budget_bytes, report, .. }) => {
            ([asked_bytes, held_bytes, budget_bytes], report)
        }
        other => panic!("no room was expected: {other:?}"),
    }
}

#[test]
fn s10_9_cached_memory_of_another_class_makes_room() {
    let _rounds = rounds();
    let d = Script::new("classes").facts(|facts| facts.default_budget_bytes = 100 * UNIT).open();
    let cached: Vec<_> = (0..6).map(|_| d.create_buffer(10 * UNIT).unwrap()).collect();
    drop(cached);
    drain(&d);
    assert_eq!((d.cached(), d.held()), (60 * UNIT, 60 * UNIT));
    let asked = d.create_buffer(50 * UNIT).unwrap();
    assert_eq!(d.stats().kind_counts, [0, 6, 0, 1]);
    assert_eq!((d.cached(), d.control.count(Call::Free)), (0, 6));
    assert!(d.held() >= asked.len() && d.held() <= 100 * UNIT);
}

#[test]
fn s10_9_memory_that_another_device_gives_free_in_a_round_is_served_from_the_cache() {
    let _rounds = rounds();
    let facts = |facts: &mut Facts| facts.default_budget_bytes = 10 * UNIT;
    let d = Script::new("lender").facts(facts).open();
    let other = Script::new("borrower").peers(Known::Scripted).open();
    let x = d.create_buffer(10 * UNIT).unwrap();
    let borrow = x.borrow(&other).unwrap().expect("the driver maps its peer");
    other.record_use(&[&borrow], &[]).unwrap();
    other.control.gate();
    drop((borrow, x));
    let creating = {
        let device = d.device.clone();
        begin("a create", move || device.create_buffer(10 * UNIT).map(|made| made.len()))
    };
    // Round 1 waits for the other device; the driver of this one is not asked for anything.
    other.control.await_sleeper();
    other.control.open_gate();
    assert_eq!(creating.end().unwrap(), 10 * UNIT);
    assert_eq!((d.control.count(Call::Alloc), d.control.count(Call::Free)), (1, 0));
    assert_eq!(d.stats().kind_counts, [0, 1, 1, 0]);
}

#[test]
fn s10_3_eight_threads_that_race_for_the_last_room_never_pass_the_budget() {
    let _rounds = rounds();
    const BUDGET: u64 = 1 << 20;
    let device = memory_of("racers", BUDGET);
    let racers = [1, 2, 3, 4, 5, 6, 7, 8].map(|seed| {
        let device = device.clone();
        begin("10,000 creates and drops", move || {
            let mut random = Random(seed << 32 | 0x9E37_79B9);
            let mut own = Vec::new();
            for _ in 0..10_000 {
                let len = 1 + random.below(96 << 10);
                match device.create_buffer(len) {
                    Ok(buffer) => own.push(buffer),
                    Err(Error::OutOfMemory { .. }) => own.clear(),
                    Err(other) => panic!("{other}"),
                }
                assert!(device.held() <= BUDGET);
                if own.len() > 2 {
                    own.swap_remove(random.below(3) as usize);
                }
            }
        })
    });
    racers.into_iter().for_each(Running::end);
    let stats = device.stats();
    assert!(stats.peak_held_bytes <= BUDGET, "{} of {BUDGET}", stats.peak_held_bytes);
    assert!(stats.peak_held_bytes > BUDGET / 2, "the last room was raced for");
    device.free_cache().unwrap();
    assert_eq!((device.held(), device.stats().live_bytes), (0, 0));
    device.close().unwrap();
}

#[test]
fn s0_1_after_a_caught_error_and_drops_the_same_request_succeeds_and_the_error_keeps_nothing() {
    let _rounds = rounds();
    let device = memory_of("caught", 100 * UNIT);
    let mut live: Vec<_> = (0..10).map(|_| device.create_buffer(10 * UNIT).unwrap()).collect();
    let error = device.create_buffer(50 * UNIT).expect_err("nothing is left");
    let text = error.to_string();
    let (asked, held) = (50 * UNIT, 100 * UNIT);
    assert_eq!(
        text,
        format!("out of memory on caught: {asked} bytes asked, {held} of {held} held"),
        "the text quotes the figures"
    );
    live.truncate(3);
    let again = device.create_buffer(50 * UNIT).unwrap();
    drop((live, again));
    device.free_cache().unwrap();
    assert_eq!(device.held(), 0, "the error keeps no buffer: {error}");
    device.close().unwrap();
}

#[test]
fn s11_1_an_error_quotes_what_was_held_and_what_each_round_could_not_return() {
    let _rounds = rounds();
    let device = memory_of("quoted", 100 * UNIT);
    let live: Vec<_> = (0..10).map(|_| device.create_buffer(10 * UNIT).unwrap()).collect();
    let (found, report) = numbers(device.create_buffer(50 * UNIT));
    assert_eq!(found, [50 * UNIT, 100 * UNIT, 100 * UNIT]);
    assert_eq!((report.live_bytes, report.held_bytes()), (100 * UNIT, 100 * UNIT));
    assert_eq!(report.rounds.len(), 3);
    for round in &report.rounds {
        assert_eq!((round.returned_bytes, round.kept.live_bytes), (0, 100 * UNIT));
    }
    drop(live);
    device.close().unwrap();
}

#[test]
fn s10_6_more_than_the_whole_budget_fails_at_once_and_leaves_the_cache_alone() {
    let _rounds = rounds();
    let d = Script::new("too much").facts(|facts| facts.default_budget_bytes = 100 * UNIT).open();
    drop([10, 20, 30].map(|units| d.create_buffer(units * UNIT).unwrap()));
    drain(&d);
    d.control.clear_log();
    let (found, report) = numbers(d.create_buffer(100 * UNIT + 1));
    assert_eq!(found, [100 * UNIT + 1, 60 * UNIT, 100 * UNIT]);
    assert_eq!((report.rounds.len(), d.cached()), (0, 60 * UNIT));
    assert_eq!((d.control.count(Call::Alloc), d.control.count(Call::Free)), (0, 0));
    // The cache is as useful as before.
    drop(d.create_buffer(30 * UNIT).unwrap());
    assert_eq!(d.stats().kind_counts, [1, 3, 0, 0]);
}

#[test]
fn s15_a_budget_of_1_05_times_a_steady_working_set_causes_no_driver_call_per_round() {
    let _alone = alone();
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let device = memory_of("steady", u64::MAX);
    let made = (0..40).map(|_| device.create_buffer(512 + random.below(255 << 10)).unwrap());
    let mut live: Vec<_> = made.collect();
    device.set_budget(device.held() / 20 * 21).unwrap();
    let mut gone = Vec::new();
    let mut round = || {
        // Some go, and others come in an order of their own.
        while gone.len() < 8 {
            gone.push(live.swap_remove(random.below(live.len() as u64) as usize).len());
        }
        while gone.len() > 4 {
            let len = gone.swap_remove(random.below(gone.len() as u64) as usize);
            live.push(device.create_buffer(len).unwrap());
        }
    };
    (0..100).for_each(|_| round());
    let warm = device.stats().actual_count;
    (0..1_000).for_each(|_| round());
    // The tick may have some memory in its hands at the moment that it is asked for.
    let made = device.stats().actual_count - warm;
    assert!(made < 10, "{made} driver allocations in 1,000 rounds");
    drop(live);
    device.close().unwrap();
}
