//! Two simple policies that keep everything, as floors: what came back serves its own size only.

use crate::replay::Outcome;
use crate::trace::{Event, Trace};
use std::collections::HashMap;

/// Keeps what came back under its exact size.
pub(crate) fn exact(trace: &Trace) -> Outcome {
    kept(trace, |len| len)
}

/// Rounds up to powers of two.
pub(crate) fn powers_of_two(trace: &Trace) -> Outcome {
    kept(trace, u64::next_power_of_two)
}

fn kept(trace: &Trace, round: impl Fn(u64) -> u64) -> Outcome {
    let mut waiting: HashMap<u64, u64> = HashMap::new();
    let mut lens = vec![0; trace.events.len()];
    let mut outcome = Outcome::default();
    for event in &trace.events {
        match *event {
            Event::Create { id, len } => {
                lens[id] = round(len);
                outcome.creates += 1;
                let count = waiting.entry(lens[id]).or_default();
                if *count > 0 {
                    *count -= 1;
                    outcome.hits += 1;
                } else {
                    // Nothing is given back, so what is held only grows.
                    outcome.peak_held_bytes += lens[id];
                    outcome.driver_calls += 1;
                }
            }
            Event::Drop { id } => *waiting.entry(lens[id]).or_default() += 1,
        }
    }
    outcome
}
