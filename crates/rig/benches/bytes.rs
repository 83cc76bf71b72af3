//! Goal P8: the host copy beside every routine that could have served, at each distance between
//! source and destination that makes one of them slow. Prints Markdown.
//!
//! `RIG_BENCH_QUICK=1` or `--quick` takes 5 rounds instead of 15 and leaves 256 MiB out, `--cells`
//! prints every routine at every distance. The routines are internal, so their file is part of this
//! program; nothing of the library is linked.

#[allow(dead_code, unused_imports)]
#[path = "../src/bytes/copy.rs"]
mod copy;

/// Where the file's own tests, which are compiled here too and never run, look for it.
mod bytes {
    pub(crate) use crate::copy;
}

use std::hint::black_box;
use std::time::Instant;

type Routine = unsafe fn(*const u8, *mut u8, usize);

/// Destination less source, modulo a page.
const DISTANCES: [usize; 6] = [0, 1, 16, 63, 64, 2048];
const PAGE: usize = 4096;
const GOAL: f64 = 0.92;

/// The seconds a copy took in each round, sorted, for each routine and distance.
type Cells = Vec<[Vec<f64>; DISTANCES.len()]>;

fn main() {
    let has = |wanted: &str| std::env::args().any(|given| given == wanted);
    let quick = std::env::var_os("RIG_BENCH_QUICK").is_some_and(|value| value == "1");
    let quick = quick || has("--quick");
    let rounds = if quick { 5 } else { 15 };
    let routines = routines();
    let names: Vec<_> = routines.iter().map(|(name, _)| name.as_str()).collect();
    println!("\n## P8: host copies\n");
    println!(
        "{} {}, routines: {}. Sources start on a page, destinations at the distance past one; \
         every page was touched. Ratios are of minima of {rounds} interleaved rounds. GB/s are \
         10^9 bytes copied a second.\n",
        std::env::consts::ARCH,
        std::env::consts::OS,
        names.join(", ")
    );
    let mut table = String::from(
        "| size | best GB/s (routine, distance) | rig worst / best | goal | met | rig worst / best \
         at that distance | memcpy worst / best | mixed worst / best | rig us: min, median, p90 |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let sizes = [4, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
    for kib in &sizes[..sizes.len() - usize::from(quick)] {
        let cells = measure(&routines, *kib << 10, rounds);
        table.push_str(&row(&names, &cells, *kib << 10));
        if has("--cells") {
            println!("{}", all_cells(&names, &cells, *kib << 10));
        }
    }
    println!("{table}");
}

/// The library's copy, rig's, rig's mixed one, and each that rig's may choose from.
fn routines() -> Vec<(String, Routine)> {
    let mut all: Vec<(String, Routine)> = vec![
        ("memcpy".into(), memcpy),
        ("rig".into(), copy::copy),
        ("mixed".into(), copy::copy_mixed),
    ];
    for width in copy::WIDTHS.iter().filter(|width| (width.runs)()) {
        all.push((format!("near {}", width.vector_bytes), width.near));
        all.push((format!("far {}", width.vector_bytes), width.far));
    }
    all
}

unsafe fn memcpy(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, len) }
}

/// Times every routine at every distance, in turn, and checks what each copied.
fn measure(routines: &[(String, Routine)], len: usize, rounds: usize) -> Cells {
    let mut src: Vec<u8> = (0..len + PAGE).map(|at| (at * 31 + at / 251) as u8 | 1).collect();
    let mut dst = vec![0xff_u8; len + 2 * PAGE];
    let src_page = src.as_ptr().align_offset(PAGE);
    let dst_page = dst.as_ptr().align_offset(PAGE);
    let src = &mut src[src_page..][..len];
    let src_start = src.as_mut_ptr();
    let repeats = ((8 << 20) / len).max(1);
    let mut cells: Cells = vec![Default::default(); routines.len()];
    for round in 0..rounds {
        for ((name, routine), times) in routines.iter().zip(&mut cells) {
            for (distance, times) in DISTANCES.iter().zip(times) {
                let dst = &mut dst[dst_page + distance..][..len];
                let dst_start = dst.as_mut_ptr();
                // SAFETY: two slices of `len` bytes, both of them this function's alone.
                let run = || unsafe { routine(black_box(src_start), black_box(dst_start), len) };
                if round == 0 {
                    dst.fill(0);
                }
                run();
                if round == 0 {
                    assert!(*src == *dst, "{name}: {len} bytes at {distance}");
                }
                let start = Instant::now();
                (0..repeats).for_each(|_| run());
                times.push(start.elapsed().as_secs_f64() / repeats as f64);
            }
        }
    }
    cells.iter_mut().flatten().for_each(|times| times.sort_by(f64::total_cmp));
    cells
}

fn row(names: &[&str], cells: &Cells, len: usize) -> String {
    let place = |wanted| names.iter().position(|name| *name == wanted).unwrap_or_default();
    let each = || (0..names.len()).flat_map(|at| (0..DISTANCES.len()).map(move |to| (at, to)));
    let least = |(at, to): (usize, usize)| cells[at][to][0];
    let by_time = |a: &(usize, usize), b: &(usize, usize)| least(*a).total_cmp(&least(*b));
    let best = each().min_by(by_time).unwrap_or_default();
    let worst =
        |name| each().filter(|(at, _)| *at == place(name)).max_by(by_time).unwrap_or_default();
    let ratio = |name| least(best) / least(worst(name));
    let rig = worst("rig");
    let at_its_distance = (0..DISTANCES.len())
        .map(|to| {
            let best = (0..names.len()).map(|at| least((at, to))).fold(f64::MAX, f64::min);
            best / least((place("rig"), to))
        })
        .fold(f64::MAX, f64::min);
    let times = &cells[rig.0][rig.1];
    format!(
        "| {} KiB | {:.1} ({}, {}) | {:.3} (at {}) | >= {GOAL} | {} | {:.3} | {:.3} | {:.3} \
         | {:.2}, {:.2}, {:.2} |\n",
        len >> 10,
        len as f64 / least(best) / 1e9,
        names[best.0],
        DISTANCES[best.1],
        ratio("rig"),
        DISTANCES[rig.1],
        if ratio("rig") >= GOAL { "yes" } else { "no" },
        at_its_distance,
        ratio("memcpy"),
        ratio("mixed"),
        times[0] * 1e6,
        times[times.len() / 2] * 1e6,
        times[times.len() * 9 / 10] * 1e6,
    )
}

fn all_cells(names: &[&str], cells: &Cells, len: usize) -> String {
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(" | ");
    let distances = list(&mut DISTANCES.iter().map(usize::to_string));
    let mut text =
        format!("| {} KiB, GB/s | {distances} |\n|---|---|---|---|---|---|---|\n", len >> 10);
    for (name, times) in names.iter().zip(cells) {
        let speeds = times.iter().map(|times| format!("{:.1}", len as f64 / times[0] / 1e9));
        text += &format!("| {name} | {} |\n", list(&mut speeds.into_iter()));
    }
    text
}
