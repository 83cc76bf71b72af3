//! The usage history of one bin, and how much of it may go: arithmetic only.
//!
//! A window remembers the greatest used count of the present span and of the five spans before it;
//! a span ends with a scan. What lies above the greatest of the six was needed by nobody for six
//! scans, so it goes. The invariant: the present greatest is at least the used count, because it
//! is noted after the counts changed. Any thread may call anything here; nothing takes a lock.

/// Used counts of one bin over six scans (S9.12).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    used: Greatest,
    changed: bool,
}

impl Window {
    /// Starts with six unbounded counts: nothing goes before six scans.
    pub(crate) const fn new() -> Self {
        Self { used: Greatest::new(u64::MAX), changed: false }
    }

    /// Notes the used count after it rose.
    #[inline]
    pub(crate) const fn note(&mut self, used: u64) {
        self.used.note(used);
        self.changed = true;
    }

    /// Notes that the used count fell.
    #[inline]
    pub(crate) const fn note_less(&mut self) {
        self.changed = true;
    }

    /// Ends the present span (S9.13); an empty bin starts anew. Returns whether the bin changed in
    /// that span.
    pub(crate) const fn scan(&mut self, counts: Counts) -> bool {
        let changed = self.changed;
        if counts.used == 0 && counts.available == 0 {
            *self = Self::new();
        } else {
            self.used.scan(counts.used);
            self.changed = false;
        }
        changed
    }

    /// Returns how many of the available ones may go (S9.14); once they went, 0.
    pub(crate) const fn reclaimable(&self, counts: Counts) -> u64 {
        let all = counts.used.saturating_add(counts.available);
        let above = all.saturating_sub(self.used.greatest());
        if above < counts.available { above } else { counts.available }
    }
}

/// What belongs to one bin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Live and returning ones.
    pub(crate) used: u64,
    /// Cached ones.
    pub(crate) available: u64,
}

/// The greatest of a number in the present span and in the five before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Greatest {
    present: u64,
    past_greatest: u64,
    /// Oldest first.
    past: [u64; PAST_COUNT],
}

impl Greatest {
    /// Starts with six times `first`.
    pub(crate) const fn new(first: u64) -> Self {
        Self { present: first, past_greatest: first, past: [first; PAST_COUNT] }
    }

    /// Notes the number after it changed.
    #[inline]
    pub(crate) const fn note(&mut self, number: u64) {
        if number > self.present {
            self.present = number;
        }
    }

    /// Ends the present span: drops the oldest, appends the greatest, resets it to `number`.
    pub(crate) const fn scan(&mut self, number: u64) {
        let [_, second, third, fourth, fifth] = self.past;
        self.past = [second, third, fourth, fifth, self.present];
        self.present = number;
        self.past_greatest = 0;
        let mut index = 0;
        while index < PAST_COUNT {
            if self.past[index] > self.past_greatest {
                self.past_greatest = self.past[index];
            }
            index += 1;
        }
    }

    /// Returns the greatest of the six.
    #[inline]
    pub(crate) const fn greatest(&self) -> u64 {
        if self.present > self.past_greatest { self.present } else { self.past_greatest }
    }
}

/// How long after one scan the next one comes (S9.15).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    unchanged_count: usize,
}

impl Pace {
    /// Returns the milliseconds to the next scan after one that found changed bins.
    pub(crate) const fn after_changes(&mut self) -> u64 {
        self.unchanged_count = 0;
        1_000
    }

    /// Returns the milliseconds to the next scan after one that found all bins as they were.
    pub(crate) const fn after_none(&mut self) -> u64 {
        let steps_ms = [2_000, 4_000, 5_000];
        let step = self.unchanged_count;
        self.unchanged_count = step.saturating_add(1);
        if step < steps_ms.len() { steps_ms[step] } else { 5_000 }
    }
}

const PAST_COUNT: usize = 5;

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::window::{Counts, Greatest, Pace, Window};

    /// A bin as the cache counts it.
    struct Bin {
        counts: Counts,
        window: Window,
    }

    impl Bin {
        fn new() -> Self {
            Self { counts: Counts::default(), window: Window::new() }
        }

        /// A bin whose six counts are `used` already, with nothing available.
        fn steady(used: u64) -> Self {
            let mut bin = Self::new();
            bin.take(used);
            for _ in 0..6 {
                bin.scan();
            }
            bin
        }

        fn take(&mut self, count: u64) {
            for _ in 0..count {
                self.counts.used += 1;
                self.counts.available = self.counts.available.saturating_sub(1);
                self.window.note(self.counts.used);
            }
        }

        fn give_back(&mut self, count: u64) {
            for _ in 0..count {
                self.counts.used -= 1;
                self.counts.available += 1;
                self.window.note_less();
            }
        }

        fn scan(&mut self) -> bool {
            self.window.scan(self.counts)
        }

        fn reclaim(&mut self) -> u64 {
            let count = self.window.reclaimable(self.counts);
            self.counts.available -= count;
            count
        }

        /// What goes at each of the next scans.
        fn scans(&mut self, count: usize) -> Vec<u64> {
            (0..count)
                .map(|_| {
                    self.scan();
                    self.reclaim()
                })
                .collect()
        }
    }

    #[test]
    fn s9_14_4_taken_and_4_returned_go_at_scan_6() {
        let mut bin = Bin::new();
        bin.take(4);
        bin.give_back(4);
        assert_eq!(bin.reclaim(), 0);
        assert_eq!(bin.scans(8), [0, 0, 0, 0, 0, 4, 0, 0]);
    }

    #[test]
    fn s9_14_4_taken_and_2_returned_go_at_scan_6() {
        let mut bin = Bin::new();
        bin.take(4);
        bin.give_back(2);
        assert_eq!(bin.reclaim(), 0);
        assert_eq!(bin.scans(8), [0, 0, 0, 0, 0, 2, 0, 0]);
    }

    #[test]
    fn s9_13_a_spike_between_two_scans_leaves_the_window_at_scan_6() {
        let mut bin = Bin::steady(2);
        bin.counts.available = 2;
        bin.take(2);
        bin.give_back(2);
        assert_eq!(bin.reclaim(), 0);
        assert_eq!(bin.scans(8), [0, 0, 0, 0, 0, 2, 0, 0]);
    }

    #[test]
    fn s9_14_steady_counts_return_exactly_what_lies_above_the_used() {
        for (used, all, reclaim) in [(4, 5, 1), (9, 10, 1), (8, 10, 2), (9, 11, 2)] {
            let mut bin = Bin::steady(used);
            bin.counts.available = all - used;
            assert_eq!(bin.reclaim(), reclaim, "({used}, {all})");
            assert_eq!(bin.reclaim(), 0, "({used}, {all}), again");
        }
    }

    #[test]
    fn s9_14_trim_twice_returns_4_then_0() {
        let mut bin = Bin::steady(5);
        bin.take(1);
        bin.give_back(1);
        bin.counts.available = 5;
        assert_eq!(bin.counts, Counts { used: 5, available: 5 });
        assert_eq!(bin.reclaim(), 4);
        assert_eq!(bin.reclaim(), 0);
    }

    #[test]
    fn s9_12_at_first_all_counts_are_unbounded() {
        let bin = Window::new();
        for available in [0, 1, u64::MAX] {
            assert_eq!(bin.reclaimable(Counts { used: 0, available }), 0);
        }
    }

    #[test]
    fn s9_13_an_empty_bin_starts_anew() {
        let mut bin = Bin::steady(2);
        bin.counts = Counts::default();
        bin.scan();
        bin.take(2);
        bin.counts.available = 3;
        assert_eq!(bin.reclaim(), 0, "all six are unbounded again");
        assert_eq!(bin.scans(6), [0, 0, 0, 0, 0, 3]);
    }

    #[test]
    fn s9_14_no_count_wraps_around() {
        let mut window = Window::new();
        let one = Counts { used: 1, available: 0 };
        for _ in 0..6 {
            window.scan(one);
        }
        let most = Counts { used: u64::MAX, available: u64::MAX };
        assert_eq!(window.reclaimable(most), u64::MAX - 1);
        assert_eq!(window.reclaimable(Counts { used: 0, available: u64::MAX }), u64::MAX - 1);
        assert_eq!(window.reclaimable(Counts { used: 9, available: 1 }), 1);
        assert_eq!(window.reclaimable(Counts { used: 0, available: 0 }), 0);
        assert_eq!(window.reclaimable(Counts { used: 0, available: 1 }), 0);
    }

    #[test]
    fn s9_14_the_window_keeps_the_naive_greatest_of_six() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut window = Greatest::new(0);
        let mut spans = vec![0; 6];
        for _ in 0..if cfg!(miri) { 200 } else { 2_000 } {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let number = state % 50;
            if state & 0x700 == 0 {
                window.scan(number);
                spans.push(number);
            } else {
                window.note(number);
                let last = spans.last_mut().unwrap();
                *last = number.max(*last);
            }
            assert_eq!(window.greatest(), *spans[spans.len() - 6..].iter().max().unwrap());
        }
    }

    #[test]
    fn s9_15_a_bin_changed_when_anything_was_taken_or_returned_since_the_last_scan() {
        let mut bin = Bin::new();
        assert!(!bin.scan());
        bin.take(2);
        assert!(bin.scan());
        assert!(!bin.scan());
        bin.give_back(1);
        assert!(bin.scan());
        bin.take(1);
        bin.give_back(1);
        assert!(bin.scan());
        bin.give_back(1);
        bin.take(1);
        assert!(bin.scan());
        bin.reclaim();
        assert!(!bin.scan());
    }

    #[test]
    fn s9_15_scans_of_a_bin_left_alone_come_at_0_1_3_7_12_and_17_s() {
        let mut bin = Bin::new();
        let mut pace = Pace::default();
        bin.take(4);
        bin.give_back(4);
        let (mut now_ms, mut times_ms) = (0, Vec::new());
        for _ in 0..8 {
            times_ms.push(now_ms);
            now_ms += if bin.scan() { pace.after_changes() } else { pace.after_none() };
        }
        assert_eq!(times_ms, [0, 1_000, 3_000, 7_000, 12_000, 17_000, 22_000, 27_000]);
    }

    #[test]
    fn s9_15_a_change_brings_the_next_scan_after_1_s_again() {
        let mut pace = Pace::default();
        let unchanged = [pace.after_none(), pace.after_none(), pace.after_none()];
        assert_eq!(unchanged, [2_000, 4_000, 5_000]);
        assert_eq!(pace.after_changes(), 1_000);
        assert_eq!(pace.after_changes(), 1_000);
        assert_eq!(pace.after_none(), 2_000);
    }
}
