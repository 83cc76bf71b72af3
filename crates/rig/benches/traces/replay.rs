//! A trace replayed on rig, over a driver that does nothing.

use crate::measure::null::Null;
use crate::trace::{Event, Trace};
use rig::{Buffer, CacheOptions, Device};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What became of a trace.
#[derive(Default, Debug)]
pub(crate) struct Outcome {
    pub(crate) peak_held_bytes: u64,
    pub(crate) creates: u64,
    pub(crate) hits: u64,
    pub(crate) driver_calls: u64,
    pub(crate) ns_an_event: f64,
}

impl Outcome {
    /// Returns the most bytes held over the most that were asked for and live.
    pub(crate) fn peak_over_live(&self, trace: &Trace) -> f64 {
        self.peak_held_bytes as f64 / trace.peak_live_bytes() as f64
    }

    /// Returns the share of creates that the cache served.
    pub(crate) fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.creates as f64
    }
}

/// Replays a trace without a bound.
pub(crate) fn replay(trace: &Trace, options: CacheOptions) -> Outcome {
    let null = Null::new(u64::MAX);
    let device = null.open(options);
    let took = run(trace, &device).expect("there is no bound");
    let stats = device.stats();
    let [hits, _, later, _] = stats.kind_counts;
    let calls = null.allocs.load(Ordering::Relaxed) + null.frees.load(Ordering::Relaxed);
    let outcome = Outcome {
        peak_held_bytes: stats.peak_held_bytes,
        creates: stats.requested_count,
        hits: hits + later,
        driver_calls: calls,
        ns_an_event: took.as_nanos() as f64 / trace.events.len() as f64,
    };
    device.close().expect("a null device closes");
    outcome
}

/// Whether a trace runs within a budget, with the default settings.
pub(crate) fn with_budget(trace: &Trace, budget_bytes: u64) -> bool {
    let device = Null::new(u64::MAX).open(CacheOptions::default());
    device.set_budget(budget_bytes).expect("not in a callback");
    let fits = run(trace, &device).is_some();
    device.close().expect("a null device closes");
    fits
}

/// Runs a trace and answers the time that took; none where memory ran out.
fn run(trace: &Trace, device: &Device) -> Option<Duration> {
    let mut live: Vec<Option<Buffer>> = vec![None; trace.creates()];
    let start = Instant::now();
    for event in &trace.events {
        match *event {
            Event::Create { id, len } => live[id] = Some(device.create_buffer(len).ok()?),
            Event::Drop { id } => live[id] = None,
        }
    }
    Some(start.elapsed())
}
