//! All devices together: which there are, their statistics, and what each is and holds.
//!
//! Any thread may ask. Answers are copies of numbers as they stood, each device's taken under its
//! own heap's lock.

use crate::allocation::owner::Owner;
use crate::budget::Where;
use crate::device::Device;
use crate::exit;
use crate::life;
use crate::open::host_owner;
use crate::report::{DeviceSnapshot, DeviceStats, Snapshot, Stats};
use std::sync::Arc;

/// Returns the host, which is always open and never lost (S1.1).
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let buffer = rig::host().create_buffer(4)?;
/// buffer.fill(7)?;
/// assert_eq!(buffer.read(|bytes| bytes.to_vec())?, [7; 4]);
/// # Ok(())
/// # }
/// ```
pub fn host() -> Device {
    watch_exit();
    Device::of(host_owner())
}

/// Returns every device that lives or still holds something, the host first.
pub fn devices() -> Vec<Device> {
    host_owner();
    let there = |owner: &&Arc<Owner>| !owner.is_stopped() || !owner.holds_nothing();
    life::owners().iter().filter(there).map(Device::of).collect()
}

/// Returns the statistics of every device, and their sums.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::memory::open("stats example")?;
/// for _ in 0..10 {
///     device.create_buffer(4_096)?;
/// }
/// let stats = rig::stats();
/// let mine = stats.devices.iter().find(|stats| &*stats.name == "stats example");
/// let mine = mine.expect("an open device has statistics");
/// assert_eq!((mine.requested_count, mine.actual_count), (10, 1));
/// assert_eq!(mine.kind_counts, [9, 1, 0, 0]); // The cache served nine, the driver one.
/// println!("{stats}");
/// # Ok(())
/// # }
/// ```
pub fn stats() -> Stats {
    Stats::of(devices().iter().map(Device::stats).collect())
}

/// Returns what every device is and holds, as plain data.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::memory::open("snapshot example")?;
/// let snapshot = rig::snapshot();
/// let mine = snapshot.devices.iter().find(|found| &*found.name == "snapshot example");
/// let mine = mine.expect("an open device is in it");
/// assert_eq!((mine.driver, mine.submitted, &mine.lost), ("memory", 0, &None));
/// # Ok(())
/// # }
/// ```
pub fn snapshot() -> Snapshot {
    let devices = devices();
    let devices = devices.iter().map(|device| DeviceSnapshot {
        name: Arc::clone(&device.owner.name),
        driver: device.owner.driver.kind(),
        architecture: Arc::clone(&device.owner.facts.architecture),
        index: device.id().index(),
        submitted: device.submitted(),
        reached: device.reached(),
        lost: device.lost(),
        stats: device.stats(),
    });
    Snapshot { devices: devices.collect() }
}

/// Makes sure that the statistics are printed at exit, if the environment asks for them.
pub(crate) fn watch_exit() {
    exit::print_stats(|| stats().to_string());
}

/// Returns the statistics of one device.
pub(crate) fn stats_of(owner: &Owner) -> DeviceStats {
    let heap = owner.heap.lock();
    let books = &heap.books;
    DeviceStats {
        budget_bytes: books.budget_bytes(),
        held_bytes: books.held(),
        live_bytes: books.bytes_in(Where::Live),
        returning_bytes: books.bytes_in(Where::Returning),
        cached_bytes: books.bytes_in(Where::Cached),
        staging_bytes: books.bytes_in(Where::Staging),
        pinned_bytes: books.bytes_in(Where::Pinned),
        given_away_bytes: books.given_away_bytes(),
        peak_held_bytes: books.peaks().held_bytes,
        peak_live_bytes: books.peaks().live_bytes,
        ..heap.counters.stats(&owner.name)
    }
}
