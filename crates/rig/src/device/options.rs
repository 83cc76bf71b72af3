//! The options of a device's cache, as programs give them. Plain data; any thread may hold it.

use crate::bin::Bins;
use crate::cache::Options;
use crate::error::{Misuse, Outcome};
use std::sync::Arc;

/// How a device's cache groups, fits and bounds what it holds (S9.15).
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// use rig::{Bins, CacheOptions};
///
/// // Sizes are powers of two here, as some programs expect, and no other size serves.
/// let mut options = CacheOptions::default();
/// options.bins = Bins::Pow2;
/// options.near_fit = 1.0;
/// let opener = rig::memory::opener(rig::memory::Options::default());
/// let device = rig::Device::open_with("cache example", opener, options)?;
/// let buffer = device.create_buffer(1_000)?;
/// assert_eq!(device.held(), 1_024);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct CacheOptions {
    /// How requests are grouped into bins.
    pub bins: Bins,
    /// Above this, a request gets its exact size; 104,857,600 by default.
    pub bin_max_bytes: u64,
    /// The largest bin that serves, as a multiple of the asked one, while at most half the budget
    /// is live; 1 is own bin only, and 1.25 the default (S9.9).
    pub near_fit: f64,
    /// What may be cached above the greatest live bytes, as a share of them; 0.15 by default
    /// (S9.10).
    pub cache_share: f64,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self::of(Options::default())
    }
}

impl CacheOptions {
    pub(crate) fn of(options: Options) -> Self {
        Self {
            bins: options.bins,
            bin_max_bytes: options.bin_max_bytes,
            near_fit: options.near_fit_permille as f64 / 1e3,
            cache_share: options.cache_share_permille as f64 / 1e3,
        }
    }

    /// Checks the ranges, and turns them into the cache's own.
    pub(crate) fn checked(self, call: &'static str) -> Outcome<Options> {
        let wrong = |option, given: f64, allowed| {
            Misuse::Option { option, given: Arc::from(given.to_string()), allowed }.of(call)
        };
        if !(1.0..=1e6).contains(&self.near_fit) {
            return wrong("near_fit", self.near_fit, "1 to 1,000,000");
        }
        if !(0.0..=1e6).contains(&self.cache_share) {
            return wrong("cache_share", self.cache_share, "0 to 1,000,000");
        }
        Ok(Options {
            bins: self.bins,
            bin_max_bytes: self.bin_max_bytes,
            near_fit_permille: (self.near_fit * 1e3).round() as u64,
            cache_share_permille: (self.cache_share * 1e3).round() as u64,
        })
    }
}
