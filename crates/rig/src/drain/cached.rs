//! What enters a device's cache and what leaves it for the driver, with the payer's books.
//!
//! Part of a drain. The heap is locked for each step alone, or for some that enter together; what
//! leaves goes with no lock held.

use crate::allocation::Allocation;
use crate::allocation::heap::Heap;
use crate::allocation::owner::Owner;
use crate::budget::{Budget, Where};
use crate::cache::{Beside, Class, HAS_PINNED};
use crate::drain::{After, leave};
use crate::driver::Kind;
use crate::sync::MutexGuard;
use std::sync::Arc;

/// The door of a cache, open while the heap is locked.
pub(crate) struct Door<'a> {
    owner: &'a Arc<Owner>,
    heap: Option<MutexGuard<'a, Heap>>,
    entered_count: u32,
}

impl<'a> Door<'a> {
    pub(crate) fn new(owner: &'a Arc<Owner>) -> Self {
        Self { owner, heap: None, entered_count: 0 }
    }

    /// Puts a record that was live until now into the cache.
    #[inline]
    pub(crate) fn enter(&mut self, record: Arc<Allocation>, class: Class, after: &mut After) {
        let heap = self.heap.get_or_insert_with(|| self.owner.heap.lock());
        heap.counters.returned(record.len());
        heap.leaves_live(class.bytes());
        self.entered_count += 1;
        // Looked at under the lock, as in `put`.
        if self.owner.track.is_lost() || heap.books.over_bytes() > 0 {
            return self.turn_away(record, class, after);
        }
        heap.books.shift(Where::Live, Where::Cached, class.bytes());
        heap.cache.put(kind_index(Kind::Device), class, record);
        if self.entered_count == TOGETHER {
            self.close(after);
        }
    }

    /// Sends on a record that the cache may not keep.
    #[cold]
    fn turn_away(&mut self, record: Arc<Allocation>, class: Class, after: &mut After) {
        let home = Home { record, kind: Kind::Device, class, from: Where::Live };
        let heap = self.heap.get_or_insert_with(|| self.owner.heap.lock());
        let beyond = put(heap, self.owner, home);
        self.close(after);
        if let Some(record) = beyond {
            leave(self.owner, record, after);
        }
    }

    /// Unlocks the heap, and sends what is on top of the cache's bounds on its way.
    #[inline]
    pub(crate) fn close(&mut self, after: &mut After) {
        self.entered_count = 0;
        if let Some(heap) = self.heap.take()
            && heap.cache.over_cap(beside(&heap, 0))
        {
            trim(heap, self.owner, 0, after);
        }
    }
}

/// An allocation at the door of its cache.
pub(crate) struct Home {
    pub(crate) record: Arc<Allocation>,
    pub(crate) kind: Kind,
    pub(crate) class: Class,
    /// Where its bytes stand in the books.
    pub(crate) from: Where,
}

/// Keeps an allocation that has been returning, if the bounds of the cache allow.
pub(crate) fn keep(owner: &Arc<Owner>, home: Home, after: &mut After) {
    home.record.retire();
    let mut heap = owner.heap.lock();
    let beyond = put(&mut heap, owner, home);
    trim(heap, owner, 0, after);
    if let Some(record) = beyond {
        leave(owner, record, after);
    }
}

/// Puts an allocation into the cache, or answers it if its payer is over budget (S9.3) or its
/// device lost.
#[inline]
fn put(heap: &mut Heap, owner: &Arc<Owner>, home: Home) -> Option<Arc<Allocation>> {
    let Home { record, kind, class, from } = home;
    // Looked at under the lock under which a stop empties the cache: nothing enters it after that.
    let lost = owner.track.is_lost();
    let within = with_pool_payer(heap, owner, kind, |books| {
        let within = !lost && books.over_bytes() == 0;
        books.shift(from, if within { Where::Cached } else { Where::Returning }, class.bytes());
        within
    });
    if within {
        heap.cache.put(kind_index(kind), class, record);
        None
    } else {
        heap.cache.freed_from(kind_index(kind), class);
        Some(record)
    }
}

/// Trims the cache, ahead of an allocation that the driver is about to make (S9.10).
pub(crate) fn make_way(owner: &Arc<Owner>, coming_bytes: u64, after: &mut After) {
    let _draining = owner.draining.begin();
    trim(owner.heap.lock(), owner, coming_bytes, after);
}

/// Takes what is on top of the cache's bounds out of it, by trim order, and sends it on its way.
fn trim(mut heap: MutexGuard<'_, Heap>, owner: &Arc<Owner>, coming_bytes: u64, after: &mut After) {
    let beside = beside(&heap, coming_bytes);
    let mut leaving = Vec::new();
    while heap.cache.over_cap(beside) {
        let Some((record, kind, class)) = heap.cache.pop_oldest() else { break };
        taken_out(&mut heap, owner, kind_of(kind), class);
        leaving.push(record);
    }
    drop(heap);
    leaving.into_iter().for_each(|record| leave(owner, record, after));
}

#[inline]
fn beside(heap: &Heap, coming_bytes: u64) -> Beside {
    let live_bytes = heap.live.bytes + coming_bytes;
    Beside { live_bytes, returning_bytes: heap.pending_bytes }
}

/// Notes in the payer's books that an allocation left the cache for the driver.
fn taken_out(heap: &mut Heap, owner: &Arc<Owner>, kind: Kind, class: Class) {
    with_pool_payer(heap, owner, kind, |books| {
        books.shift(Where::Cached, Where::Returning, class.bytes());
    });
}

/// Gives `f` the books of whoever pays for this kind; locks the host's heap after the device's.
#[inline]
pub(crate) fn with_payer<R>(
    heap: &mut Heap,
    owner: &Arc<Owner>,
    kind: Kind,
    f: impl FnOnce(&mut Budget) -> R,
) -> R {
    let host = if kind == Kind::Device { None } else { owner.host.as_ref() };
    let mut paying;
    let books = match host {
        Some(host) => {
            paying = host.heap.lock();
            &mut paying.books
        }
        None => &mut heap.books,
    };
    f(books)
}

/// Does so for memory that is cached: for what browsers cache, its device pays.
#[inline]
pub(crate) fn with_pool_payer<R>(
    heap: &mut Heap,
    owner: &Arc<Owner>,
    kind: Kind,
    f: impl FnOnce(&mut Budget) -> R,
) -> R {
    if HAS_PINNED { with_payer(heap, owner, kind, f) } else { f(&mut heap.books) }
}

/// Takes one allocation after another out of the cache, as `pop` names them, and sends them to
/// the driver.
pub(crate) fn empty_cache(
    owner: &Arc<Owner>,
    after: &mut After,
    mut pop: impl FnMut(&mut Heap) -> Option<(Arc<Allocation>, usize, Class)>,
) {
    let _draining = owner.draining.begin();
    loop {
        let record = {
            let mut heap = owner.heap.lock();
            let Some((record, kind, class)) = pop(&mut heap) else { return };
            taken_out(&mut heap, owner, kind_of(kind), class);
            record
        };
        leave(owner, record, after);
    }
}

/// Sends everything cached of a kind to the driver; answers its bytes.
pub(crate) fn empty_kind(owner: &Arc<Owner>, kind: Kind, after: &mut After) -> u64 {
    take_out(owner, after, &|heap, taken| {
        let index = kind_index(kind);
        heap.cache.pop_all_of(index, |record, class| taken.push((record, index, class)));
    })
}

/// Sends everything cached to the driver.
pub(crate) fn empty_all(owner: &Arc<Owner>, after: &mut After) {
    for kind in KINDS {
        empty_kind(owner, *kind, after);
    }
}

/// Sends to the driver what the usage windows of the bins say (S9.14).
pub(crate) fn reclaim(owner: &Arc<Owner>, after: &mut After) {
    take_out(owner, after, &|heap, taken| {
        heap.cache.reclaim(|record, kind, class| taken.push((record, kind, class)));
    });
}

type Taken = Vec<(Arc<Allocation>, usize, Class)>;

/// Sends to the driver what `take` takes out of the cache, all at once; answers its bytes.
fn take_out(owner: &Arc<Owner>, after: &mut After, take: &dyn Fn(&mut Heap, &mut Taken)) -> u64 {
    let _draining = owner.draining.begin();
    let mut taken = Taken::new();
    {
        let mut heap = owner.heap.lock();
        take(&mut heap, &mut taken);
        for (_, kind, class) in &taken {
            taken_out(&mut heap, owner, kind_of(*kind), *class);
        }
    }
    let bytes = taken.iter().map(|(_, _, class)| class.bytes()).sum();
    taken.into_iter().for_each(|(record, ..)| leave(owner, record, after));
    bytes
}

/// Returns the cache's index of a kind.
pub(crate) fn kind_index(kind: Kind) -> usize {
    match kind {
        Kind::Pinned if HAS_PINNED => 1,
        _ => 0,
    }
}

fn kind_of(index: usize) -> Kind {
    if index == 0 { Kind::Device } else { Kind::Pinned }
}

/// The kinds that are cached.
pub(crate) const KINDS: &[Kind] =
    if HAS_PINNED { &[Kind::Device, Kind::Pinned] } else { &[Kind::Device] };
/// How many records enter the cache under one lock.
const TOGETHER: u32 = 64;
