//! The claims on one allocation: kept ones, access claims and momentary ones, in one word.
//!
//! The table of semantics section S5 is [`Claims::ask`]. Nothing here waits: an answer says
//! whether the asker waits, and a bit remembers that somebody does, so that a release wakes only
//! then. The word also says that the allocation is dead or outside the claims, so that no claim
//! is ever granted beside a death. Momentary claims of a device on its own memory are marks, in a
//! word of their own. Any thread may call anything; no lock is taken.

mod mark;

pub(crate) use crate::claim::mark::{Mark, Marking, Marks};

use crate::sync::{AtomicU64, Ordering};

/// The claims held, as one word.
#[derive(Debug)]
pub(crate) struct Claims {
    word: AtomicU64,
    /// The last hand-over that marked the memory, see [`Marks`].
    mark: AtomicU64,
}

/// A claim asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    /// The caller's, to read, until released.
    KeptRead,
    /// The caller's alone, until released. Granted as a read where that cannot be.
    KeptExclusive,
    /// A copy, blit or fill, or a blocking access still waiting: others wait for its end.
    MoverRead,
    /// The same, writing.
    MoverWrite,
    /// A running closure, beside which conflicting work is refused.
    ClosureRead,
    /// The same, writing.
    ClosureWrite,
    /// Device work that reads, until its stamps are up.
    MomentaryRead,
    /// Device work that writes, until its stamps are up.
    MomentaryWrite,
    /// Takes the memory outside the claims for good; holds nothing.
    Export,
    /// Makes the allocation dead; holds nothing.
    Free,
}

/// The answer to an [`Ask`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// It is held now.
    Granted,
    /// A [`Ask::KeptRead`] is held instead of the exclusive claim.
    AsRead,
    /// Refused.
    Busy,
    /// Ask again when a claim is released.
    Waits,
    /// The allocation is dead.
    Dead,
}

/// Whether the asker acts under the exclusive claim that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pass {
    /// No.
    No,
    /// Yes: that claim does not stand in its way (S5.5).
    Exclusive,
    /// No; and device work does not stand in its way, which mixes the bytes at worst (S6.5).
    Mixed,
}

impl Claims {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), mark: AtomicU64::new(0) }
    }

    /// Asks for a claim, and holds it if it is granted; marks stand in nobody's way here.
    #[inline]
    pub(crate) fn ask(&self, ask: Ask, pass: Pass) -> Answer {
        if let Some(in_the_way) = in_the_way(ask) {
            let word = self.word.load(Ordering::Relaxed);
            let next = word + unit(ask);
            // ORDERING: as in `ask_all`.
            let exchange =
                |word| self.word.compare_exchange(word, next, Ordering::SeqCst, Ordering::Relaxed);
            if word & in_the_way == 0 && exchange(word).is_ok() {
                return Answer::Granted;
            }
        }
        self.ask_all(ask, pass)
    }

    /// Asks by the whole table.
    fn ask_all(&self, ask: Ask, pass: Pass) -> Answer {
        // ORDERING: an answer without an exchange is about what others did: that is seen.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let (answer, next) = judge(word, ask, pass);
            if next == word {
                return answer;
            }
            // ORDERING: acquires what was done under the claims released before, and releases what
            // led to a death, to `is_dead`. All changes of the word are exchanges, so a later one
            // hides no release. Sequentially consistent, for the look at the mark that follows.
            match self.word.compare_exchange_weak(word, next, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => return answer,
                Err(now) => word = now,
            }
        }
    }

    /// Releases a claim that is held; answers whether somebody waits and has to be woken.
    #[inline]
    pub(crate) fn release(&self, ask: Ask) -> bool {
        // ORDERING: releases what was done under the claim, to the next ask. One word decides what
        // comes first: either the bit is seen here, or whoever sets it sees the release.
        let before = self.word.fetch_sub(unit(ask), Ordering::Release);
        debug_assert!(held(before, ask), "a claim is released that is not held");
        before & WAITERS != 0 && {
            // The caller's wake reaches those too that set the bit since; the wakers' fences show
            // them to it.
            self.word.fetch_and(!WAITERS, Ordering::Relaxed);
            true
        }
    }

    /// Ends a kept read for whose end nobody waits and to which nothing is left; false, and nothing
    /// changed, otherwise. What it kept may be gone with it.
    #[inline]
    pub(crate) fn end_kept_alone(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & (WAITERS | LEFT) == 0 {
            let next = word - unit(Ask::KeptRead);
            // ORDERING: as in `release`.
            match self.word.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Ends a kept read, whatever there is to do then.
    pub(crate) fn end_kept(&self) -> Ended {
        let next = |word: u64| {
            let rest = word - unit(Ask::KeptRead);
            if KEPT_READ.of(rest) > 0 { rest & !WAITERS } else { rest & !(WAITERS | LEFT) }
        };
        // ORDERING: as in `release`; and acquires what `leave` released.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        let before = match self.word.fetch_update(set, fetch, |word| Some(next(word))) {
            Ok(before) | Err(before) => before,
        };
        let has_left = before & LEFT != 0 && KEPT_READ.of(before) == 1;
        Ended { is_waited_for: before & WAITERS != 0, has_left }
    }

    /// Leaves something to the last of the kept reads that are held; false, and nothing changed, if
    /// there is none, or something is left already.
    pub(crate) fn leave(&self) -> bool {
        let next = |word| (KEPT_READ.of(word) > 0 && word & LEFT == 0).then_some(word | LEFT);
        // ORDERING: releases what is left, to `end_kept`; acquires the ends of claims.
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// Turns a mover's claim into a running closure's; answers that claim, and whether somebody
    /// waits and has to be woken: who waited for the mover is refused now.
    pub(crate) fn run_closure(&self, mover: Ask) -> (Ask, bool) {
        let closure = match mover {
            Ask::MoverRead => Ask::ClosureRead,
            Ask::MoverWrite => Ask::ClosureWrite,
            other => return (other, false),
        };
        // One addition moves the claim from one place of the word to the other, so that nobody
        // sees it in none or both. The claim was acquired already; this only changes answers.
        let change = unit(closure).wrapping_sub(unit(mover));
        let before = self.word.fetch_add(change, Ordering::Relaxed);
        (closure, before & WAITERS != 0)
    }

    /// Notes that somebody waits for a release: registered before, it asks once more before it
    /// sleeps.
    pub(crate) fn wait_for_release(&self) {
        self.word.fetch_or(WAITERS, Ordering::Relaxed);
    }

    /// Makes the one kept read that is held exclusive; false, and nothing changed, beside any
    /// other claim or outside the claims.
    pub(crate) fn make_exclusive(&self) -> bool {
        // ORDERING: acquires what was done under the claims released before.
        let alone = 1 << KEPT_READ.shift;
        // Sequentially consistent, for the look at the mark that follows.
        let is_alone = |word: u64| word & !(WAITERS | COUNTED) == alone;
        let change = |word: u64| is_alone(word).then_some(word - alone + EXCLUSIVE);
        self.word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, change).is_ok()
    }

    /// Makes the exclusive claim that is held a kept read again.
    pub(crate) fn make_read(&self) {
        // Nothing was done under the exclusive claim, and nothing waits for its end.
        self.word.fetch_sub(EXCLUSIVE - (1 << KEPT_READ.shift), Ordering::Relaxed);
    }

    /// Puts the memory outside the claims: never exclusive again (S5.7).
    pub(crate) fn set_outside(&self) {
        self.word.fetch_or(OUTSIDE, Ordering::Relaxed);
    }

    /// Puts the memory outside the claims, unless it is exclusively claimed.
    pub(crate) fn set_outside_unless_exclusive(&self) -> bool {
        let set = |word: u64| (word & EXCLUSIVE == 0).then_some(word | OUTSIDE);
        self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set).is_ok()
    }

    pub(crate) fn is_outside(&self) -> bool {
        self.word.load(Ordering::Relaxed) & OUTSIDE != 0
    }

    pub(crate) fn is_dead(&self) -> bool {
        // ORDERING: pairs with the exchange of a free: its reason is seen.
        self.word.load(Ordering::Acquire) & DEAD != 0
    }

    /// Whether a kept claim is held.
    pub(crate) fn is_kept(&self) -> bool {
        // ORDERING: acquires what was done under the claims that have ended.
        self.word.load(Ordering::Acquire) & (KEPT_READ.mask() | EXCLUSIVE) != 0
    }

    /// Whether nothing was claimed, and nothing is told by the word.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        // ORDERING: acquires what was done under the claims that have ended.
        self.word.load(Ordering::Acquire) == 0
    }

    /// Starts anew for the next buffer; nobody else has the allocation.
    pub(crate) fn reset(&self) {
        // A plain look first, since most allocations were never claimed.
        if !self.is_untouched() {
            self.word.store(0, Ordering::Relaxed);
        }
    }
}

/// What the end of a kept read leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    /// Whether somebody waits for it, and has to be woken.
    pub(crate) is_waited_for: bool,
    /// Whether what [`Claims::leave`] left is the caller's.
    pub(crate) has_left: bool,
}

fn judge(word: u64, ask: Ask, pass: Pass) -> (Answer, u64) {
    if word & DEAD != 0 {
        return (Answer::Dead, word);
    }
    let exclusive = word & EXCLUSIVE != 0 && pass != Pass::Exclusive;
    let kept = KEPT_READ.of(word) > 0;
    let reading = CLOSURE_READ.of(word) + MOVER_READ.of(word) > 0;
    let writing = word & (CLOSURE_WRITE | MOVER_WRITE) != 0;
    let momentary_write = word & MOMENTARY_WRITE != 0;
    let momentary = momentary_write || MOMENTARY_READ.of(word) > 0;
    let (busy, waits) = match ask {
        // Only accesses and exports pass under the exclusive claim (S5.5).
        Ask::KeptRead => (word & EXCLUSIVE != 0 || writing, false),
        Ask::KeptExclusive if word & EXCLUSIVE != 0 || writing => (true, false),
        Ask::KeptExclusive if kept || reading || momentary || word & OUTSIDE != 0 => {
            return match judge(word, Ask::KeptRead, pass) {
                (Answer::Granted, next) => (Answer::AsRead, next),
                refused => refused,
            };
        }
        Ask::KeptExclusive => (false, false),
        Ask::MoverRead | Ask::ClosureRead => (exclusive || writing, momentary_write),
        Ask::MoverWrite | Ask::ClosureWrite => (exclusive || kept || reading || writing, momentary),
        Ask::MomentaryRead => {
            (word & CLOSURE_WRITE != 0, momentary_write || word & MOVER_WRITE != 0)
        }
        Ask::MomentaryWrite => (
            word & CLOSURE_WRITE != 0 || CLOSURE_READ.of(word) > 0,
            momentary || word & MOVER_WRITE != 0 || MOVER_READ.of(word) > 0,
        ),
        Ask::Export => (exclusive || reading || writing, momentary),
        // An export made under the exclusive claim keeps its bytes where they are (S5.5).
        Ask::Free if pass == Pass::Exclusive && word & OUTSIDE != 0 => (true, false),
        Ask::Free => (exclusive || kept || reading || writing, momentary),
    };
    // A full count refuses the host, and makes device work wait, which is never refused by timing.
    let waits = waits && pass != Pass::Mixed;
    let (full, momentary) = (full(word, ask), ask == Ask::MomentaryRead);
    if busy || full && !momentary {
        (Answer::Busy, word)
    } else if waits || full {
        (Answer::Waits, word)
    } else {
        (Answer::Granted, taken(word, ask))
    }
}

/// Returns what of the word refuses the claim or makes it wait, whoever asks, and a count that
/// comes near its most; without any of it the claim is granted. None where that is not all.
#[inline]
const fn in_the_way(ask: Ask) -> Option<u64> {
    let reads = CLOSURE_READ.mask() | MOVER_READ.mask();
    let writes = DEAD | CLOSURE_WRITE | MOVER_WRITE;
    let momentary = MOMENTARY_READ.mask() | MOMENTARY_WRITE;
    match ask {
        Ask::KeptRead => Some(writes | EXCLUSIVE | KEPT_READ.top()),
        Ask::MoverRead | Ask::ClosureRead => {
            Some(writes | EXCLUSIVE | MOMENTARY_WRITE | CLOSURE_READ.top() | MOVER_READ.top())
        }
        Ask::MoverWrite | Ask::ClosureWrite => {
            Some(writes | EXCLUSIVE | reads | KEPT_READ.mask() | momentary)
        }
        Ask::MomentaryRead => Some(writes | MOMENTARY_WRITE | MOMENTARY_READ.top()),
        Ask::MomentaryWrite => Some(writes | reads | momentary),
        Ask::KeptExclusive | Ask::Export | Ask::Free => None,
    }
}

fn taken(word: u64, ask: Ask) -> u64 {
    match ask {
        Ask::Export => word | OUTSIDE,
        Ask::Free => word | DEAD,
        held => word + unit(held),
    }
}

/// Whether the ask's count has reached its most; nothing in practice comes near.
fn full(word: u64, ask: Ask) -> bool {
    match ask {
        // A mover may become a closure, so both together stay within either's most.
        Ask::MoverRead | Ask::ClosureRead => {
            MOVER_READ.of(word) + CLOSURE_READ.of(word) >= CLOSURE_READ.most
        }
        _ => counter(ask).is_some_and(|field| field.of(word) == field.most),
    }
}

fn held(word: u64, ask: Ask) -> bool {
    counter(ask).map_or(word & unit(ask) != 0, |field| field.of(word) > 0)
}

fn counter(ask: Ask) -> Option<Field> {
    match ask {
        Ask::KeptRead => Some(KEPT_READ),
        Ask::MoverRead => Some(MOVER_READ),
        Ask::ClosureRead => Some(CLOSURE_READ),
        Ask::MomentaryRead => Some(MOMENTARY_READ),
        _ => None,
    }
}

/// What holding the claim adds to the word.
#[inline]
const fn unit(ask: Ask) -> u64 {
    match ask {
        Ask::KeptRead => 1 << KEPT_READ.shift,
        Ask::MoverRead => 1 << MOVER_READ.shift,
        Ask::ClosureRead => 1 << CLOSURE_READ.shift,
        Ask::MomentaryRead => 1 << MOMENTARY_READ.shift,
        Ask::KeptExclusive => EXCLUSIVE,
        Ask::MoverWrite => MOVER_WRITE,
        Ask::ClosureWrite => CLOSURE_WRITE,
        Ask::MomentaryWrite => MOMENTARY_WRITE,
        Ask::Export | Ask::Free => 0,
    }
}

/// A count inside the word.
#[derive(Clone, Copy)]
struct Field {
    shift: u32,
    most: u64,
}

impl Field {
    const fn mask(self) -> u64 {
        self.most << self.shift
    }

    /// The highest bit of the count.
    const fn top(self) -> u64 {
        (self.most / 2 + 1) << self.shift
    }

    const fn of(self, word: u64) -> u64 {
        word >> self.shift & self.most
    }
}

const KEPT_READ: Field = Field { shift: 0, most: (1 << 20) - 1 };
const CLOSURE_READ: Field = Field { shift: 20, most: (1 << 12) - 1 };
const MOVER_READ: Field = Field { shift: 32, most: (1 << 12) - 1 };
const MOMENTARY_READ: Field = Field { shift: 44, most: (1 << 10) - 1 };
const EXCLUSIVE: u64 = 1 << 54;
const CLOSURE_WRITE: u64 = 1 << 55;
const MOVER_WRITE: u64 = 1 << 56;
const MOMENTARY_WRITE: u64 = 1 << 57;
const OUTSIDE: u64 = 1 << 58;
const DEAD: u64 = 1 << 59;
const WAITERS: u64 = 1 << 60;
/// Device work counts its momentary claims in the word, and marks nothing.
const COUNTED: u64 = 1 << 61;
/// Something is left to the last kept read.
const LEFT: u64 = 1 << 62;

#[cfg(all(test, not(rig_loom)))]
mod tests {
    use crate::claim::{
        Answer, Ask, CLOSURE_READ, Claims, Ended, Field, KEPT_READ, MOMENTARY_READ, MOVER_READ,
        Marks, Pass,
    };
    use crate::sync::Ordering;

    /// What may be held: the columns of the table, with movers and closures apart.
    const HELD: [Ask; 8] = [
        Ask::KeptRead,
        Ask::KeptExclusive,
        Ask::MoverRead,
        Ask::ClosureRead,
        Ask::MoverWrite,
        Ask::ClosureWrite,
        Ask::MomentaryRead,
        Ask::MomentaryWrite,
    ];

    /// The table of S5, a row for each ask: `.` granted, `r` granted as read, `w` waits, `B` busy.
    const TABLE: [(Ask, [&str; 8]); 10] = [
        (Ask::KeptRead, [".", "B", ".", ".", "B", "B", ".", "."]),
        (Ask::KeptExclusive, ["r", "B", "r", "r", "B", "B", "r", "r"]),
        (Ask::MoverRead, [".", "B", ".", ".", "B", "B", ".", "w"]),
        (Ask::ClosureRead, [".", "B", ".", ".", "B", "B", ".", "w"]),
        (Ask::MoverWrite, ["B", "B", "B", "B", "B", "B", "w", "w"]),
        (Ask::ClosureWrite, ["B", "B", "B", "B", "B", "B", "w", "w"]),
        (Ask::MomentaryRead, [".", ".", ".", ".", "w", "B", ".", "w"]),
        (Ask::MomentaryWrite, [".", ".", "w", "B", "w", "B", "w", "w"]),
        (Ask::Export, [".", "B", "B", "B", "B", "B", "w", "w"]),
        (Ask::Free, ["B", "B", "B", "B", "B", "B", "w", "w"]),
    ];

    fn answer_of(cell: &str) -> Answer {
        match cell {
            "." => Answer::Granted,
            "r" => Answer::AsRead,
            "w" => Answer::Waits,
            _ => Answer::Busy,
        }
    }

    /// What the table says for an ask beside one held claim.
    fn cell(ask: Ask, held: Ask) -> Answer {
        let (_, row) = TABLE.iter().find(|(asked, _)| *asked == ask).expect("a row");
        let column = HELD.iter().position(|known| *known == held).expect("a column");
        answer_of(row[column])
    }

    fn holding(held: &[Ask]) -> Claims {
        let claims = Claims::new();
        for ask in held {
            assert_eq!(claims.ask(*ask, Pass::No), Answer::Granted, "{held:?}");
        }
        claims
    }

    #[test]
    fn s5_each_cell_of_the_table_is_the_answer() {
        for (ask, _) in TABLE {
            assert_eq!(Claims::new().ask(ask, Pass::No), Answer::Granted, "{ask:?} beside none");
            for held in HELD {
                let claims = holding(&[held]);
                let wanted = cell(ask, held);
                assert_eq!(
                    claims.would(ask, Pass::No, &Marks::new()),
                    wanted,
                    "{ask:?} beside {held:?}"
                );
                assert_eq!(claims.ask(ask, Pass::No), wanted, "{ask:?} beside {held:?}");
            }
        }
    }

    #[test]
    fn s5_1_beside_several_claims_the_strictest_cell_is_the_answer() {
        let strictness = |answer: &Answer| match answer {
            Answer::Granted => 0,
            Answer::AsRead => 1,
            Answer::Waits => 2,
            Answer::Busy | Answer::Dead => 3,
        };
        for one in HELD {
            for other in HELD.into_iter().filter(|other| cell(*other, one) == Answer::Granted) {
                let claims = holding(&[one, other]);
                for (ask, _) in TABLE {
                    let cells = [cell(ask, one), cell(ask, other)];
                    let wanted = cells.into_iter().max_by_key(strictness).unwrap();
                    let answer = claims.would(ask, Pass::No, &Marks::new());
                    assert_eq!(answer, wanted, "{ask:?} beside {one:?} and {other:?}");
                }
            }
        }
    }

    #[test]
    fn s5_1_what_is_refused_or_waits_holds_nothing_and_a_release_makes_room() {
        for (ask, _) in TABLE {
            for held in HELD {
                let claims = holding(&[held]);
                let kept = match claims.ask(ask, Pass::No) {
                    Answer::Granted if matches!(ask, Ask::Export | Ask::Free) => continue,
                    Answer::Granted => Some(ask),
                    Answer::AsRead => Some(Ask::KeptRead),
                    _ => None,
                };
                assert!(!claims.release(held), "nobody waits");
                kept.into_iter().for_each(|kept| assert!(!claims.release(kept)));
                assert_eq!(
                    claims.would(Ask::KeptExclusive, Pass::No, &Marks::new()),
                    Answer::Granted
                );
                assert_eq!(claims.would(Ask::Free, Pass::No, &Marks::new()), Answer::Granted);
            }
        }
    }

    #[test]
    fn s5_1_claims_are_counted() {
        for (ask, blocked) in [
            (Ask::KeptRead, Ask::Free),
            (Ask::MoverRead, Ask::Free),
            (Ask::ClosureRead, Ask::Free),
            (Ask::MomentaryRead, Ask::MomentaryWrite),
        ] {
            let claims = holding(&[ask; 3]);
            for _ in 0..3 {
                assert_ne!(
                    claims.would(blocked, Pass::No, &Marks::new()),
                    Answer::Granted,
                    "{ask:?}"
                );
                claims.release(ask);
            }
            assert_eq!(claims.would(blocked, Pass::No, &Marks::new()), Answer::Granted, "{ask:?}");
        }
    }

    #[test]
    fn s5_1_beside_a_closure_device_work_is_refused_though_it_would_also_wait() {
        let claims = holding(&[Ask::MomentaryRead, Ask::ClosureRead]);
        assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Busy);
        claims.release(Ask::ClosureRead);
        assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Waits);
    }

    #[test]
    fn s5_1_a_mover_becomes_a_closure_and_is_released_as_one() {
        for (mover, closure) in
            [(Ask::MoverRead, Ask::ClosureRead), (Ask::MoverWrite, Ask::ClosureWrite)]
        {
            let claims = holding(&[mover]);
            assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Waits);
            assert_eq!(claims.run_closure(mover).0, closure);
            assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Busy);
            assert_eq!(claims.run_closure(closure).0, closure);
            claims.release(closure);
            assert_eq!(claims.would(Ask::Free, Pass::No, &Marks::new()), Answer::Granted);
        }
        // The claims beside it stay as they are.
        let claims = holding(&[Ask::MoverRead, Ask::MoverRead, Ask::ClosureRead, Ask::KeptRead]);
        claims.run_closure(Ask::MoverRead);
        claims.release(Ask::MoverRead);
        (0..2).for_each(|_| assert!(!claims.release(Ask::ClosureRead)));
        assert_eq!(claims.would(Ask::MomentaryWrite, Pass::No, &Marks::new()), Answer::Granted);
        assert!(claims.is_kept());
        claims.release(Ask::KeptRead);
        assert!(!claims.is_kept());
    }

    #[test]
    fn s5_5_all_but_kept_claims_pass_under_the_exclusive_claim() {
        for (ask, _) in TABLE {
            let passes = !matches!(ask, Ask::KeptRead | Ask::KeptExclusive);
            let answer = holding(&[Ask::KeptExclusive]).ask(ask, Pass::Exclusive);
            assert_eq!(answer, if passes { Answer::Granted } else { Answer::Busy }, "{ask:?}");
            // Beside anything else the pass changes nothing.
            for held in HELD.into_iter().filter(|held| *held != Ask::KeptExclusive) {
                assert_eq!(holding(&[held]).ask(ask, Pass::Exclusive), cell(ask, held));
            }
        }
    }

    #[test]
    fn s4_15_the_exclusive_claim_on_consumed_memory_still_releases() {
        let claims = holding(&[Ask::KeptExclusive]);
        assert_eq!(claims.ask(Ask::Free, Pass::Exclusive), Answer::Granted);
        assert_eq!(claims.ask(Ask::MoverRead, Pass::Exclusive), Answer::Dead);
        assert!(claims.is_kept());
        assert!(!claims.release(Ask::KeptExclusive));
        assert!(claims.is_dead() && !claims.is_kept());
    }

    #[test]
    fn s5_5_what_was_exported_under_the_exclusive_claim_is_not_taken_over() {
        let claims = holding(&[Ask::KeptExclusive]);
        assert_eq!(claims.ask(Ask::Export, Pass::Exclusive), Answer::Granted);
        assert_eq!(claims.ask(Ask::Free, Pass::Exclusive), Answer::Busy);
        assert!(!claims.release(Ask::KeptExclusive));
        assert_eq!(claims.ask(Ask::Free, Pass::No), Answer::Granted, "its export keeps the bytes");
    }

    #[test]
    fn s5_3_a_read_becomes_exclusive_only_alone_and_inside_the_claims() {
        for other in HELD.into_iter().filter(|other| cell(*other, Ask::KeptRead) == Answer::Granted)
        {
            let claims = holding(&[Ask::KeptRead, other]);
            assert!(!claims.make_exclusive(), "beside {other:?}");
            assert!(!claims.release(other));
            assert!(claims.make_exclusive(), "beside none");
            assert_eq!(claims.would(Ask::KeptRead, Pass::No, &Marks::new()), Answer::Busy);
            claims.make_read();
            assert_eq!(claims.would(Ask::KeptRead, Pass::No, &Marks::new()), Answer::Granted);
            assert!(claims.make_exclusive());
            assert!(!claims.release(Ask::KeptExclusive));
            assert_eq!(claims.would(Ask::Free, Pass::No, &Marks::new()), Answer::Granted);
        }
        let exported = holding(&[Ask::KeptRead, Ask::Export]);
        assert!(!exported.make_exclusive());
        let waited_for = holding(&[Ask::KeptRead]);
        waited_for.wait_for_release();
        assert!(waited_for.make_exclusive());
        assert!(waited_for.release(Ask::KeptExclusive));
    }

    #[test]
    fn s5_5_two_accesses_under_one_exclusive_claim_meet_as_any_others() {
        let claims = holding(&[Ask::KeptExclusive]);
        assert_eq!(claims.ask(Ask::ClosureRead, Pass::Exclusive), Answer::Granted);
        assert_eq!(claims.ask(Ask::ClosureRead, Pass::Exclusive), Answer::Granted);
        assert_eq!(claims.ask(Ask::ClosureWrite, Pass::Exclusive), Answer::Busy);
        assert_eq!(claims.ask(Ask::Export, Pass::Exclusive), Answer::Busy);
        assert_eq!(claims.ask(Ask::ClosureRead, Pass::No), Answer::Busy);
    }

    #[test]
    fn s5_7_memory_outside_the_claims_is_never_exclusive_and_access_claims_still_apply() {
        let outside = Claims::new();
        outside.set_outside();
        let exported = holding(&[Ask::Export]);
        for claims in [outside, exported] {
            assert!(claims.is_outside());
            assert_eq!(claims.ask(Ask::KeptExclusive, Pass::No), Answer::AsRead);
            claims.release(Ask::KeptRead);
            assert_eq!(claims.ask(Ask::ClosureWrite, Pass::No), Answer::Granted);
            assert_eq!(claims.ask(Ask::MoverRead, Pass::No), Answer::Busy);
            assert_eq!(claims.ask(Ask::KeptExclusive, Pass::No), Answer::Busy);
            claims.release(Ask::ClosureWrite);
            assert_eq!(claims.ask(Ask::Export, Pass::No), Answer::Granted);
        }
    }

    #[test]
    fn s5_7_sharing_under_an_exclusive_claim_is_refused() {
        let claims = holding(&[Ask::KeptExclusive]);
        assert!(!claims.set_outside_unless_exclusive());
        assert!(!claims.is_outside());
        claims.release(Ask::KeptExclusive);
        assert!(claims.set_outside_unless_exclusive());
        assert!(claims.is_outside());
    }

    #[test]
    fn s4_15_dead_beats_everything_until_the_next_life() {
        let claims = holding(&[Ask::Export, Ask::Free]);
        assert!(claims.is_dead());
        for (ask, _) in TABLE {
            for pass in [Pass::No, Pass::Exclusive] {
                assert_eq!(claims.ask(ask, pass), Answer::Dead, "{ask:?}");
                assert_eq!(claims.would(ask, pass, &Marks::new()), Answer::Dead, "{ask:?}");
            }
        }
        claims.reset();
        assert!(!claims.is_dead() && !claims.is_outside());
        assert_eq!(claims.ask(Ask::KeptExclusive, Pass::No), Answer::Granted);
    }

    #[test]
    fn s5_1_a_release_tells_of_waiters_once() {
        let claims = holding(&[Ask::MomentaryRead; 3]);
        assert!(!claims.release(Ask::MomentaryRead));
        claims.wait_for_release();
        assert_eq!(claims.would(Ask::MoverWrite, Pass::No, &Marks::new()), Answer::Waits);
        assert!(claims.release(Ask::MomentaryRead));
        assert!(!claims.release(Ask::MomentaryRead));
        assert_eq!(claims.ask(Ask::MoverWrite, Pass::No), Answer::Granted);
    }

    #[test]
    fn s5_1_that_somebody_waits_changes_no_answer() {
        for (ask, _) in TABLE {
            for held in HELD {
                let claims = holding(&[held]);
                claims.wait_for_release();
                assert_eq!(claims.ask(ask, Pass::No), cell(ask, held), "{ask:?} beside {held:?}");
                assert!(claims.release(held));
            }
        }
    }

    #[test]
    fn s4_12_what_is_left_to_kept_reads_is_the_last_ones() {
        let claims = holding(&[Ask::KeptRead, Ask::KeptRead]);
        assert!(claims.leave() && !claims.leave(), "once");
        assert!(!claims.end_kept_alone());
        assert_eq!(claims.end_kept(), Ended { is_waited_for: false, has_left: false });
        claims.wait_for_release();
        assert_eq!(claims.end_kept(), Ended { is_waited_for: true, has_left: true });
        assert!(!claims.leave() && !claims.is_kept(), "nobody is there");
        assert_eq!(claims.ask(Ask::KeptRead, Pass::No), Answer::Granted);
        assert!(claims.end_kept_alone());
        assert_eq!(claims.ask(Ask::Free, Pass::No), Answer::Granted);
    }

    #[test]
    fn s5_1_the_end_of_a_kept_read_wakes_who_waits_for_it() {
        let claims = holding(&[Ask::KeptRead, Ask::KeptRead]);
        claims.wait_for_release();
        assert!(!claims.end_kept_alone());
        assert_eq!(claims.end_kept(), Ended { is_waited_for: true, has_left: false });
        assert!(claims.end_kept_alone());
    }

    #[test]
    fn s5_1_a_full_count_refuses_the_host_and_makes_device_work_wait() {
        // One below the most, and one more.
        let full = |ask, field: Field| {
            let claims = Claims::new();
            claims.word.store((field.most - 1) << field.shift, Ordering::Relaxed);
            assert_eq!(claims.ask(ask, Pass::No), Answer::Granted);
            claims
        };
        let kept = full(Ask::KeptRead, KEPT_READ);
        assert_eq!(kept.ask(Ask::KeptRead, Pass::No), Answer::Busy);
        assert_eq!(kept.ask(Ask::KeptExclusive, Pass::No), Answer::Busy);
        assert_eq!(kept.ask(Ask::MoverRead, Pass::No), Answer::Granted);
        let momentary = full(Ask::MomentaryRead, MOMENTARY_READ);
        assert_eq!(momentary.ask(Ask::MomentaryRead, Pass::No), Answer::Waits);
        momentary.wait_for_release();
        assert!(momentary.release(Ask::MomentaryRead));
        assert_eq!(momentary.ask(Ask::MomentaryRead, Pass::No), Answer::Granted);
        // All movers may become closures at once.
        let movers = full(Ask::MoverRead, MOVER_READ);
        assert_eq!(movers.ask(Ask::MoverRead, Pass::No), Answer::Busy);
        assert_eq!(movers.ask(Ask::ClosureRead, Pass::No), Answer::Busy);
        for _ in 0..MOVER_READ.most {
            assert_eq!(movers.run_closure(Ask::MoverRead).0, Ask::ClosureRead);
        }
        assert_eq!(movers.ask(Ask::ClosureRead, Pass::No), Answer::Busy);
        (0..CLOSURE_READ.most).for_each(|_| assert!(!movers.release(Ask::ClosureRead)));
        assert_eq!(movers.ask(Ask::Free, Pass::No), Answer::Granted);
    }
}

#[cfg(all(test, rig_loom))]
mod loom_tests {
    use crate::claim::{Answer, Ask, Claims, Marks, Pass};
    use crate::sync::{AtomicU64, Ordering, Wakers};
    use loom::future::block_on;
    use loom::sync::Arc;
    use loom::thread;
    use std::future::poll_fn;
    use std::task::Poll;

    /// Memory under claims: relaxed, so that only the claims order it.
    struct Memory {
        claims: Claims,
        wakers: Wakers,
        bytes: AtomicU64,
    }

    impl Memory {
        fn new() -> Arc<Self> {
            let (claims, wakers) = (Claims::new(), Wakers::new());
            Arc::new(Self { claims, wakers, bytes: AtomicU64::new(0) })
        }

        /// Asks until nothing makes it wait, as every waiting call does.
        fn ask(&self, ask: Ask) -> Answer {
            block_on(poll_fn(|cx| {
                let asked = || match self.claims.ask(ask, Pass::No) {
                    Answer::Waits => Poll::Pending,
                    answer => Poll::Ready(answer),
                };
                if let Poll::Ready(answer) = asked() {
                    return Poll::Ready(answer);
                }
                self.wakers.register(cx.waker());
                self.claims.wait_for_release();
                if self.claims.would(ask, Pass::No, &Marks::new()) == Answer::Waits {
                    return Poll::Pending;
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }))
        }

        fn release(&self, ask: Ask) {
            if self.claims.release(ask) {
                self.wakers.wake_all();
            }
        }

        /// Adds one under a claim; whoever else does so at once loses an addition.
        fn add(&self, ask: Ask) -> Answer {
            let answer = self.ask(ask);
            if answer == Answer::Granted {
                let seen = self.bytes.load(Ordering::Relaxed);
                self.bytes.store(seen + 1, Ordering::Relaxed);
                self.release(ask);
            }
            answer
        }
    }

    #[test]
    fn s5_1_a_host_write_is_never_beside_a_momentary_write_and_no_wake_is_missed() {
        loom::model(|| {
            let memory = Memory::new();
            let device = Arc::clone(&memory);
            let working = thread::spawn(move || device.add(Ask::MomentaryWrite));
            assert_eq!(memory.add(Ask::MoverWrite), Answer::Granted);
            assert_eq!(working.join().unwrap(), Answer::Granted);
            assert_eq!(memory.bytes.load(Ordering::Relaxed), 2);
        });
    }

    #[test]
    fn s5_1_work_of_two_devices_waits_for_each_other_and_no_wake_is_missed() {
        loom::model(|| {
            let memory = Memory::new();
            let devices = [(); 2].map(|()| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || memory.add(Ask::MomentaryWrite))
            });
            for thread in devices {
                assert_eq!(thread.join().unwrap(), Answer::Granted);
            }
            assert_eq!(memory.bytes.load(Ordering::Relaxed), 2);
        });
    }

    #[test]
    fn s4_12_what_is_left_to_two_kept_reads_falls_to_one_of_them_or_stays() {
        loom::model(|| {
            let memory = Memory::new();
            let readers = [(); 2].map(|()| {
                assert_eq!(memory.claims.ask(Ask::KeptRead, Pass::No), Answer::Granted);
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    if memory.claims.end_kept_alone() {
                        return false;
                    }
                    let has_left = memory.claims.end_kept().has_left;
                    // Relaxed, so that only the claims order it.
                    assert!(!has_left || memory.bytes.load(Ordering::Relaxed) == 1);
                    has_left
                })
            });
            memory.bytes.store(1, Ordering::Relaxed);
            let left = memory.claims.leave();
            let taken = readers.map(|thread| u8::from(thread.join().unwrap()));
            assert_eq!(taken[0] + taken[1], u8::from(left));
            assert!(!memory.claims.is_kept());
        });
    }

    #[test]
    fn s5_1_who_waits_for_two_readers_misses_neither_release() {
        loom::model(|| {
            let memory = Memory::new();
            let readers = [(); 2].map(|()| {
                assert_eq!(memory.claims.ask(Ask::MomentaryRead, Pass::No), Answer::Granted);
                let memory = Arc::clone(&memory);
                thread::spawn(move || memory.release(Ask::MomentaryRead))
            });
            assert_eq!(memory.add(Ask::MoverWrite), Answer::Granted);
            for thread in readers {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn s5_1_of_two_who_wait_for_one_release_none_is_forgotten() {
        loom::model(|| {
            let memory = Memory::new();
            assert_eq!(memory.claims.ask(Ask::MomentaryWrite, Pass::No), Answer::Granted);
            let readers = [Ask::MoverRead, Ask::MomentaryRead].map(|ask| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || memory.ask(ask))
            });
            memory.release(Ask::MomentaryWrite);
            for thread in readers {
                assert_eq!(thread.join().unwrap(), Answer::Granted);
            }
        });
    }

    #[test]
    fn s4_14_a_free_and_a_claim_are_never_both_granted() {
        for ask in [Ask::KeptRead, Ask::KeptExclusive, Ask::MoverWrite, Ask::Export] {
            loom::model(move || {
                let memory = Memory::new();
                let other = Arc::clone(&memory);
                let freeing = thread::spawn(move || other.claims.ask(Ask::Free, Pass::No));
                let answer = memory.claims.ask(ask, Pass::No);
                let freed = freeing.join().unwrap();
                match (answer, freed) {
                    (Answer::Granted, Answer::Busy) | (Answer::Dead, Answer::Granted) => {}
                    // An export holds nothing: the bytes outlive the buffers.
                    (Answer::Granted, Answer::Granted) => assert_eq!(ask, Ask::Export),
                    both => panic!("{ask:?}: {both:?}"),
                }
                assert_eq!(memory.claims.is_dead(), freed == Answer::Granted);
            });
        }
    }

    #[test]
    fn s5_5_under_one_exclusive_claim_an_export_and_a_consume_are_never_both_granted() {
        loom::model(|| {
            let memory = Memory::new();
            assert_eq!(memory.claims.ask(Ask::KeptExclusive, Pass::No), Answer::Granted);
            let other = Arc::clone(&memory);
            let exporting = thread::spawn(move || other.claims.ask(Ask::Export, Pass::Exclusive));
            let consumed = memory.claims.ask(Ask::Free, Pass::Exclusive);
            match (exporting.join().unwrap(), consumed) {
                (Answer::Granted, Answer::Busy) | (Answer::Dead, Answer::Granted) => {}
                both => panic!("{both:?}"),
            }
        });
    }

    #[test]
    fn s4_14_a_free_waits_for_a_hand_over_and_sees_what_it_did() {
        loom::model(|| {
            let memory = Memory::new();
            let device = Arc::clone(&memory);
            let working = thread::spawn(move || device.add(Ask::MomentaryWrite));
            assert_eq!(memory.ask(Ask::Free), Answer::Granted);
            let seen = memory.bytes.load(Ordering::Relaxed);
            let worked = working.join().unwrap();
            assert_eq!(seen, u64::from(worked == Answer::Granted));
        });
    }

    #[test]
    fn s5_1_a_mover_that_becomes_a_closure_is_always_seen_as_one_of_them() {
        loom::model(|| {
            let memory = Memory::new();
            assert_eq!(memory.claims.ask(Ask::MoverWrite, Pass::No), Answer::Granted);
            let device = Arc::clone(&memory);
            let working = thread::spawn(move || device.claims.ask(Ask::MomentaryWrite, Pass::No));
            assert_eq!(memory.claims.run_closure(Ask::MoverWrite).0, Ask::ClosureWrite);
            assert!(matches!(working.join().unwrap(), Answer::Waits | Answer::Busy));
            memory.release(Ask::ClosureWrite);
            assert_eq!(memory.add(Ask::MomentaryWrite), Answer::Granted);
        });
    }
}
