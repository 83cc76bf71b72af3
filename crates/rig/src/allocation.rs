//! Driver memory with its stamps and claims: what buffers share, and what is cached and reused.
//!
//! An allocation is *reachable* while a [`Ref`] or an export names it. A record keeps its region
//! from the driver's `alloc` to its `free`; when a program ends a buffer early, the region moves to
//! a record of its own and the old one stays behind, dead, for as long as handles name it. So a
//! dead buffer can never meet the bytes of the next one (S4.15).
//!
//! ```text
//! served -> reachable --last Ref dropped--> on the owner's return list -> returning -> cached
//!               |                                                             |          |
//!               +--free, consume: region moves to a new record                +-> driver <+
//! ```
//!
//! Any thread may hold a [`Ref`]. Dropping one takes no lock (S4.13). Locks by rank: a record's
//! `extra`, then a heap (a device's before the host's), then leaf locks.

mod extra;
mod handle;
pub(crate) mod heap;
pub(crate) mod mapping;
pub(crate) mod owner;

pub(crate) use crate::allocation::extra::{Extra, Keeper, Site, Tag};
pub(crate) use crate::allocation::handle::{Call, Pin, Ref};

use crate::allocation::extra::Rare;
use crate::allocation::owner::Owner;
use crate::budget::Where;
use crate::bytes::HostBytes;
use crate::cache::Class;
use crate::claim::{Answer, Ask, Claims, Pass};
use crate::driver::{Addressed, HAS_FILES, Kind, Region};
use crate::list::{Link, Linked, List};
use crate::stamp::Stamps;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// A range of a driver's memory and all that is known of its use.
///
/// In this order in memory: what each life through the cache looks at comes first and together,
/// since with many live buffers every cache line of a record is a miss.
#[repr(C)]
pub(crate) struct Allocation {
    /// Who needs the record, in one word, so that one exchange decides who takes it home: its
    /// handles (live buffers, views, borrows, prepared submissions and calls in progress), its
    /// exports, which keep the bytes past a `free`, and `RETURNING`.
    users: AtomicU64,
    link: Link<Allocation>,
    pub(crate) owner: Arc<Owner>,
    flags: AtomicU32,
    /// Its place in the payer's roster.
    roster: AtomicU32,
    /// What few allocations have.
    pub(crate) extra: Rare,
    /// The bytes asked for; changes when the memory serves the next buffer.
    len: AtomicU64,
    pub(crate) memory: Memory,
    pub(crate) claims: Claims,
    pub(crate) stamps: Stamps,
    /// Calls in progress, which keep an exclusive claim away (S5.3); those that move the bytes
    /// count `MOVES` more, and keep a free away (S4.14).
    calls: AtomicU64,
    pub(crate) region: Region,
    /// Where the host finds the bytes, if it always does.
    pub(crate) bytes: Option<HostBytes>,
}

/// Where an allocation's memory comes from, and so where it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// From the driver, charged by its class; cached when it comes back.
    Pool {
        /// What it is for.
        kind: Kind,
        /// Its bin, or exact size.
        class: Class,
    },
    /// Small host memory: charged exactly, never cached (S9.11).
    Small,
    /// A staging half, charged as staging.
    Half,
    /// Memory that the program brought; charged to nobody.
    Wrapped,
    /// An open file; charged to nobody.
    File,
    /// No bytes at all (S4.3).
    Empty,
}

/// What an allocation is made of.
pub(crate) struct Parts {
    pub(crate) owner: Arc<Owner>,
    pub(crate) region: Region,
    pub(crate) bytes: Option<HostBytes>,
    pub(crate) memory: Memory,
    pub(crate) len: u64,
    pub(crate) read_only: bool,
}

impl Allocation {
    /// Makes a record with no handle yet, and enters it in its payer's roster.
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let mut flags = if parts.read_only { READ_ONLY } else { 0 };
        if parts.bytes.is_none() && parts.memory.is_mapped_on(&parts.owner) {
            flags |= WHILE_MAPPED;
        }
        let made = Self::record(parts, flags, 0);
        let place = made.payer().heap.lock().roster.enter(Arc::downgrade(&made));
        made.roster.store(place, Ordering::Relaxed);
        made
    }

    /// Makes a record that is in no roster.
    fn record(parts: Parts, flags: u32, users: u64) -> Arc<Self> {
        let made = Arc::new(Self {
            link: Link::new(),
            users: AtomicU64::new(users),
            calls: AtomicU64::new(0),
            flags: AtomicU32::new(flags),
            claims: Claims::new(),
            stamps: Stamps::new(),
            owner: parts.owner,
            region: parts.region,
            bytes: parts.bytes,
            memory: parts.memory,
            len: AtomicU64::new(parts.len),
            roster: AtomicU32::new(0),
            extra: Rare::new(),
        });
        if made.memory.is_outside() {
            made.claims.set_outside();
        }
        made
    }

    /// Leaves the payer's roster, when its memory is gone.
    pub(crate) fn leave_roster(&self) {
        self.payer().heap.lock().roster.leave(self.roster.load(Ordering::Relaxed));
    }

    /// Starts the life of the next buffer. Nobody else has the allocation.
    pub(crate) fn serve(&self, len: u64, tag: Tag) {
        self.serve_plain(len);
        if !tag.is_none() {
            self.extra.lock().tag = tag;
        }
    }

    /// Starts the life of the next buffer, which has no tag.
    #[inline]
    pub(crate) fn serve_plain(&self, len: u64) {
        self.len.store(len, Ordering::Relaxed);
        self.stamps.forget_done();
        let flags = self.flags.load(Ordering::Relaxed) & (READ_ONLY | WHILE_MAPPED);
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Forgets what belonged to the last buffer. Nobody else has the allocation.
    #[inline]
    pub(crate) fn retire(&self) {
        self.claims.reset();
        self.stamps.forget_done();
        self.extra.if_made(|extra| extra.tag = Tag::default());
    }

    /// Returns the bytes asked for.
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns the bytes that its payer is charged.
    pub(crate) fn charged(&self) -> u64 {
        match self.memory {
            Memory::Pool { class, .. } => class.bytes(),
            Memory::Small | Memory::Half => self.len(),
            Memory::Wrapped | Memory::File | Memory::Empty => 0,
        }
    }

    /// Returns who pays: the device for its memory, the host for Pinned and staging (S10.1).
    pub(crate) fn payer(&self) -> &Arc<Owner> {
        self.owner.payer(self.kind())
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.memory {
            Memory::Pool { kind, .. } => kind,
            Memory::Half => Kind::Transfer,
            _ => Kind::Device,
        }
    }

    /// Returns the place in the books of its bytes while a handle names them.
    pub(crate) fn live_place(&self) -> Where {
        match self.kind() {
            Kind::Device => Where::Live,
            Kind::Pinned => Where::Pinned,
            Kind::Transfer => Where::Staging,
        }
    }

    /// Whether it is an open file.
    pub(crate) fn is_file(&self) -> bool {
        HAS_FILES && self.memory == Memory::File
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.has(READ_ONLY)
    }

    pub(crate) fn is_lent(&self) -> bool {
        self.has(LENT)
    }

    pub(crate) fn set_lent(&self) {
        self.flags.fetch_or(LENT, Ordering::Relaxed);
    }

    /// Notes that the driver has not given the region for good yet (S10.12).
    pub(crate) fn set_unsure(&self) {
        self.flags.fetch_or(UNSURE, Ordering::Relaxed);
    }

    /// Whether the driver may still refuse the region.
    pub(crate) fn is_unsure(&self) -> bool {
        self.has(UNSURE)
    }

    /// Notes that its bytes left the books, lent and without handles (S4.16).
    pub(crate) fn set_given(&self) {
        self.flags.fetch_or(GIVEN, Ordering::Relaxed);
    }

    pub(crate) fn is_given(&self) -> bool {
        self.has(GIVEN)
    }

    /// Whether the host addresses the bytes, always or while mapped.
    pub(crate) fn is_addressed(&self) -> bool {
        match self.memory {
            _ if self.is_file() => false,
            Memory::Empty => self.owner.facts.addressed != Addressed::Never,
            _ => self.bytes.is_some() || self.is_mapped_access(),
        }
    }

    /// Whether the host addresses the bytes only while they are mapped (S1.9).
    pub(crate) fn is_mapped_access(&self) -> bool {
        self.has(WHILE_MAPPED)
    }

    /// Whether that is so of a buffer's.
    pub(crate) fn is_mapped_buffer(&self) -> bool {
        MAPS_BUFFERS && self.is_mapped_access()
    }

    /// Claims the way back: true for the one caller that may take the memory home, once neither a
    /// handle of a live record, nor a kept read, nor an export needs the bytes. Where only kept
    /// reads do, the last of them gets a reference, and puts the record on the list again.
    pub(crate) fn start_return(self: &Arc<Self>) -> bool {
        let ended = || self.claims.is_dead() && !self.has(MOVING);
        let unneeded = |users| users & HANDLES == 0 && !self.claims.is_kept();
        while !self.seize(|users| users & EXPORTS == 0 && (unneeded(users) || ended())) {
            if self.users.load(Ordering::Relaxed) != 0 {
                return false;
            }
            let left = Arc::clone(self);
            if self.claims.leave() {
                std::mem::forget(left);
                return false;
            }
            if self.claims.is_kept() {
                return false;
            }
        }
        true
    }

    /// Whether nothing was ever said of the buffer and no work used it, so that nothing has to be
    /// forgotten for the next one.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & !(READ_ONLY | WHILE_MAPPED) == 0
            && self.claims.is_untouched()
            && self.stamps.is_empty()
            && self.extra.is_none()
    }

    /// Claims the way back of a record that nothing needs; false, and nothing changed, for others.
    #[inline]
    pub(crate) fn start_plain_return(&self) -> bool {
        // ORDERING: as in `seize`.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        self.users.compare_exchange(0, RETURNING, set, fetch).is_ok()
    }

    /// Notes, before it is dead, that the memory is about to move to a new record: no drain takes
    /// it home meanwhile.
    pub(crate) fn prepare_move(&self) {
        self.flags.fetch_or(MOVING, Ordering::Relaxed);
    }

    /// Takes that back: the record stays alive.
    pub(crate) fn cancel_move(&self) {
        self.flags.fetch_and(!MOVING, Ordering::Relaxed);
    }

    /// Claims the memory of a dead record for a new one, whoever still names it.
    pub(crate) fn start_move(&self) -> bool {
        self.seize(|_| true)
    }

    fn seize(&self, may: impl Fn(u64) -> bool) -> bool {
        let take = |users: u64| (users & RETURNING == 0 && may(users)).then_some(users | RETURNING);
        // ORDERING: pairs with the decrements: whoever gets it sees what the last user left.
        self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    pub(crate) fn is_returning(&self) -> bool {
        // ORDERING: pairs with `seize`.
        self.users.load(Ordering::Acquire) & RETURNING != 0
    }

    /// Whether any handle names the record.
    pub(crate) fn has_handles(&self) -> bool {
        self.users.load(Ordering::Relaxed) & HANDLES != 0
    }

    pub(crate) fn has_exports(&self) -> bool {
        self.users.load(Ordering::Relaxed) & EXPORTS != 0
    }

    /// Whether any call is in progress.
    pub(crate) fn is_called(&self) -> bool {
        self.calls.load(Ordering::Relaxed) > 0
    }

    /// Whether a call in progress moves the bytes.
    pub(crate) fn is_moved(&self) -> bool {
        self.calls.load(Ordering::Relaxed) >= MOVES
    }

    /// Asks for a claim, and holds it if it is granted.
    #[inline]
    pub(crate) fn ask(&self, ask: Ask, pass: Pass) -> Answer {
        let marks = &self.owner.marks;
        if matches!(ask, Ask::Export | Ask::Free) {
            return self.claims.ask_counted(ask, pass, marks);
        }
        let answer = self.claims.ask(ask, pass);
        if answer == Answer::Granted && self.claims.meets_mark(ask, pass, marks) {
            self.release(ask);
            return Answer::Waits;
        }
        answer
    }

    /// Returns the answer that would be given now, and holds nothing.
    pub(crate) fn would(&self, ask: Ask, pass: Pass) -> Answer {
        self.claims.would(ask, pass, &self.owner.marks)
    }

    /// Releases a claim and wakes who waits for it.
    pub(crate) fn release(&self, ask: Ask) {
        if self.claims.release(ask) {
            self.owner.claim_wakers.wake_all();
        }
    }

    /// Moves the memory of a dead record to a new one, which alone has it from then on, on its way
    /// home or not, as `users` says. The caller has won the record.
    fn move_out(self: &Arc<Self>, users: u64) -> Arc<Self> {
        let flags = self.flags.load(Ordering::Relaxed) & !MOVING;
        let parts = Parts {
            owner: Arc::clone(&self.owner),
            region: self.region,
            bytes: self.bytes,
            memory: self.memory,
            len: self.len(),
            read_only: flags & READ_ONLY != 0,
        };
        let made = Self::record(parts, flags, users);
        let place = self.roster.load(Ordering::Relaxed);
        made.roster.store(place, Ordering::Relaxed);
        if self.claims.is_outside() {
            made.claims.set_outside();
        }
        made.stamps.take_over(&self.stamps);
        if !made.stamps.is_only_of(made.owner.id) {
            made.claims.count();
        }
        self.extra.if_made(|old| {
            // Mappings change their root under its lock, so that each finds itself there. Nobody
            // else has the new record, whose lock comes second.
            let mut new = made.extra.lock();
            (new.maps, new.keeper) = (std::mem::take(&mut old.maps), old.keeper.take());
            new.tag = old.tag.clone();
            new.maps.iter().for_each(|map| *map.root.lock() = Arc::clone(&made));
        });
        let mut heap = self.payer().heap.lock();
        heap.roster.replace(place, Arc::downgrade(&made));
        drop(heap);
        made
    }

    /// Returns the record that takes the memory home: a dead one that handles still name stays
    /// behind. The caller has won [`Allocation::start_return`].
    pub(crate) fn homeward(self: Arc<Self>) -> Arc<Self> {
        if self.has_handles() { self.move_out(RETURNING) } else { self }
    }

    /// Returns the first reference to a new record with the memory. The caller has won
    /// [`Allocation::start_move`].
    pub(crate) fn taken_over(self: &Arc<Self>) -> Ref {
        Ref::first(self.move_out(1))
    }

    /// Returns why the allocation is dead.
    pub(crate) fn why_dead(&self) -> Arc<str> {
        let why = self.extra.if_made(|extra| extra.why.clone()).flatten();
        why.unwrap_or_else(|| Arc::from("freed"))
    }

    /// Whether an access by `token`'s object passes under the exclusive claim.
    pub(crate) fn pass(&self, token: u64) -> Pass {
        let held_by = |extra: &mut Extra| extra.holder == token;
        let holds = token != 0 && self.extra.if_made(held_by) == Some(true);
        if holds { Pass::Exclusive } else { Pass::No }
    }

    fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Relaxed) & flag != 0
    }
}

impl Linked for Allocation {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn list(&self) -> &List<Self> {
        &self.owner.returns
    }
}

impl Memory {
    /// Whether the host has to have such memory of a device mapped, if it addresses it at all.
    fn is_mapped_on(self, owner: &Owner) -> bool {
        match self {
            Self::File | Self::Empty => false,
            // Transfer memory is for the host's moves, whatever the device's own memory is.
            Self::Half => true,
            _ => owner.facts.addressed == Addressed::WhileMapped,
        }
    }

    /// Whether such memory is never exclusive (S5.7).
    fn is_outside(self) -> bool {
        matches!(self, Self::Wrapped | Self::File)
    }
}

/// Whether buffers may be addressed only while they are mapped: in a browser only halves are.
pub(crate) const MAPS_BUFFERS: bool = cfg!(not(target_family = "wasm"));

/// What a call that moves the bytes counts beside itself.
const MOVES: u64 = 1 << 32;
const HANDLES: u64 = EXPORT - 1;
const EXPORT: u64 = 1 << 32;
const EXPORTS: u64 = RETURNING - EXPORT;
/// Its memory is on the way home, or there, or has moved to another record.
const RETURNING: u64 = 1 << 63;

const READ_ONLY: u32 = 1;
const LENT: u32 = 2;
const GIVEN: u32 = 4;
const WHILE_MAPPED: u32 = 8;
const UNSURE: u32 = 16;
const MOVING: u32 = 32;
