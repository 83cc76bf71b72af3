//! A small generator of numbers, the same on every machine: splitmix64.

/// Numbers that follow from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `count`, which is not 0.
    pub(crate) const fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    /// Whether a chance of one in `count` came true.
    pub(crate) const fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Returns one of these.
    pub(crate) fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }
}
