//! What a program that goes on for long leaves in its process: nothing.
//!
//! The process's memory is looked at, so nothing else runs in it: each test runs this program
//! again, for itself alone. `RIG_LONG=1` makes them as long as the specification says; a software
//! GPU takes minutes for that.

use crate::found::{open, open_each, open_importing, skipped};
use crate::gate::Gate;
use rig::bytes::page_bytes;
use rig::{Buffer, Device, run};
use rig_support::{drain, look};
use std::process::Command;

/// Runs `piece` in a process of its own; `name` is the test's. What it prints is passed on.
pub(crate) fn alone(name: &str, piece: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        piece();
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(ALONE, "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    print!("{text}");
}

/// Returns how often to run something: as often as usual, or as `RIG_LONG=1` wants.
pub(crate) fn long(usual: u64, long: u64) -> u64 {
    let is_long = std::env::var("RIG_LONG").is_ok_and(|value| value == "1");
    if is_long { long } else { usual }
}

/// Lets this process have `more` bytes of addresses more than it has, from now on; says aloud where
/// that cannot be.
pub(crate) fn limit_memory(more: u64) -> bool {
    let limited = memory_bytes().is_some_and(|(all, _)| {
        let (pid, limit) = (std::process::id().to_string(), format!("--as={}", all + more));
        let set = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        set.is_ok_and(|status| status.success())
    });
    if !limited {
        skipped("this system limits no process's memory");
    }
    limited
}

/// Returns the bytes of addresses that this process has, and of memory behind them.
fn memory_bytes() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_whitespace().map_while(|pages| pages.parse::<u64>().ok());
    Some((pages.next()? * page_bytes(), pages.next()? * page_bytes()))
}

/// Runs `f` for each of the rounds, and asks that those after the first tenth take no memory.
fn stays_flat(rounds: u64, slack: u64, mut f: impl FnMut(u64)) {
    let mut before = None;
    for round in 0..rounds {
        if round == rounds / 10 {
            before = memory_bytes();
        }
        f(round);
    }
    let (Some((_, before)), Some((_, after))) = (before, memory_bytes()) else {
        return skipped("this system does not tell what memory a process has");
    };
    let grown = after.saturating_sub(before);
    println!("{rounds} rounds: {before} bytes, then {after}");
    assert!(grown <= slack, "{rounds} rounds took {grown} bytes");
}

/// Creates, uses and drops buffers, 64 a submission, and waits for nothing.
fn create_use_drop(d: &Device, count: u64) {
    let fills = (0..64).fold(d.prepare(), |parts, at| parts.fill(run(at), 0)).build().unwrap();
    stays_flat(count / 64, 8 << 20, |_| {
        let made: Vec<Buffer> = (0..64).map(|_| d.create_buffer(4096).unwrap()).collect();
        fills.submit(&made.iter().collect::<Vec<_>>(), &[]).unwrap();
    });
}

#[test]
fn s9_3_a_million_buffers_made_used_and_dropped_leave_the_process_as_it_was() {
    let name = "process::s9_3_a_million_buffers_made_used_and_dropped_leave_the_process_as_it_was";
    alone(name, || {
        for d in open_each("a million") {
            create_use_drop(&d, long(200_000, 1_000_000));
            d.wait(d.submitted()).unwrap();
            drain(&d);
            assert!(d.held() <= 64 * 64 * 4096, "{} are held", d.held());
        }
    });
}

#[test]
fn s12_5_a_device_opened_used_and_closed_fifty_times_leaves_the_process_as_it_was() {
    let name =
        "process::s12_5_a_device_opened_used_and_closed_fifty_times_leaves_the_process_as_it_was";
    alone(name, || {
        if open("one of fifty").is_none() {
            return;
        }
        stays_flat(50, 16 << 20, |_| {
            let d = open("one of fifty").unwrap();
            let x = d.create_buffer(1 << 20).unwrap();
            x.blit_from(3, &[9; 100]).unwrap();
            let mut out = [0; 100];
            x.blit_to(3, &mut out).unwrap();
            assert_eq!(out, [9; 100]);
            d.close().unwrap();
            drop(x);
            drain(&d);
            assert_eq!(d.held(), 0);
        });
    });
}

#[test]
fn s7_5_uploads_that_nobody_waits_for_stay_within_the_halves() {
    let name = "process::s7_5_uploads_that_nobody_waits_for_stay_within_the_halves";
    alone(name, || {
        let Some(d) = open("uploads") else { return };
        let (x, half) = (d.create_buffer(4096).unwrap(), d.facts().half_bytes);
        let count = long(10_000, 100_000);
        stays_flat(count, 8 << 20, |round| {
            x.blit_from(round % 1_000, &round.to_ne_bytes()).unwrap();
        });
        let staging = rig::host().stats().staging_bytes;
        assert!(staging <= 4 * half, "{staging} bytes of staging");
        let made = d.stats().actual_count;
        assert!(made <= 1 + 4, "{made} allocations");
        let mut last = [0; 8];
        x.blit_to((count - 1) % 1_000, &mut last).unwrap();
        assert_eq!(u64::from_ne_bytes(last), count - 1);
    });
}

/// Uploads one byte more than a piece.
fn upload(d: &Device, x: &Buffer, round: u8) {
    let bytes = vec![round; d.facts().piece_bytes as usize + 1];
    x.blit_from(0, &bytes).unwrap();
    let mut last = [0; 2];
    x.blit_to(bytes.len() as u64 - 2, &mut last).unwrap();
    assert_eq!(last, [round; 2]);
}

#[test]
fn s7_8_staging_falls_again_after_uploads_that_found_no_half() {
    let name = "process::s7_8_staging_falls_again_after_uploads_that_found_no_half";
    alone(name, || {
        // They share the host's halves.
        let all = ["falls again", "holds a half", "holds another"].map(open_importing);
        let [Some(d), Some(e), Some(f)] = all else { return };
        let staging = || rig::host().stats().staging_bytes;
        let x = d.create_buffer(2 * d.facts().piece_bytes).unwrap();
        (0..8).for_each(|round| upload(&d, &x, round));
        // Two calls that nobody polls hold a half each, and so both slots.
        let held = [e, f].map(|device| {
            let y = device.create_buffer(8).unwrap();
            let gate = Gate::shut(&device)?;
            let future = Box::pin(async move { y.blit_to_async(0, &mut [0; 8]).await });
            Some((gate, future))
        });
        let [Some(mut one), Some(mut other)] = held else { return };
        assert!(look(one.1.as_mut()).is_pending() && look(other.1.as_mut()).is_pending());
        let (before, mut most) = (staging(), 0);
        assert!(before <= 4 * d.facts().half_bytes, "{before} bytes");
        std::thread::scope(|scope| {
            let uploads = scope.spawn(|| (0..4).for_each(|round| upload(&d, &x, round)));
            while !uploads.is_finished() {
                most = most.max(staging());
            }
        });
        assert!(most > before, "it stayed at {before} while both slots were taken");
        drop((one, other));
        for round in 0..500_u32 {
            x.blit_from(4, &round.to_ne_bytes()).unwrap();
        }
        assert!(staging() <= 4 * d.facts().half_bytes && staging() < most, "of {most} bytes");
    });
}

const ALONE: &str = "RIG_TEST_ALONE";
