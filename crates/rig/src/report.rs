//! Statistics, the out-of-memory report and snapshots: plain data in bytes, counts and nanoseconds.
//!
//! Everything here is a copy of numbers as they stood at one moment. It keeps no buffer alive,
//! takes no lock and calls nothing, so any thread may hold it, and all of it serializes.

mod quoted;
mod stats;
mod text;

pub(crate) use crate::report::quoted::Quoted;
pub(crate) use crate::report::stats::{Counters, Served};
pub use crate::report::stats::{DeviceStats, Stats, Usage, time_line};
pub(crate) use crate::report::text::{Piece, put, text};

use std::fmt::{Display, Formatter};
use std::sync::Arc;

/// Why an allocation found no room: what was asked, what the budget holds, and what each round
/// of reclaim returned and had to keep (S11.1). It prints as a picture for a person.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Report {
    /// The bytes asked for.
    pub asked_bytes: u64,
    /// The bytes that the allocation takes: its bin's.
    pub bin_bytes: u64,
    /// The device whose budget is charged.
    pub payer: Arc<str>,
    /// The payer's budget; `u64::MAX` is unbounded.
    pub budget_bytes: u64,
    /// Bytes in buffers that somebody can reach.
    pub live_bytes: u64,
    /// Bytes on their way back: unreachable, and waiting for the work that used them.
    pub returning_bytes: u64,
    /// Bytes waiting for reuse.
    pub cached_bytes: u64,
    /// Bytes of host memory that copies pass through.
    pub staging_bytes: u64,
    /// Bytes of live Pinned memory that the payer pays for.
    pub pinned_bytes: u64,
    /// Bytes lent to the program and without handles since: outside the budget (S4.16).
    pub given_away_bytes: u64,
    /// The largest entry of the cache.
    pub largest_cached_bytes: u64,
    /// The 10 greatest live totals by label, greatest first.
    pub labels: Vec<LabelTotal>,
    /// Live totals by the place that created them; only with `RIG_TRACE_POOL`.
    pub sites: Vec<SiteTotal>,
    /// The rounds that were run, in order; none where no round could help.
    pub rounds: Vec<Round>,
    /// Whether the form that never reclaims failed (S10.12).
    pub immediate: bool,
}

/// The live bytes under one label.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct LabelTotal {
    /// The label; empty for allocations without one.
    pub label: Arc<str>,
    /// Their bytes.
    pub bytes: u64,
    /// How many they are.
    pub count: u64,
}

/// The live bytes created at one place of the program.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct SiteTotal {
    /// The file, line and column.
    pub site: Arc<str>,
    /// The bytes of the allocations made there.
    pub bytes: u64,
    /// How many they are.
    pub count: u64,
}

/// What one round of reclaim came to.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Round {
    /// The bytes that it returned.
    pub returned_bytes: u64,
    /// The bytes whose work it waited for.
    pub waited_bytes: u64,
    /// What it could not return.
    pub kept: Kept,
}

/// What a round could not return, by reason.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Kept {
    /// In buffers that somebody can reach.
    pub live_bytes: u64,
    /// Under a claim.
    pub claimed_bytes: u64,
    /// In an export.
    pub exported_bytes: u64,
    /// Lent to the program.
    pub lent_bytes: u64,
    /// Mapped by another device.
    pub mapped_bytes: u64,
    /// Used by work not reached yet, by the name of the device that runs it.
    pub unreached: Vec<(Arc<str>, u64)>,
    /// Used by a lost device that has not settled.
    pub lost_bytes: u64,
}

/// What a trim or a freed cache gave back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Returned {
    /// The bytes that went back to the driver meanwhile, those among them that earlier calls left
    /// pending.
    pub returned_bytes: u64,
    /// The bytes that go back once the work before them is reached (S9.4), whichever call took
    /// them out.
    pub pending_bytes: u64,
}

/// Everything about every device at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Snapshot {
    /// Each device, in the order of their indices.
    pub devices: Vec<DeviceSnapshot>,
}

/// Everything about one device at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct DeviceSnapshot {
    /// The device's name.
    pub name: Arc<str>,
    /// Its driver's name.
    pub driver: &'static str,
    /// The hardware's name.
    pub architecture: Arc<str>,
    /// The device's index.
    pub index: u64,
    /// The last value assigned.
    pub submitted: u64,
    /// The last value reached.
    pub reached: u64,
    /// Why the device was lost, if it was.
    pub lost: Option<Arc<str>>,
    /// Its statistics.
    pub stats: DeviceStats,
}

impl Report {
    /// Returns the bytes that the payer held: every place together (S10.2).
    pub fn held_bytes(&self) -> u64 {
        [self.live_bytes, self.returning_bytes, self.cached_bytes, self.staging_bytes]
            .into_iter()
            .fold(self.pinned_bytes, u64::saturating_add)
    }

    fn put_places(&self, text: &mut String) {
        let (held, budget) = (Size(self.held_bytes()), Bound(self.budget_bytes));
        put!(text, "\n", self.payer, " holds ", held, ", its budget is ", budget, ":");
        put!(text, "\n  ", Size(self.live_bytes), " live, in buffers that are still in use\n  ");
        let returning = Size(self.returning_bytes);
        put!(text, returning, " returning, dropped and waiting for the work that used them\n  ");
        put!(text, Size(self.cached_bytes), " cached, waiting to be used again, the largest ");
        put!(text, Size(self.largest_cached_bytes), "\n  ");
        put!(text, Size(self.staging_bytes), " staging, which copies pass through\n  ");
        put!(text, Size(self.pinned_bytes), " pinned, page-locked host memory in use");
        if self.given_away_bytes > 0 {
            let given_away = Size(self.given_away_bytes);
            put!(text, "\noutside the budget, ", given_away);
            put!(text, " lent to the program and given away");
        }
    }

    fn put_rounds(&self, text: &mut String) {
        if self.rounds.is_empty() {
            let why = if self.immediate {
                "this call never waits, while create_buffer reclaims before it fails"
            } else if self.asked_bytes > self.budget_bytes {
                "more was asked for than the whole budget"
            } else {
                "none could have helped"
            };
            put!(text, "\nno round of reclaim was run: ", why);
        }
        for (number, round) in (1..).zip(&self.rounds) {
            let (returned, waited) = (Size(round.returned_bytes), Size(round.waited_bytes));
            put!(text, "\nround ", number, " waited for ", waited, " and returned ", returned);
            put!(text, ", ", &round.kept);
        }
    }
}

impl Piece for &Report {
    fn put(self, text: &mut String) {
        put!(text, "asked for ", Size(self.asked_bytes), " of ", self.payer);
        if self.bin_bytes > self.asked_bytes {
            put!(text, ", as an allocation of ", Size(self.bin_bytes));
        }
        self.put_places(text);
        self.put_rounds(text);
        if !self.labels.is_empty() {
            put!(text, "\nthe greatest live totals by label:");
        }
        for total in &self.labels {
            put!(text, "\n  ", Size(total.bytes), " in ", Count(total.count, "allocation"));
            match &*total.label {
                "" => put!(text, " without a label"),
                label => put!(text, " labelled ", Quoted(label)),
            }
        }
        if !self.sites.is_empty() {
            put!(text, "\nlive totals by the place that created them:");
        }
        for total in &self.sites {
            put!(text, "\n  ", Size(total.bytes), " in ", Count(total.count, "allocation"));
            put!(text, " from ", total.site);
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text!(self))
    }
}

impl Piece for &Kept {
    fn put(self, text: &mut String) {
        let mut between = "kept ";
        let mut tell = |bytes: u64, reason: &str, name: &str| {
            if bytes > 0 {
                put!(text, std::mem::replace(&mut between, ", "), Size(bytes), " ", reason, name);
            }
        };
        tell(self.live_bytes, "live", "");
        tell(self.claimed_bytes, "claimed", "");
        tell(self.exported_bytes, "exported", "");
        tell(self.lent_bytes, "lent", "");
        tell(self.mapped_bytes, "mapped", "");
        for (name, bytes) in &self.unreached {
            tell(*bytes, "unreached on ", name);
        }
        tell(self.lost_bytes, "used by a lost device", "");
        if between == "kept " {
            put!(text, "kept nothing");
        }
    }
}

impl Display for Kept {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text!(self))
    }
}

/// Bytes for people, and exact: in the greatest unit that they are a whole number of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size(pub(crate) u64);

impl Piece for Size {
    fn put(self, text: &mut String) {
        let power = if self.0 == 0 { 0 } else { self.0.trailing_zeros() / 10 };
        match power {
            0 => put!(text, Count(self.0, "byte")),
            _ => put!(text, self.0 >> (10 * power), " ", UNITS[power as usize - 1]),
        }
    }
}

/// A budget for people.
#[derive(Clone, Copy)]
struct Bound(u64);

impl Piece for Bound {
    fn put(self, text: &mut String) {
        if self.0 == u64::MAX { put!(text, "unbounded") } else { put!(text, Size(self.0)) }
    }
}

/// A number of things.
#[derive(Clone, Copy)]
struct Count(u64, &'static str);

impl Piece for Count {
    fn put(self, text: &mut String) {
        put!(text, self.0, " ", self.1, if self.0 == 1 { "" } else { "s" });
    }
}

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::report::{Kept, LabelTotal, Report, Round, SiteTotal, Size, text};

    fn full_report() -> Report {
        let kept = Kept { live_bytes: 1 << 20, ..Kept::default() };
        let last = Kept {
            live_bytes: 1,
            claimed_bytes: 2,
            exported_bytes: 3,
            lent_bytes: 4,
            mapped_bytes: 5,
            unreached: vec![("gpu".into(), 6), ("other".into(), 0), ("third".into(), 1024)],
            lost_bytes: 7,
        };
        Report {
            asked_bytes: 262_145,
            bin_bytes: 294_912,
            payer: "M".into(),
            budget_bytes: 1 << 20,
            live_bytes: 512 << 10,
            returning_bytes: 256 << 10,
            cached_bytes: 128 << 10,
            staging_bytes: 64 << 10,
            pinned_bytes: 64 << 10,
            given_away_bytes: 1 << 30,
            largest_cached_bytes: 65_536,
            labels: vec![
                LabelTotal { label: "we\"ights\n".into(), bytes: 1 << 19, count: 4 },
                LabelTotal { label: "".into(), bytes: 7, count: 1 },
            ],
            sites: vec![SiteTotal { site: "main.rs:3:5".into(), bytes: 1 << 19, count: 4 }],
            rounds: vec![
                Round { returned_bytes: 0, waited_bytes: 4096, kept: Kept::default() },
                Round { returned_bytes: 1, waited_bytes: 0, kept },
                Round { returned_bytes: 2, waited_bytes: 0, kept: last },
            ],
            immediate: false,
        }
    }

    #[test]
    fn s11_1_the_report_prints_what_was_asked_each_place_each_round_and_each_label() {
        let expected = "\
asked for 262145 bytes of M, as an allocation of 288 KiB
M holds 1 MiB, its budget is 1 MiB:
  512 KiB live, in buffers that are still in use
  256 KiB returning, dropped and waiting for the work that used them
  128 KiB cached, waiting to be used again, the largest 64 KiB
  64 KiB staging, which copies pass through
  64 KiB pinned, page-locked host memory in use
outside the budget, 1 GiB lent to the program and given away
round 1 waited for 4 KiB and returned 0 bytes, kept nothing
round 2 waited for 0 bytes and returned 1 byte, kept 1 MiB live
round 3 waited for 0 bytes and returned 2 bytes, kept 1 byte live, 2 bytes claimed, \
3 bytes exported, 4 bytes lent, 5 bytes mapped, 6 bytes unreached on gpu, \
1 KiB unreached on third, 7 bytes used by a lost device
the greatest live totals by label:
  512 KiB in 4 allocations labelled \"we\\\"ights\\n\"
  7 bytes in 1 allocation without a label
live totals by the place that created them:
  512 KiB in 4 allocations from main.rs:3:5";
        assert_eq!(full_report().to_string(), expected);
    }

    #[test]
    fn s10_6_and_s10_12_a_report_without_rounds_says_why_there_were_none() {
        let mut report = Report { asked_bytes: 2, bin_bytes: 2, ..Report::default() };
        let text = report.to_string();
        assert!(text.ends_with("was run: more was asked for than the whole budget"), "{text}");
        assert!(!text.contains("outside the budget") && !text.contains("as an allocation"));
        report.budget_bytes = u64::MAX;
        let text = report.to_string();
        assert!(text.contains("its budget is unbounded"), "{text}");
        assert!(text.ends_with("was run: none could have helped"), "{text}");
        report.immediate = true;
        assert!(report.to_string().ends_with("create_buffer reclaims before it fails"));
    }

    #[test]
    fn s10_2_a_report_holds_every_place_and_nothing_given_away() {
        assert_eq!(full_report().held_bytes(), 1 << 20);
        let huge = Report { live_bytes: u64::MAX, cached_bytes: 1, ..Report::default() };
        assert_eq!(huge.held_bytes(), u64::MAX);
    }

    #[test]
    fn s11_1_sizes_are_exact_in_the_greatest_whole_unit() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1025, "1025 bytes"),
            (1536, "1536 bytes"),
            (256 << 10, "256 KiB"),
            (1 << 20, "1 MiB"),
            (3 << 19, "1536 KiB"),
            (3 << 30, "3 GiB"),
            (1 << 40, "1 TiB"),
            (1 << 50, "1 PiB"),
            (1 << 63, "8 EiB"),
            (u64::MAX, "18446744073709551615 bytes"),
        ] {
            assert_eq!(text!(Size(bytes)), text);
        }
    }
}
