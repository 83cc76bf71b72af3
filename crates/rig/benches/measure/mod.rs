//! What the benches share: rounds in turn, tables, counted allocations, counted instructions and a
//! driver that does nothing. Each bench uses part of it.
#![allow(dead_code)]

pub(crate) mod allocations;
pub(crate) mod instructions;
pub(crate) mod null;
pub(crate) mod rounds;
pub(crate) mod table;

/// Whether few rounds are wanted: `RIG_BENCH_QUICK=1` or `--quick`.
pub(crate) fn is_quick() -> bool {
    std::env::var_os("RIG_BENCH_QUICK").is_some_and(|value| value == "1")
        || std::env::args().any(|given| given == "--quick")
}

/// A fixed sequence of pseudo-random numbers, the same in every run.
pub(crate) struct Random(u64);

impl Random {
    /// Starts a sequence.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns the next number, below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}
