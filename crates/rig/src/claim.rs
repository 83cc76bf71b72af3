//! The claims on one allocation: kept ones, access claims and momentary ones, in one word.
//!
//! The table of semantics section S5 is [`Claims::ask`]. Nothing here waits: an answer says
//! whether the asker waits, and a bit remembers that somebody does, so that a release wakes only
//! then. The word also says that the allocation is dead or outside the claims, so that no claim
//! is ever granted beside a death. Momentary claims of a device on its own memory are marks, in a
//! word of their own. Any thread may call anything; no lock is taken.

#[cfg(all(test, rig_loom))]
mod loom_tests;
mod mark;
#[cfg(all(test, not(rig_loom)))]
mod tests;

pub(crate) use crate::claim::mark::{Mark, Marking, Marks};

use crate::sync::{AtomicU64, HAS_THREADS, Ordering};

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
    /// Ask again when a claim is released. One thread alone is never told so, since no claim that
    /// others wait for is held over a wait.
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
        if HAS_THREADS && let Some(in_the_way) = in_the_way(ask) {
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
        HAS_THREADS && before & WAITERS != 0 && {
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
        Ended { is_waited_for: HAS_THREADS && before & WAITERS != 0, has_left }
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
        (closure, HAS_THREADS && before & WAITERS != 0)
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
