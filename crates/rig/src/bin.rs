//! Size classes of the cache: arithmetic only.
//!
//! A bin is a number of bytes that many requests share, and its index. Bytes grow with the index,
//! every request lies in exactly one bin, and a bin's own bytes lie in that bin. Indices are
//! computed from the length by shifts, without a search, and every sum is valid up to `u64::MAX`.
//! Any thread may call anything here; nothing takes a lock.

/// How requests are grouped into bins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Bins {
    /// 512 bytes, and above that eight bins from each power of two to the next: less than an
    /// eighth of a request above 512 bytes is wasted (S9.7).
    #[default]
    Eighths,
    /// Powers of two from 1 byte: less than the request itself is wasted.
    Pow2,
}

/// A size class: its place in the order of sizes, and what an allocation of it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bin {
    pub(crate) index: u16,
    pub(crate) bytes: u64,
}

/// Returns the smallest bin that holds `len_bytes`; none above `bin_max_bytes`, or where the bin
/// would be larger than `u64::MAX`: such a request is served by its exact size (S9.8).
pub(crate) const fn bin_of(bins: Bins, len_bytes: u64, bin_max_bytes: u64) -> Option<Bin> {
    if len_bytes > bin_max_bytes {
        return None;
    }
    match bins {
        Bins::Eighths if len_bytes <= LEAST_BYTES => Some(Bin { index: 0, bytes: LEAST_BYTES }),
        Bins::Eighths => {
            // With n - 1 in place of n, a power of two is the last bin of its group and not the
            // first of the next, and the ceiling of n / step is the floor of (n - 1) / step + 1.
            let last = len_bytes - 1;
            let shift = last.ilog2() - 3;
            let floor = last >> shift;
            // The floor is 8 to 15, so only 16 steps of 2^60 do not fit, and become 0.
            match (floor + 1) << shift {
                0 => None,
                bytes => {
                    let index = 8 * (shift + 3 - LEAST_EXPONENT) as u64 + floor - 7;
                    Some(Bin { index: index as u16, bytes })
                }
            }
        }
        Bins::Pow2 => match len_bytes.checked_next_power_of_two() {
            Some(bytes) => Some(Bin { index: bytes.ilog2() as u16, bytes }),
            None => None,
        },
    }
}

/// Returns the bytes of the bin at `index`; none from [`count_of`] on.
pub(crate) const fn bytes_of(bins: Bins, index: u16) -> Option<u64> {
    if index >= count_of(bins) {
        return None;
    }
    match (bins, index) {
        (Bins::Eighths, 0) => Some(LEAST_BYTES),
        (Bins::Eighths, _) => {
            let above = (index - 1) as u64;
            Some((9 + above % 8) << (LEAST_EXPONENT as u64 - 3 + above / 8))
        }
        (Bins::Pow2, _) => Some(1 << index),
    }
}

/// Returns how many bins there are; indices are below that.
pub(crate) const fn count_of(bins: Bins) -> u16 {
    match bins {
        Bins::Eighths => 8 * (64 - LEAST_EXPONENT as u16),
        Bins::Pow2 => 64,
    }
}

/// The largest request that gets a bin, unless an option says otherwise (S9.8).
pub(crate) const DEFAULT_BIN_MAX_BYTES: u64 = 104_857_600;

const LEAST_BYTES: u64 = 1 << LEAST_EXPONENT;
const LEAST_EXPONENT: u32 = 9;

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::bin::{Bin, Bins, DEFAULT_BIN_MAX_BYTES, bin_of, bytes_of, count_of};

    const BOTH: [Bins; 2] = [Bins::Eighths, Bins::Pow2];

    fn bytes(bins: Bins, len_bytes: u64) -> Option<u64> {
        bin_of(bins, len_bytes, DEFAULT_BIN_MAX_BYTES).map(|bin| bin.bytes)
    }

    fn index(bins: Bins, len_bytes: u64) -> u16 {
        bin_of(bins, len_bytes, u64::MAX).expect("there is a bin").index
    }

    /// Zero, one, and each power of two and each sixteenth of it with their neighbours.
    fn lengths() -> Vec<u64> {
        let mut all = vec![0, 1, u64::MAX - 1, u64::MAX];
        for exponent in 0..64u32 {
            for sixteenth in 16..32u64 {
                let middle = ((u128::from(sixteenth) << exponent) >> 4) as u64;
                all.extend([middle.saturating_sub(1), middle, middle.saturating_add(1)]);
            }
        }
        all
    }

    #[test]
    fn s9_7_bins_are_the_ones_of_the_table() {
        let table = [
            (1, 512),
            (513, 576),
            (1025, 1152),
            (65_537, 73_728),
            (1_000_000, 1_048_576),
            ((1 << 26) + 1, 75_497_472),
            (104_857_600, 109_051_904),
        ];
        for (len_bytes, bin_bytes) in table {
            assert_eq!(bytes(Bins::Eighths, len_bytes), Some(bin_bytes), "{len_bytes}");
        }
    }

    #[test]
    fn s9_7_indices_are_the_ones_of_the_table() {
        let table = [(512, 0), (576, 1), (1024, 8), (65_536, 56), (104_857_600, 141)];
        for (len_bytes, expected) in table {
            assert_eq!(index(Bins::Eighths, len_bytes), expected, "{len_bytes}");
        }
    }

    #[test]
    fn s9_7_pow2_takes_the_next_power_of_two_from_1_byte() {
        let table = [(1, 1), (2, 2), (3, 4), (1025, 2048), (104_857_600, 134_217_728)];
        for (len_bytes, bin_bytes) in table {
            assert_eq!(bytes(Bins::Pow2, len_bytes), Some(bin_bytes), "{len_bytes}");
        }
        assert_eq!(index(Bins::Pow2, 1), 0);
        assert_eq!(index(Bins::Pow2, 1 << 63), 63);
    }

    #[test]
    fn s9_8_above_the_bin_maximum_there_is_no_bin() {
        for bins in BOTH {
            assert_eq!(bytes(bins, 104_857_601), None);
            assert_eq!(bin_of(bins, 1, 0), None);
            assert!(bin_of(bins, 4096, 4096).is_some());
            assert_eq!(bin_of(bins, 4097, 4096), None);
        }
    }

    #[test]
    fn s9_7_waste_is_below_an_eighth_of_the_request() {
        for len_bytes in lengths().into_iter().chain(513..20_000).filter(|len| *len > 512) {
            if let Some(bin) = bin_of(Bins::Eighths, len_bytes, u64::MAX) {
                let waste = bin.bytes - len_bytes;
                assert!(u128::from(waste) * 8 < u128::from(len_bytes), "{len_bytes}: {waste}");
            }
        }
    }

    #[test]
    fn s9_7_the_computed_index_is_the_one_a_search_finds() {
        for bins in BOTH {
            for len_bytes in lengths().into_iter().step_by(if cfg!(miri) { 97 } else { 1 }) {
                let found = (0..count_of(bins))
                    .map(|index| Bin { index, bytes: bytes_of(bins, index).unwrap() })
                    .find(|bin| bin.bytes >= len_bytes);
                assert_eq!(bin_of(bins, len_bytes, u64::MAX), found, "{bins:?} {len_bytes}");
            }
        }
    }

    #[test]
    fn s9_7_bytes_grow_with_the_index_and_lie_in_their_own_bin() {
        for bins in BOTH {
            let mut before = 0;
            for index in 0..count_of(bins) {
                let bytes = bytes_of(bins, index).unwrap();
                assert!(bytes > before);
                assert_eq!(bin_of(bins, bytes, u64::MAX), Some(Bin { index, bytes }));
                before = bytes;
            }
            assert_eq!(bytes_of(bins, count_of(bins)), None);
            assert_eq!(bytes_of(bins, u16::MAX), None);
        }
    }

    #[test]
    fn s0_4_no_bin_wraps_around_at_the_largest_lengths() {
        let last = |bins| bytes_of(bins, count_of(bins) - 1).unwrap();
        assert_eq!(last(Bins::Eighths), 15 << 60);
        assert_eq!(last(Bins::Pow2), 1 << 63);
        for bins in BOTH {
            assert!(bin_of(bins, last(bins), u64::MAX).is_some());
            assert_eq!(bin_of(bins, last(bins) + 1, u64::MAX), None);
            assert_eq!(bin_of(bins, u64::MAX, u64::MAX), None);
        }
    }
}
