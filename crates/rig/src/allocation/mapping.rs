//! A mapping of one allocation on another device, shared by all borrows there.
//!
//! One mapping exists per device and allocation (S4.10). The last borrow's drop notes the value
//! after which it is due and puts it on the device's list; a borrow before its release revives it.
//!
//! ```text
//! Importing -> Live, or Released where the driver maps nothing
//! Live --last borrow dropped, drained--> Due(value) --value reached--> Releasing -> Released
//!  ^                                        |
//!  +------------- borrowed again -----------+
//! ```
//!
//! Any thread may hold a [`MapRef`]. The root's `extra` lock orders the changes of state.

use crate::allocation::owner::Owner;
use crate::allocation::{Allocation, Extra};
use crate::driver::Region;
use crate::list::{Link, Linked, List, Share, Shared};
use crate::sync::{AtomicU32, AtomicU64, HAS_THREADS, Mutex, Ordering};
use std::sync::{Arc, OnceLock};

/// A mapping.
pub(crate) struct Mapping {
    link: Link<Mapping>,
    /// The device that maps the memory.
    pub(crate) device: Arc<Owner>,
    /// The memory as that device sees it, once it is imported.
    region: OnceLock<Region>,
    /// Guards which record has the mapped memory; a leaf lock.
    pub(crate) root: Mutex<Arc<Allocation>>,
    /// Its place in the device's roster.
    pub(crate) place: AtomicU32,
    /// Live borrows.
    pub(crate) live: AtomicU32,
    /// What was submitted when the last borrow went.
    pub(crate) due: AtomicU64,
    /// Guards the state; a leaf lock, changed under the root's `extra`.
    pub(crate) state: Mutex<MapState>,
}

/// Where a mapping is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MapState {
    /// The driver is making it; until then the bytes stay, and nobody else imports them.
    Importing,
    /// Borrows name it, or did until just now.
    Live,
    /// It goes once the device reached this value, submitted when the last borrow went.
    Due(u64),
    /// The driver is releasing it.
    Releasing,
    /// It is gone.
    Released,
}

impl Mapping {
    /// Makes a mapping that is still to be imported.
    pub(crate) fn new(device: &Arc<Owner>, root: &Arc<Allocation>) -> Arc<Self> {
        let made = Arc::new(Self {
            link: Link::new(),
            device: Arc::clone(device),
            region: OnceLock::new(),
            root: Mutex::new(Arc::clone(root)),
            place: AtomicU32::new(0),
            live: AtomicU32::new(0),
            due: AtomicU64::new(0),
            state: Mutex::new(MapState::Importing),
        });
        let place = device.heap.lock().maps.enter(Arc::downgrade(&made));
        made.place.store(place, Ordering::Relaxed);
        made
    }

    /// Returns the memory as the device sees it; of 0 bytes it sees none.
    pub(crate) fn region(&self) -> Region {
        self.region.get().copied().unwrap_or_default()
    }

    /// Notes what the driver answered.
    pub(crate) fn imported(&self, region: Region) {
        let first = self.region.set(region);
        debug_assert!(first.is_ok(), "a mapping is imported once");
    }

    /// Whether a borrow that is not dead names it. The caller has the root's `extra`.
    pub(crate) fn is_wanted(&self, root: &Allocation) -> bool {
        let alive = !root.is_returning() && !root.claims.is_dead();
        // ORDERING: pairs with the decrement of the last borrow.
        self.live.load(Ordering::Acquire) > 0 && alive
    }

    /// Notes that a borrow goes: the mapping is due once the device reached what is submitted now,
    /// if no borrow is left by then. Notes only grow.
    pub(crate) fn note_due(&self) {
        self.due.fetch_max(self.device.track.submitted(), Ordering::Relaxed);
    }

    /// Calls `f` with the record that has the memory, which does not change meanwhile.
    pub(crate) fn with_root<R>(&self, f: impl FnOnce(&Arc<Allocation>, &mut Extra) -> R) -> R {
        loop {
            let root = Arc::clone(&self.root.lock());
            let mut extra = root.extra.lock();
            // Before the lock was there, the memory may have moved to another record.
            let stays = !HAS_THREADS || Arc::ptr_eq(&self.root.lock(), &root);
            if stays {
                return f(&root, &mut extra);
            }
        }
    }
}

impl Linked for Mapping {
    fn link(&self) -> &Link<Self> {
        &self.link
    }

    fn list(&self) -> &List<Self> {
        &self.device.unmaps
    }
}

/// A borrow's share of a mapping.
pub(crate) struct MapRef(Share<Mapping>);

impl MapRef {
    /// Takes a share. The caller holds the root's `extra`, or has the mapping alone.
    pub(crate) fn new(mapping: Arc<Mapping>) -> Self {
        mapping.live.fetch_add(1, Ordering::Relaxed);
        Self(Share::counted(mapping))
    }

    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        self.0.item()
    }
}

impl Clone for MapRef {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(self.mapping()))
    }
}

impl Shared for Mapping {
    fn leave(&self) -> bool {
        // Noted first: whoever sees that no borrow is left sees what the last of them submitted.
        self.note_due();
        // ORDERING: releases the note and what this borrow did, to `is_wanted`.
        self.live.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
