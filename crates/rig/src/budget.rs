//! Bytes held against bytes allowed: the books of one payer, arithmetic only.
//!
//! Every byte a driver handed out for a payer is in exactly one place: live, returning, cached,
//! staging or pinned. The invariant (S10.2): their sum is what drivers handed out. Room is
//! reserved ahead of a driver's call (S10.3), and what is held and reserved is never taken above
//! the budget. A broken book is a panic that names it; a caller's request never is. Plain integers
//! without a lock: the owner guards them with one of its own.

/// What one payer may hold, and where what it holds is.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    budget_bytes: u64,
    places_bytes: [u64; PLACE_COUNT],
    handed_out_bytes: u64,
    given_away_bytes: u64,
    peaks: Peaks,
}

impl Budget {
    /// Makes the books of a payer that holds nothing; `u64::MAX` is unbounded.
    pub(crate) const fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            places_bytes: [0; PLACE_COUNT],
            handed_out_bytes: 0,
            given_away_bytes: 0,
            peaks: Peaks { held_bytes: 0, live_bytes: 0 },
        }
    }

    /// Returns the most bytes the payer may hold.
    pub(crate) const fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Changes the budget. What is held stays, above it too (S10.4).
    pub(crate) const fn set_budget_bytes(&mut self, budget_bytes: u64) {
        self.budget_bytes = budget_bytes;
    }

    /// Returns the bytes in one place.
    pub(crate) const fn bytes_in(&self, place: Where) -> u64 {
        self.places_bytes[place as usize]
    }

    /// Returns what drivers handed out for this payer (S10.2): all places but what is reserved.
    pub(crate) const fn held(&self) -> u64 {
        self.handed_out_bytes
    }

    /// Returns the bytes of lent memory that left the books (S4.16).
    pub(crate) const fn given_away_bytes(&self) -> u64 {
        self.given_away_bytes
    }

    /// Returns how many bytes can still be reserved.
    pub(crate) const fn room_bytes(&self) -> u64 {
        self.budget_bytes.saturating_sub(self.charged_bytes())
    }

    /// Returns how many bytes the payer is above its budget, reserved ones included.
    pub(crate) const fn over_bytes(&self) -> u64 {
        self.charged_bytes().saturating_sub(self.budget_bytes)
    }

    /// Reserves room ahead of a driver's call; false, and nothing changed, without room (S10.3).
    #[must_use]
    pub(crate) const fn reserve(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.room_bytes();
        if fits {
            self.add(Where::Reserved, bytes);
        }
        fits
    }

    /// Hands room back that a driver did not fill.
    pub(crate) const fn unreserve(&mut self, bytes: u64) {
        self.take(Where::Reserved, bytes);
    }

    /// Moves bytes from one place to another. From [`Where::Reserved`], a driver handed them out.
    ///
    /// # Panics
    ///
    /// If they are not there, or if bytes that a driver handed out would become reserved.
    #[inline]
    pub(crate) const fn shift(&mut self, from: Where, to: Where, bytes: u64) {
        self.take(from, bytes);
        self.add(to, bytes);
        match (from, to) {
            (Where::Reserved, Where::Reserved) => {}
            (Where::Reserved, _) => {
                self.handed_out_bytes += bytes;
                self.peaks.held_bytes = greater(self.peaks.held_bytes, self.handed_out_bytes);
            }
            (_, Where::Reserved) => panic!("bytes that a driver handed out are never reserved"),
            _ => {}
        }
        if matches!(to, Where::Live) {
            self.peaks.live_bytes = greater(self.peaks.live_bytes, self.bytes_in(Where::Live));
        }
    }

    /// Takes bytes off the books that went back to their driver.
    ///
    /// # Panics
    ///
    /// If they are not there.
    pub(crate) const fn gone(&mut self, from: Where, bytes: u64) {
        self.take(from, bytes);
        if !matches!(from, Where::Reserved) {
            self.handed_out_bytes -= bytes;
        }
    }

    /// Takes lent memory without handles off the books (S4.16).
    ///
    /// # Panics
    ///
    /// If it is not there.
    pub(crate) const fn give_away(&mut self, from: Where, bytes: u64) {
        self.gone(from, bytes);
        self.given_away_bytes = self.given_away_bytes.saturating_add(bytes);
    }

    /// Notes that bytes given away before went back to their driver.
    ///
    /// # Panics
    ///
    /// If they were never given away.
    pub(crate) const fn given_back(&mut self, bytes: u64) {
        match self.given_away_bytes.checked_sub(bytes) {
            Some(rest) => self.given_away_bytes = rest,
            None => panic!("more bytes came back than were given away"),
        }
    }

    /// Returns the greatest sums since the books were opened or the peaks were reset.
    pub(crate) const fn peaks(&self) -> Peaks {
        self.peaks
    }

    /// Resets the peaks to the present sums.
    pub(crate) const fn reset_peaks(&mut self) {
        let live_bytes = self.bytes_in(Where::Live);
        self.peaks = Peaks { held_bytes: self.held(), live_bytes };
    }

    /// Checks the invariant S10.2.
    ///
    /// # Panics
    ///
    /// If it is broken.
    pub(crate) fn check(&self) {
        let sum: u128 = self.places_bytes.iter().map(|bytes| u128::from(*bytes)).sum();
        let charged =
            u128::from(self.handed_out_bytes) + u128::from(self.bytes_in(Where::Reserved));
        assert_eq!(sum, charged, "S10.2: the places sum up to what drivers handed out: {self:?}");
    }

    /// Held and reserved bytes. Each was reserved, so that the sum was within some budget.
    const fn charged_bytes(&self) -> u64 {
        self.handed_out_bytes + self.bytes_in(Where::Reserved)
    }

    const fn add(&mut self, place: Where, bytes: u64) {
        // The sum of all places was within some budget, so that no single one wraps around.
        self.places_bytes[place as usize] += bytes;
    }

    const fn take(&mut self, place: Where, bytes: u64) {
        match self.bytes_in(place).checked_sub(bytes) {
            Some(rest) => self.places_bytes[place as usize] = rest,
            None => panic!("more bytes leave a place of the books than are in it"),
        }
    }
}

/// A place in the books.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    /// Room kept for a driver's call in progress; not held.
    Reserved,
    /// In buffers that a program can reach.
    Live,
    /// Unreachable or taken out, until the driver or the cache has it.
    Returning,
    /// Waiting for reuse.
    Cached,
    /// In the halves that copies pass through.
    Staging,
    /// Live Pinned memory.
    Pinned,
}

/// The greatest sums of a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Peaks {
    pub(crate) held_bytes: u64,
    pub(crate) live_bytes: u64,
}

const fn greater(one: u64, other: u64) -> u64 {
    if one > other { one } else { other }
}

const PLACE_COUNT: usize = Where::Pinned as usize + 1;

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::budget::{Budget, Peaks, Where};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const HELD: [Where; 5] =
        [Where::Live, Where::Returning, Where::Cached, Where::Staging, Where::Pinned];

    fn with(place: Where, bytes: u64) -> Budget {
        let mut budget = Budget::new(u64::MAX);
        assert!(budget.reserve(bytes));
        budget.shift(Where::Reserved, place, bytes);
        budget
    }

    fn panics(call: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(call)).is_err()
    }

    #[test]
    fn s10_3_reserving_up_to_the_budget_succeeds_and_past_it_changes_nothing() {
        let mut budget = Budget::new(100);
        assert!(budget.reserve(0));
        assert!(budget.reserve(99));
        assert!(!budget.reserve(2));
        assert_eq!(budget.bytes_in(Where::Reserved), 99);
        assert!(budget.reserve(1));
        assert!(!budget.reserve(1));
        assert!(budget.reserve(0));
        assert_eq!((budget.held(), budget.room_bytes()), (0, 0));
        budget.check();
    }

    #[test]
    fn s10_3_reserving_never_wraps_around() {
        let mut budget = with(Where::Live, u64::MAX - 1);
        assert!(!budget.reserve(2));
        assert!(!budget.reserve(u64::MAX));
        assert!(budget.reserve(1));
        assert!(!budget.reserve(1));
        budget.shift(Where::Reserved, Where::Staging, 1);
        assert_eq!(budget.held(), u64::MAX);
        budget.check();
    }

    #[test]
    fn s10_3_room_that_a_driver_refused_is_handed_back() {
        let mut budget = Budget::new(10);
        assert!(budget.reserve(10));
        budget.unreserve(10);
        assert_eq!(budget.room_bytes(), 10);
        assert_eq!(budget.peaks(), Peaks { held_bytes: 0, live_bytes: 0 });
    }

    #[test]
    fn s10_2_each_place_counts_as_held_and_what_is_reserved_does_not() {
        for place in HELD {
            let mut budget = with(place, 7);
            assert_eq!((budget.bytes_in(place), budget.held()), (7, 7));
            assert!(budget.reserve(5));
            assert_eq!(budget.held(), 7);
            budget.check();
        }
    }

    #[test]
    fn s10_2_moves_between_places_keep_what_is_held() {
        for from in HELD {
            for to in HELD {
                let mut budget = with(from, 7);
                budget.shift(from, to, 3);
                let left = if from == to { 7 } else { 4 };
                assert_eq!((budget.bytes_in(from), budget.held()), (left, 7));
                budget.check();
                budget.gone(to, 3);
                assert_eq!(budget.held(), 4);
                budget.check();
            }
        }
    }

    #[test]
    fn s10_2_a_life_through_the_cache_ends_with_nothing_held() {
        let mut budget = with(Where::Live, 512);
        let way = [Where::Returning, Where::Cached, Where::Live, Where::Returning, Where::Cached];
        let mut place = Where::Live;
        for next in way {
            budget.shift(place, next, 512);
            assert_eq!(budget.held(), 512);
            place = next;
        }
        budget.shift(Where::Cached, Where::Returning, 512);
        budget.gone(Where::Returning, 512);
        assert_eq!(budget.held(), 0);
        budget.check();
    }

    #[test]
    fn s10_4_a_lower_budget_keeps_what_is_held_and_refuses_more() {
        let mut budget = with(Where::Live, 100);
        budget.set_budget_bytes(60);
        assert_eq!((budget.held(), budget.over_bytes(), budget.room_bytes()), (100, 40, 0));
        assert!(!budget.reserve(1));
        budget.gone(Where::Live, 50);
        assert_eq!((budget.over_bytes(), budget.room_bytes()), (0, 10));
        assert!(budget.reserve(10));
        budget.set_budget_bytes(0);
        assert_eq!(budget.over_bytes(), 60);
        assert!(!budget.reserve(1));
        assert_eq!(budget.budget_bytes(), 0);
        budget.check();
    }

    #[test]
    fn s4_16_lent_memory_without_handles_leaves_the_counts() {
        let mut budget = with(Where::Live, 100);
        budget.give_away(Where::Live, 40);
        assert_eq!((budget.held(), budget.given_away_bytes()), (60, 40));
        budget.check();
        budget.given_back(30);
        assert_eq!((budget.held(), budget.given_away_bytes()), (60, 10));
        assert!(panics(|| budget.given_back(11)));
    }

    #[test]
    fn s11_2_peaks_keep_the_greatest_until_they_are_reset() {
        let mut budget = with(Where::Live, 100);
        budget.shift(Where::Live, Where::Cached, 80);
        budget.gone(Where::Cached, 50);
        assert_eq!(budget.peaks(), Peaks { held_bytes: 100, live_bytes: 100 });
        budget.reset_peaks();
        assert_eq!(budget.peaks(), Peaks { held_bytes: 50, live_bytes: 20 });
        budget.shift(Where::Cached, Where::Live, 30);
        assert_eq!(budget.peaks(), Peaks { held_bytes: 50, live_bytes: 50 });
        budget.give_away(Where::Live, 50);
        assert_eq!(budget.peaks(), Peaks { held_bytes: 50, live_bytes: 50 });
    }

    #[test]
    fn s10_2_a_broken_book_is_a_panic() {
        for place in HELD {
            assert!(panics(|| with(place, 7).gone(place, 8)));
            assert!(panics(|| with(place, 7).shift(place, Where::Live, 8)));
            assert!(panics(|| with(place, 7).shift(place, Where::Reserved, 7)));
        }
        assert!(panics(|| Budget::new(9).unreserve(1)));
    }

    #[test]
    fn s10_3_no_sequence_of_moves_takes_held_above_the_budget() {
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let mut budget = Budget::new(1_000);
        for _ in 0..if cfg!(miri) { 500 } else { 20_000 } {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let pick = |shift: u32| HELD[(state >> shift) as usize % HELD.len()];
            let (from, to) = (pick(20), pick(40));
            let part = |bytes: u64| (state >> 8) % (bytes + 1);
            match state % 5 {
                0 => {
                    let (bytes, room) = ((state >> 8) % 300, budget.room_bytes());
                    assert_eq!(budget.reserve(bytes), bytes <= room);
                }
                1 => budget.unreserve(part(budget.bytes_in(Where::Reserved))),
                2 => {
                    let bytes = part(budget.bytes_in(Where::Reserved));
                    budget.shift(Where::Reserved, to, bytes);
                }
                3 => budget.shift(from, to, part(budget.bytes_in(from))),
                _ => budget.gone(from, part(budget.bytes_in(from))),
            }
            budget.check();
            assert!(budget.held() + budget.bytes_in(Where::Reserved) <= 1_000);
            assert_eq!(HELD.map(|place| budget.bytes_in(place)).iter().sum::<u64>(), budget.held());
        }
        assert!(budget.peaks().held_bytes > if cfg!(miri) { 0 } else { 900 });
    }
}
