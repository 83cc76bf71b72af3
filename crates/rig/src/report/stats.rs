//! Statistics: the counters of each device, their sum, and the line of a timed expression.
//!
//! The counts follow the table of S11.2. All of it is plain data, which any thread may hold.
//! [`Counters`] is the one thing here that changes; whoever owns it guards it.

use crate::report::{Bound, Count, Piece, Size, put, text};
use std::fmt::{Display, Formatter};
use std::sync::Arc;

/// The statistics of every device, and their sum (S11.2). They print as a table for people.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Stats {
    /// Each device, in the order of their indices.
    pub devices: Vec<DeviceStats>,
    /// All of them together. Numbers saturate. The peaks are the sum of the devices' own peaks,
    /// which they need not have had at one moment.
    pub sum: DeviceStats,
}

/// The statistics of one device (S11.2). Requests of 0 bytes count nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct DeviceStats {
    /// The device's name.
    pub name: Arc<str>,
    /// The budget; `u64::MAX` is unbounded.
    pub budget_bytes: u64,
    /// The bytes that drivers handed out and that this device pays for.
    pub held_bytes: u64,
    /// Of these, the bytes in buffers that somebody can reach.
    pub live_bytes: u64,
    /// Of these, the bytes on their way back.
    pub returning_bytes: u64,
    /// Of these, the bytes waiting for reuse.
    pub cached_bytes: u64,
    /// Of these, the bytes that copies pass through.
    pub staging_bytes: u64,
    /// Of these, the bytes of live Pinned memory.
    pub pinned_bytes: u64,
    /// The bytes lent and without handles since; not among those held.
    pub given_away_bytes: u64,
    /// The most bytes held since the last reset.
    pub peak_held_bytes: u64,
    /// The most bytes live since the last reset.
    pub peak_live_bytes: u64,
    /// Creates, failed ones too.
    pub requested_count: u64,
    /// Their bytes, as asked for.
    pub requested_bytes: u64,
    /// Allocations freed, or that nobody could reach any more.
    pub returned_count: u64,
    /// Their bytes, as asked for.
    pub returned_bytes: u64,
    /// Allocations that the driver made.
    pub actual_count: u64,
    /// Their bytes.
    pub actual_bytes: u64,
    /// Allocations that the driver took back.
    pub freed_count: u64,
    /// Their bytes.
    pub freed_bytes: u64,
    /// Requests by what served them: the cache at the first try, the driver at the first try,
    /// the cache later, the driver later.
    pub kind_counts: [u64; 4],
    /// Nanoseconds in the driver's allocations and frees, failed ones too.
    pub driver_ns: u64,
    /// Nanoseconds in drivers and in rounds of reclaim, failed ones too, nested ones once. What the
    /// cache serves at the first try is not timed.
    pub total_ns: u64,
}

/// What was asked of rig while something ran, and the time that took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Usage {
    /// Allocations asked for.
    pub count: u64,
    /// Their bytes, frees not subtracted.
    pub bytes: u64,
    /// Nanoseconds in rig.
    pub total_ns: u64,
    /// Of these, nanoseconds in drivers.
    pub driver_ns: u64,
}

/// Returns one line about something that took `wall_ns`, and about what it asked of rig on the
/// host and on all other devices (S11.5). A side that was asked for nothing is left out, as is a
/// time of 0.
pub fn time_line(wall_ns: u64, host: Usage, device: Usage) -> String {
    let mut line = format!("{:>10} seconds", Seconds(wall_ns).to_string());
    for (name, usage) in [("host", host), ("device", device)] {
        if usage.count == 0 && usage.bytes == 0 {
            continue;
        }
        let plural = if usage.count == 1 { "" } else { "s" };
        put!(&mut line, " (", usage.count, " ", name, " allocation", plural);
        put!(&mut line, ": ", Size(usage.bytes));
        if let Some(share) = percent(usage.total_ns, wall_ns) {
            line.push_str(&format!(", {share} rig time"));
            if let Some(share) = percent(usage.driver_ns, usage.total_ns) {
                line.push_str(&format!(" of which {share} in drivers"));
            }
        }
        line.push(')');
    }
    line
}

impl Stats {
    /// Sums the statistics of devices.
    pub fn of(mut devices: Vec<DeviceStats>) -> Self {
        let mut sum = DeviceStats { name: Arc::from("sum"), ..DeviceStats::default() };
        for device in &mut devices {
            for (sum, number) in sum.numbers().into_iter().zip(device.numbers()) {
                *sum = sum.saturating_add(*number);
            }
        }
        Self { devices, sum }
    }
}

impl Display for Stats {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let sum = (self.devices.len() != 1).then_some(&self.sum);
        let all: Vec<_> = self.devices.iter().chain(sum).map(|device| text!(device)).collect();
        f.write_str(&all.join("\n"))
    }
}

impl DeviceStats {
    /// Returns what the device was asked for since its counters began.
    pub fn usage(&self) -> Usage {
        Usage {
            count: self.requested_count,
            bytes: self.requested_bytes,
            total_ns: self.total_ns,
            driver_ns: self.driver_ns,
        }
    }

    /// Returns all numbers, in the order of the fields; the counts of the kinds are the last.
    pub(crate) fn numbers(&mut self) -> [&mut u64; 24] {
        let [cache, driver, cache_later, driver_later] = &mut self.kind_counts;
        [
            &mut self.budget_bytes,
            &mut self.held_bytes,
            &mut self.live_bytes,
            &mut self.returning_bytes,
            &mut self.cached_bytes,
            &mut self.staging_bytes,
            &mut self.pinned_bytes,
            &mut self.given_away_bytes,
            &mut self.peak_held_bytes,
            &mut self.peak_live_bytes,
            &mut self.requested_count,
            &mut self.requested_bytes,
            &mut self.returned_count,
            &mut self.returned_bytes,
            &mut self.actual_count,
            &mut self.actual_bytes,
            &mut self.freed_count,
            &mut self.freed_bytes,
            &mut self.driver_ns,
            &mut self.total_ns,
            cache,
            driver,
            cache_later,
            driver_later,
        ]
    }
}

impl Display for DeviceStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text!(self))
    }
}

impl Piece for &DeviceStats {
    fn put(self, text: &mut String) {
        let (held, budget) = (Size(self.held_bytes), Bound(self.budget_bytes));
        put!(text, self.name, ": ", held, " held of ", budget);
        put!(text, ", peak ", Size(self.peak_held_bytes), "\n  ");
        put!(text, Size(self.live_bytes), " live, peak ", Size(self.peak_live_bytes), "; ");
        put!(text, Size(self.returning_bytes), " returning, ");
        put!(text, Size(self.cached_bytes), " cached, ", Size(self.staging_bytes), " staging, ");
        put!(text, Size(self.pinned_bytes), " pinned, ", Size(self.given_away_bytes));
        put!(text, " given away");
        for (what, count, bytes) in [
            ("requested", self.requested_count, self.requested_bytes),
            ("returned ", self.returned_count, self.returned_bytes),
            ("allocated by the driver", self.actual_count, self.actual_bytes),
            ("freed by the driver    ", self.freed_count, self.freed_bytes),
        ] {
            put!(text, "\n  ", what, " ", Count(count, "allocation"), ": ", Size(bytes));
        }
        let [cache, driver, cache_later, driver_later] = self.kind_counts;
        put!(text, "\n  served at once by the cache ", cache, ", by the driver ", driver);
        put!(text, ", after a round by the cache ", cache_later);
        put!(text, ", by the driver ", driver_later);
        let (total, driver) = (Seconds(self.total_ns), Seconds(self.driver_ns));
        put!(text, format!("\n  {total} seconds in rig, {driver} of them in drivers"));
    }
}

impl Usage {
    /// Nothing.
    pub(crate) const NONE: Self = Self { count: 0, bytes: 0, total_ns: 0, driver_ns: 0 };

    /// Returns both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            bytes: self.bytes.saturating_add(other.bytes),
            total_ns: self.total_ns.saturating_add(other.total_ns),
            driver_ns: self.driver_ns.saturating_add(other.driver_ns),
        }
    }

    /// Returns what was added since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            driver_ns: self.driver_ns.saturating_sub(earlier.driver_ns),
        }
    }
}

/// The counters of one device, as [`DeviceStats`] names them. Calls of 0 bytes count nothing
/// (S11.3).
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    requested: Counted,
    returned: Counted,
    actual: Counted,
    freed: Counted,
    kind_counts: [u64; 4],
    driver_ns: u64,
    total_ns: u64,
}

impl Counters {
    /// Counts a create, whatever becomes of it.
    pub(crate) fn requested(&mut self, bytes: u64) {
        self.requested.add(bytes);
    }

    /// Counts an allocation freed or unreachable, by the bytes that were asked for.
    pub(crate) fn returned(&mut self, bytes: u64) {
        self.returned.add(bytes);
    }

    /// Counts an allocation that the driver made, by the bytes it takes.
    pub(crate) fn allocated(&mut self, bytes: u64) {
        self.actual.add(bytes);
    }

    /// Counts an allocation that the driver took back, by the bytes it took.
    pub(crate) fn freed(&mut self, bytes: u64) {
        self.freed.add(bytes);
    }

    /// Returns the bytes that the driver took back so far.
    pub(crate) fn freed_bytes(&self) -> u64 {
        self.freed.bytes
    }

    /// Counts a request served.
    pub(crate) fn served(&mut self, kind: Served) {
        let counted = &mut self.kind_counts[kind as usize];
        *counted = counted.saturating_add(1);
    }

    /// Adds time in the driver's allocations and frees.
    pub(crate) fn spent_in_driver(&mut self, ns: u64) {
        self.driver_ns = self.driver_ns.saturating_add(ns);
    }

    /// Adds time in the driver or in rounds; of nested ones only the outermost adds its time.
    pub(crate) fn spent(&mut self, ns: u64) {
        self.total_ns = self.total_ns.saturating_add(ns);
    }

    /// Returns what the device was asked for.
    pub(crate) fn usage(&self) -> Usage {
        let Counted { count, bytes } = self.requested;
        Usage { count, bytes, total_ns: self.total_ns, driver_ns: self.driver_ns }
    }

    /// Returns the counters of a device, with no budget or present bytes.
    pub(crate) fn stats(&self, name: &Arc<str>) -> DeviceStats {
        DeviceStats {
            name: Arc::clone(name),
            budget_bytes: 0,
            held_bytes: 0,
            live_bytes: 0,
            returning_bytes: 0,
            cached_bytes: 0,
            staging_bytes: 0,
            pinned_bytes: 0,
            given_away_bytes: 0,
            peak_held_bytes: 0,
            peak_live_bytes: 0,
            requested_count: self.requested.count,
            requested_bytes: self.requested.bytes,
            returned_count: self.returned.count,
            returned_bytes: self.returned.bytes,
            actual_count: self.actual.count,
            actual_bytes: self.actual.bytes,
            freed_count: self.freed.count,
            freed_bytes: self.freed.bytes,
            kind_counts: self.kind_counts,
            driver_ns: self.driver_ns,
            total_ns: self.total_ns,
        }
    }
}

/// A count, and the bytes of what was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    count: u64,
    bytes: u64,
}

impl Counted {
    #[cfg_attr(target_family = "wasm", inline(never))] // The package would have it five times.
    fn add(&mut self, bytes: u64) {
        self.count = self.count.saturating_add(u64::from(bytes > 0));
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What served a request: kinds 1 to 4 of S11.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Served {
    /// The cache, at the first try.
    Cache,
    /// The driver, at the first try.
    Driver,
    /// The cache, after a round.
    CacheLater,
    /// The driver, after a round.
    DriverLater,
}

/// Nanoseconds as seconds with six decimals. Integers only: a browser's build has no use for the
/// code that formats floats.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let us = self.0 / 1_000 + u64::from(self.0 % 1_000 >= 500);
        write!(f, "{}.{:06}", us / 1_000_000, us % 1_000_000)
    }
}

/// Returns a share with two decimals, or none for 0 and for a share of nothing.
fn percent(part: u64, whole: u64) -> Option<String> {
    if part == 0 || whole == 0 {
        return None;
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    let hundredths = (part * 10_000 + whole / 2) / whole;
    Some(format!("{}.{:02}%", hundredths / 100, hundredths % 100))
}

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::report::{Counters, DeviceStats, Served, Stats, Usage, time_line};
    use std::sync::Arc;

    #[test]
    fn s11_3_zero_bytes_count_nothing() {
        let mut counters = Counters::default();
        counters.requested(0);
        counters.returned(0);
        counters.allocated(0);
        counters.freed(0);
        assert_eq!(counters.stats(&Arc::default()), DeviceStats::default());
    }

    #[test]
    fn s11_2_each_call_raises_its_own_count_and_bytes() {
        let mut counters = Counters::default();
        counters.requested(1);
        counters.requested(10);
        counters.returned(2);
        counters.allocated(512);
        counters.freed(1024);
        for (kind, times) in [
            (Served::Cache, 1),
            (Served::Driver, 2),
            (Served::CacheLater, 3),
            (Served::DriverLater, 4),
        ] {
            (0..times).for_each(|_| counters.served(kind));
        }
        counters.spent(7);
        counters.spent(u64::MAX);
        counters.spent_in_driver(3);
        let expected = DeviceStats {
            requested_count: 2,
            requested_bytes: 11,
            returned_count: 1,
            returned_bytes: 2,
            actual_count: 1,
            actual_bytes: 512,
            freed_count: 1,
            freed_bytes: 1024,
            kind_counts: [1, 2, 3, 4],
            driver_ns: 3,
            total_ns: u64::MAX,
            ..DeviceStats::default()
        };
        assert_eq!(counters.stats(&Arc::default()), expected);
    }

    /// Statistics in which each number is another, from `from` on.
    fn numbered(name: &str, from: u64) -> DeviceStats {
        let mut next = from..;
        let mut n = || next.next().expect("endless");
        DeviceStats {
            name: Arc::from(name),
            budget_bytes: n(),
            held_bytes: n(),
            live_bytes: n(),
            returning_bytes: n(),
            cached_bytes: n(),
            staging_bytes: n(),
            pinned_bytes: n(),
            given_away_bytes: n(),
            peak_held_bytes: n(),
            peak_live_bytes: n(),
            requested_count: n(),
            requested_bytes: n(),
            returned_count: n(),
            returned_bytes: n(),
            actual_count: n(),
            actual_bytes: n(),
            freed_count: n(),
            freed_bytes: n(),
            kind_counts: [n(), n(), n(), n()],
            driver_ns: n(),
            total_ns: n(),
        }
    }

    fn numbers(stats: &DeviceStats) -> Vec<u64> {
        let text = format!("{stats:?}").replace("u64", "");
        let digits = |c: char| !c.is_ascii_digit();
        text.split(digits)
            .filter(|part| !part.is_empty())
            .map(|n| n.parse().expect("digits"))
            .collect()
    }

    #[test]
    fn s11_2_the_sum_adds_every_number_and_saturates() {
        let stats = Stats::of(vec![numbered("a", 100), numbered("b", 1000)]);
        assert_eq!(stats.devices.len(), 2);
        assert_eq!(numbers(&stats.sum), (0..24).map(|n| 1100 + 2 * n).collect::<Vec<_>>());
        assert_eq!(&*stats.sum.name, "sum");
        let unbounded = DeviceStats { budget_bytes: u64::MAX, ..numbered("c", 1) };
        assert_eq!(Stats::of(vec![unbounded, numbered("d", 1)]).sum.budget_bytes, u64::MAX);
        assert_eq!(numbers(&Stats::of(Vec::new()).sum), [0; 24]);
    }

    #[test]
    fn s11_2_statistics_print_counts_as_counts_and_bytes_as_sizes() {
        let mut stats = numbered("gpu", 1);
        (stats.budget_bytes, stats.requested_bytes, stats.total_ns) = (1 << 30, 3 << 20, 1_500_000);
        let device = "\
gpu: 2 bytes held of 1 GiB, peak 9 bytes
  3 bytes live, peak 10 bytes; 4 bytes returning, 5 bytes cached, 6 bytes staging, \
7 bytes pinned, 8 bytes given away
  requested 11 allocations: 3 MiB
  returned  13 allocations: 14 bytes
  allocated by the driver 15 allocations: 16 bytes
  freed by the driver     17 allocations: 18 bytes
  served at once by the cache 19, by the driver 20, after a round by the cache 21, \
by the driver 22
  0.001500 seconds in rig, 0.000000 of them in drivers";
        assert_eq!(Stats::of(vec![stats.clone()]).to_string(), device);
        stats.budget_bytes = u64::MAX;
        let two = Stats::of(vec![stats.clone(), stats]).to_string();
        assert!(two.starts_with("gpu: 2 bytes held of unbounded"), "{two}");
        assert!(two.contains("\nsum: 4 bytes held of unbounded, peak 18 bytes\n"), "{two}");
        assert!(two.contains("\n  requested 22 allocations: 6 MiB\n"), "{two}");
    }

    #[test]
    fn s11_5_the_time_line_leaves_out_what_is_0() {
        let none = Usage::default();
        assert_eq!(time_line(1_234_567_500, none, none), "  1.234568 seconds");
        assert_eq!(time_line(123_456_789_000_000, none, none), "123456.789000 seconds");
        assert!(time_line(u64::MAX, none, none).starts_with("18446744073.709552 "));
        let one = Usage { count: 1, bytes: 1 << 20, ..none };
        assert_eq!(time_line(0, one, none), "  0.000000 seconds (1 host allocation: 1 MiB)");
        let time = Usage { total_ns: 1_000, ..none };
        assert_eq!(time_line(9_000, time, time), "  0.000009 seconds");
        let all = Usage { count: 3, bytes: 1000, total_ns: 1_000_000, driver_ns: 333_333 };
        assert_eq!(
            time_line(3_000_000, Usage { driver_ns: 0, ..all }, all),
            "  0.003000 seconds (3 host allocations: 1000 bytes, 33.33% rig time) \
             (3 device allocations: 1000 bytes, 33.33% rig time of which 33.33% in drivers)"
        );
        let whole = Usage { count: 1, bytes: 1, total_ns: u64::MAX, driver_ns: u64::MAX };
        let line = time_line(u64::MAX, none, whole);
        assert!(line.ends_with("1 byte, 100.00% rig time of which 100.00% in drivers)"), "{line}");
    }

    #[test]
    fn s11_5_usage_is_what_was_asked_since() {
        let before = numbered("d", 5).usage();
        let after = numbered("d", 8).usage();
        let three = Usage { count: 3, bytes: 3, total_ns: 3, driver_ns: 3 };
        assert_eq!(after.since(before), three);
        assert_eq!(before.since(after), Usage::default());
    }
}
