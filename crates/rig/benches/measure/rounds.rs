//! Rounds in turn: each side runs for some milliseconds, one after the other, round after round.
//!
//! Minima of interleaved rounds repeat within a few per cent on a busy machine, where medians
//! drift by a third; figures of two runs are never compared.

use crate::measure::is_quick;
use std::time::{Duration, Instant};

/// Runs something that many times and answers how long that took, preparations apart.
pub(crate) type Side<'a> = Box<dyn FnMut(u64) -> Duration + 'a>;

/// Makes a side of something that needs no preparation.
pub(crate) fn side<'a>(mut f: impl FnMut() + 'a) -> Side<'a> {
    Box::new(move |count| {
        let start = Instant::now();
        for _ in 0..count {
            f();
        }
        start.elapsed()
    })
}

/// The nanoseconds a time, one figure a round, sorted.
#[derive(Clone, Debug)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    /// Sorts figures that were taken otherwise.
    pub(crate) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        Self(rounds)
    }

    /// Returns the least.
    pub(crate) fn least(&self) -> f64 {
        self.0[0]
    }

    /// Returns the median.
    pub(crate) fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// Returns the figure below which nine in ten lie.
    pub(crate) fn p90(&self) -> f64 {
        self.0[self.0.len() * 9 / 10]
    }
}

/// Runs the sides in turn, each round for `ROUND` or more, and answers their times.
pub(crate) fn race(sides: &mut [Side<'_>]) -> Vec<Times> {
    let counts: Vec<u64> = sides.iter_mut().map(count_for_a_round).collect();
    let mut rounds = vec![Vec::new(); sides.len()];
    for _ in 0..round_count() {
        for ((side, count), rounds) in sides.iter_mut().zip(&counts).zip(&mut rounds) {
            rounds.push(side(*count).as_nanos() as f64 / *count as f64);
        }
    }
    rounds.into_iter().map(Times::of).collect()
}

/// Returns how many rounds each side runs.
pub(crate) fn round_count() -> usize {
    if is_quick() { 7 } else { 21 }
}

/// Returns how often a side has to run for a round; running it so warms it up too.
fn count_for_a_round(side: &mut Side<'_>) -> u64 {
    let mut count = 1;
    loop {
        let took = side(count);
        if took >= ROUND {
            return count;
        }
        let wanted = ROUND.as_nanos() as f64 / took.as_nanos().max(1) as f64;
        count = (count as f64 * wanted.clamp(1.2, 16.0)).ceil() as u64;
    }
}

const ROUND: Duration = Duration::from_millis(2);
