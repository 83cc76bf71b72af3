//! The part of a device that its allocations reach: its driver, its heap, its lists and its turn.
//!
//! A device's handle, an allocation and a mapping all point here; it ends when none of them is
//! left. Any thread may use it. `heap` and `ends` are locks; no driver call happens under them.

use crate::allocation::Allocation;
use crate::allocation::heap::Heap;
use crate::allocation::mapping::Mapping;
use crate::claim::Marks;
use crate::draining::Draining;
use crate::driver::{Addressed, Driver, Facts, Kind};
use crate::gate::Gate;
use crate::list::{Link, Linked, List};
use crate::sync::{AtomicBool, AtomicU32, MaybeSend, MaybeSync, Mutex, Ordering, Wakers, Watchers};
use crate::timeline::{DeviceId, Point, Track};
use crate::turn::Turn;
use std::collections::VecDeque;
use std::sync::Arc;

/// The shared part of a device.
pub(crate) struct Owner {
    pub(crate) id: DeviceId,
    pub(crate) name: Arc<str>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) facts: Facts,
    pub(crate) copy_queue: Option<usize>,
    /// Whether its buffers are files.
    pub(crate) has_files: bool,
    pub(crate) track: &'static Track,
    pub(crate) gate: Gate,
    pub(crate) turn: Turn,
    /// The hand-overs to its own memory; they have the turn.
    pub(crate) marks: Marks,
    /// The drains in progress, and others that have memory of the device in their hands.
    pub(crate) draining: Draining,
    /// Who waits for the word, a loss or a stop.
    pub(crate) wakers: Wakers,
    /// How many waits for values of this device go on.
    pub(crate) waits: AtomicU32,
    /// Who waits for a loss and for nothing else; they keep the tick from nothing.
    pub(crate) loss_watchers: Watchers,
    /// Who waits for a claim on this device's memory.
    pub(crate) claim_wakers: Wakers,
    pub(crate) returns: List<Allocation>,
    pub(crate) unmaps: List<Mapping>,
    /// What the driver made for kernels and prepared submissions that were dropped.
    pub(crate) leftovers: List<Leftover>,
    /// Guards the cache, the books and what is on the way back.
    pub(crate) heap: Mutex<Heap>,
    /// Whether the heap or `ends` hold something that a drain has to look at.
    pub(crate) due: AtomicBool,
    /// Guards what ends with values of this device.
    pub(crate) ends: Mutex<Ends>,
    /// Whether the driver was told to stop.
    pub(crate) stop_begun: AtomicBool,
    /// Whether the stop is over.
    pub(crate) stopped: AtomicBool,
    /// Whether the tick looks at this device.
    pub(crate) ticking: AtomicBool,
    /// Whether the tick knows that the driver may keep work back.
    pub(crate) kept_back: AtomicBool,
    /// The host, which pays for Pinned and staging; none on the host itself.
    pub(crate) host: Option<Arc<Owner>>,
}

/// What ends with values of a device.
#[derive(Default)]
pub(crate) struct Ends {
    /// The foreign points that handed-over values wait for in the queue: value, point.
    pub(crate) foreign: VecDeque<(u64, Point)>,
    /// What is released once a value is done.
    pub(crate) releases: VecDeque<(u64, Arc<dyn Release>)>,
    /// Kernels and prepared submissions that the driver made and has not dropped.
    pub(crate) made: u64,
    pub(crate) still: Still,
}

/// How long the word has stood still while somebody waited (S12.1).
#[derive(Default, Clone, Copy)]
pub(crate) struct Still {
    /// The word at the last look.
    pub(crate) word: u64,
    /// The clock at the last look, in nanoseconds; none after nobody waited.
    pub(crate) looked_ns: Option<u64>,
    /// The time it stood still.
    pub(crate) still_ns: u64,
}

/// What a driver made for a kernel or a prepared submission, dropped once no work uses it.
pub(crate) struct Leftover {
    link: Link<Leftover>,
    owner: Arc<Owner>,
    what: Made,
}

/// What it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Made {
    /// Loaded code.
    Kernel(u64),
    /// A prepared submission.
    Prepared(u64),
}

/// Keeps what a driver made; on drop it goes on the device's list.
pub(crate) struct Keep {
    left: Arc<Leftover>,
}

impl Keep {
    pub(crate) fn new(owner: &Arc<Owner>, what: Made) -> Self {
        will_release();
        owner.ends.lock().made += 1;
        let left = Leftover { link: Link::new(), owner: Arc::clone(owner), what };
        Self { left: Arc::new(left) }
    }

    /// Returns the driver's number.
    pub(crate) fn number(&self) -> u64 {
        match self.left.what {
            Made::Kernel(number) | Made::Prepared(number) => number,
        }
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        List::push(Arc::clone(&self.left));
    }
}

impl Linked for Leftover {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn list(&self) -> &List<Self> {
        &self.owner.leftovers
    }
}

impl Release for Leftover {
    fn done(&self) {
        match self.what {
            Made::Kernel(number) => self.owner.driver.unload(number),
            Made::Prepared(number) => self.owner.driver.unprepare(number),
        }
        self.owner.ends.lock().made -= 1;
    }
}

/// Says that something was made that is released once work is done.
pub(crate) fn will_release() {
    RELEASES.store(true, Ordering::Relaxed);
}

/// Whether anything was; a hint.
pub(crate) fn has_releases() -> bool {
    RELEASES.load(Ordering::Relaxed)
}

/// What a hold keeps; released once, in a drain, with no lock.
pub(crate) trait Release: MaybeSend + MaybeSync {
    /// A submission that names it has its value.
    fn named(&self) {}

    /// One of the submissions that named it is done, or its device settled.
    fn done(&self);
}

impl Owner {
    /// Returns who pays for memory of a kind.
    pub(crate) fn payer(self: &Arc<Self>, kind: Kind) -> &Arc<Self> {
        match (kind, &self.host) {
            (Kind::Pinned | Kind::Transfer, Some(host)) => host,
            _ => self,
        }
    }

    pub(crate) fn is_host(&self) -> bool {
        self.id == DeviceId::HOST
    }

    /// Whether queue order alone keeps the device's next use behind its last (S9.3).
    pub(crate) fn is_ordered(&self) -> bool {
        self.facts.queues.len() == 1 && self.facts.addressed == Addressed::Never
    }

    pub(crate) fn has_timeline(&self) -> bool {
        !self.facts.queues.is_empty()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        // ORDERING: pairs with the store when the stop ends: the driver runs nothing any more.
        self.stopped.load(Ordering::SeqCst)
    }

    /// Whether nothing of the device is left, here or in a program's hands, that comes back to it.
    pub(crate) fn holds_nothing(&self) -> bool {
        let ends = {
            let ends = self.ends.lock();
            ends.releases.is_empty() && ends.made == 0
        };
        ends && self.returns.is_empty() && self.unmaps.is_empty() && self.heap.lock().is_empty()
    }

    /// Whether somebody waits for a value of this device, so that its standing still counts.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waits.load(Ordering::Relaxed) > 0
    }

    /// Whether a drain would find anything; a hint.
    pub(crate) fn has_work(&self) -> bool {
        !self.returns.is_empty()
            || !self.unmaps.is_empty()
            || !self.leftovers.is_empty()
            || self.due.load(Ordering::Relaxed)
    }

    /// Makes the next drain look at what is due.
    pub(crate) fn note_due(&self) {
        // ORDERING: pairs with the swap in a drain.
        self.due.store(true, Ordering::Release);
    }
}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Owner({})", self.name)
    }
}

/// Whether the queue of a device may wait for another's work: a browser's waits for its own alone.
pub(crate) const QUEUES_WAIT: bool = cfg!(not(target_family = "wasm"));
/// Whether there is anything that is released once work is done. Apart from all devices, so that a
/// program that makes no such thing has no code for it.
static RELEASES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
