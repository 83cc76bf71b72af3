//! Goal P12: allocation traces, published and made, on rig and on two simple policies.
//!
//! Prints Markdown: each trace with the default settings, then the means of every setting tried.
//! Peaks are of bytes held over bytes asked for and live; hits are creates that the cache served.
//! The driver is one that does nothing, and the tick neither scans nor trims (no run lasts long
//! enough for it to matter). `RIG_TRACES=FOLDER` adds the traces of a folder.

#[path = "../measure/mod.rs"]
mod measure;

mod policy;
mod recipe;
mod replay;
mod trace;

use crate::measure::is_quick;
use crate::measure::table::{Goal, Row, head, number};
use crate::replay::{Outcome, replay, with_budget};
use crate::trace::Trace;
use rig::{Bins, CacheOptions};

fn main() {
    let traces = trace::all();
    each(&traces);
    goals(&traces);
    settings(&traces);
}

/// Every trace with the default settings, beside the simple policies.
fn each(traces: &[Trace]) {
    println!(
        "\n## Traces: peak held over peak live, default settings, one driver allocation each\n"
    );
    println!(
        "| trace | creates | peak live MiB | rig | hits | driver calls | ns an event | exact sizes \
         | hits | powers of two | hits | least budget over peak live |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for trace in traces {
        let rig = replay(trace, CacheOptions::default());
        let (exact, pow2) = (policy::exact(trace), policy::powers_of_two(trace));
        let least = least_budget(trace);
        println!(
            "| {}{} | {} | {:.1} | {:.3} | {} | {} | {} | {:.3} | {} | {:.3} | {} | {least} |",
            trace.name,
            if trace.is_small { " (not in means)" } else { "" },
            trace.creates(),
            trace.peak_live_bytes() as f64 / f64::from(1 << 20),
            rig.peak_over_live(trace),
            share(rig.hit_rate()),
            rig.driver_calls,
            number(rig.ns_an_event),
            exact.peak_over_live(trace),
            share(exact.hit_rate()),
            pow2.peak_over_live(trace),
            share(pow2.hit_rate()),
        );
    }
}

/// The least of some budgets, as multiples of the peak live bytes, under which a trace runs.
fn least_budget(trace: &Trace) -> String {
    let fits = |percent: &&u64| {
        let budget = (u128::from(trace.peak_live_bytes()) * u128::from(**percent) / 100) as u64;
        with_budget(trace, budget)
    };
    let found = [100, 101, 102, 105, 110, 115, 120, 130].iter().find(fits);
    found.map_or("> 1.30".into(), |percent| format!("{:.2}", *percent as f64 / 100.0))
}

fn goals(traces: &[Trace]) {
    head("Traces: means with the default settings");
    let mean = Mean::of(traces, |trace| replay(trace, CacheOptions::default()));
    let row = |what: &str, unit, figure, goal| {
        Row { number: "P12", what: what.into(), unit, figure, goal, rig: None, floor: None }
            .print();
    };
    row("peak held over peak live, geometric mean", "x", mean.peak, Goal::AtMost(1.25));
    row("hit rate, mean", "%", mean.hits * 100.0, Goal::AtLeast(93.0));
    let out = traces.iter().filter(|trace| {
        let budget = (trace.peak_live_bytes() as f64 * 1.1) as u64;
        !trace.is_small && !with_budget(trace, budget)
    });
    let what = "traces out of memory within 1.10 times their peak live bytes";
    row(what, "", out.count() as f64, Goal::AtMost(0.0));
}

/// The means of every setting.
fn settings(traces: &[Trace]) {
    println!("\n## Traces: means by settings, geometric of peaks and arithmetic of hits\n");
    println!("| bins | near_fit | cache_share | peak held over peak live | worst | hits | worst |");
    println!("|---|---|---|---|---|---|---|");
    let shares: &[f64] = if is_quick() { &[0.15] } else { &[0.0, 0.1, 0.15, 0.2, 0.25, 0.5, 1e6] };
    let fits: &[f64] = &[1.0, 1.125, 1.25, 1.375, 1.5, 2.0];
    for (bins, fits) in [(Bins::Eighths, fits), (Bins::Pow2, &[1.0, 2.0])] {
        for &near_fit in fits {
            for &cache_share in shares {
                let mut options = CacheOptions::default();
                (options.bins, options.near_fit, options.cache_share) =
                    (bins, near_fit, cache_share);
                let mean = Mean::of(traces, |trace| replay(trace, options));
                println!(
                    "| {bins:?} | {near_fit} | {cache_share} | {:.3} | {:.3} | {} | {} |",
                    mean.peak,
                    mean.worst_peak,
                    share(mean.hits),
                    share(mean.worst_hits),
                );
            }
        }
    }
    for (name, run) in [
        ("exact sizes", policy::exact as fn(&Trace) -> Outcome),
        ("powers of two", policy::powers_of_two),
    ] {
        let mean = Mean::of(traces, run);
        let (hits, worst) = (share(mean.hits), share(mean.worst_hits));
        println!(
            "| {name}, keeps all | - | - | {:.3} | {:.3} | {hits} | {worst} |",
            mean.peak, mean.worst_peak
        );
    }
}

/// Means over the traces that are large enough to mean something.
struct Mean {
    peak: f64,
    worst_peak: f64,
    hits: f64,
    worst_hits: f64,
}

impl Mean {
    fn of(traces: &[Trace], run: impl Fn(&Trace) -> Outcome) -> Self {
        let counted: Vec<(f64, f64)> = traces
            .iter()
            .filter(|trace| !trace.is_small)
            .map(|trace| {
                let outcome = run(trace);
                (outcome.peak_over_live(trace), outcome.hit_rate())
            })
            .collect();
        let count = counted.len() as f64;
        let logs: f64 = counted.iter().map(|(peak, _)| peak.ln()).sum();
        Self {
            peak: (logs / count).exp(),
            worst_peak: counted.iter().map(|(peak, _)| *peak).fold(0.0, f64::max),
            hits: counted.iter().map(|(_, hits)| hits).sum::<f64>() / count,
            worst_hits: counted.iter().map(|(_, hits)| *hits).fold(1.0, f64::min),
        }
    }
}

fn share(of_one: f64) -> String {
    format!("{:.1} %", of_one * 100.0)
}
