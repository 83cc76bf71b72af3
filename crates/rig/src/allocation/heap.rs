//! What a device caches, what it pays for, and what is on the way back to it.
//!
//! A heap is plain data behind its owner's lock; nothing here waits or calls a driver. Every byte
//! that drivers handed out stands in exactly one place of its payer's books (S10.2).

use crate::allocation::Allocation;
use crate::allocation::mapping::Mapping;
use crate::budget::Budget;
use crate::cache::{Cache, Live, Options};
use crate::entry;
use crate::ordered::Ordered;
use crate::report::Counters;
use std::sync::{Arc, Weak};

/// The heap of one device.
pub(crate) struct Heap {
    /// What this device caches, Pinned included, for which the host pays.
    pub(crate) cache: Cache<Arc<Allocation>>,
    /// What this device pays for.
    pub(crate) books: Budget,
    pub(crate) counters: Counters,
    /// What is live of the memory that comes back to this cache.
    pub(crate) live: Live,
    /// What waits for a point, by the point's word.
    pub(crate) pending: Ordered<Vec<Arc<Allocation>>>,
    /// The bytes of what is pending: on the way to the cache.
    pub(crate) pending_bytes: u64,
    /// What goes to the driver once a value is reached.
    pub(crate) leaving: Vec<(u64, Arc<Allocation>)>,
    /// The device's mappings that end once a value is reached.
    pub(crate) unmapping: Vec<(u64, Arc<Mapping>)>,
    /// Lent memory without handles, which the program may still have (S4.16).
    pub(crate) given: Vec<Arc<Allocation>>,
    /// What this device pays for, to look through.
    pub(crate) roster: Roster<Allocation>,
    /// The device's mappings.
    pub(crate) maps: Roster<Mapping>,
}

impl Heap {
    pub(crate) fn new(budget_bytes: u64, options: Options) -> Self {
        Self {
            cache: Cache::new(options),
            books: Budget::new(budget_bytes),
            counters: Counters::default(),
            live: Live::default(),
            pending: Ordered::new(),
            pending_bytes: 0,
            leaving: Vec::new(),
            unmapping: Vec::new(),
            given: Vec::new(),
            roster: Roster::default(),
            maps: Roster::default(),
        }
    }

    /// Notes that memory of the cache became live.
    pub(crate) fn goes_live(&mut self, bytes: u64) {
        self.live.count += 1;
        self.live.bytes += bytes;
        self.cache.note_live(self.live);
    }

    /// Notes that memory of the cache is live no more.
    pub(crate) fn leaves_live(&mut self, bytes: u64) {
        self.live.count -= 1;
        self.live.bytes -= bytes;
    }

    /// Counts time in the driver's allocations and frees; once where an outer call counts its own.
    pub(crate) fn spent_in_driver(&mut self, ns: u64) {
        self.counters.spent_in_driver(ns);
        if !entry::is_timed() {
            self.counters.spent(ns);
        }
    }

    /// Returns the bytes that go to the driver once a value is reached.
    pub(crate) fn leaving_bytes(&self) -> u64 {
        self.leaving.iter().map(|(_, record)| record.charged()).sum()
    }

    /// Whether a drain has something to look at again.
    pub(crate) fn has_due(&self) -> bool {
        !(self.pending.is_empty()
            && self.leaving.is_empty()
            && self.unmapping.is_empty()
            && self.given.is_empty())
    }

    /// Whether nothing is here, and nothing that somebody has comes back here.
    pub(crate) fn is_empty(&self) -> bool {
        self.roster.is_empty()
            && self.maps.is_empty()
            && self.live.count == 0
            && self.cache.count() == 0
            && !self.has_due()
    }
}

/// Weak references by place, to look through what exists.
pub(crate) struct Roster<T> {
    places: Vec<Weak<T>>,
    free: Vec<u32>,
}

impl<T> Default for Roster<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Roster<T> {
    pub(crate) fn enter(&mut self, item: Weak<T>) -> u32 {
        if let Some(place) = self.free.pop() {
            self.places[place as usize] = item;
            return place;
        }
        let place = u32::try_from(self.places.len()).expect("a roster has fewer than 2^32 places");
        self.places.push(item);
        place
    }

    pub(crate) fn replace(&mut self, place: u32, item: Weak<T>) {
        self.places[place as usize] = item;
    }

    pub(crate) fn leave(&mut self, place: u32) {
        self.places[place as usize] = Weak::new();
        self.free.push(place);
        if self.free.len() == self.places.len() {
            *self = Self::default();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }

    /// Returns what exists now.
    pub(crate) fn all(&self) -> Vec<Arc<T>> {
        let mut all = Vec::new();
        for place in &self.places {
            if let Some(thing) = place.upgrade() {
                all.push(thing);
            }
        }
        all
    }
}
