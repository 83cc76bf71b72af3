//! What work does to the allocations that it uses: an access, a claim and its mark. Any thread may
//! use it; no lock is taken.

use crate::allocation::{Allocation, Ref};
use crate::claim::{Ask, Mark};
use crate::timeline::Access;
use std::sync::Arc;

/// What work does to an allocation.
pub(crate) trait Use {
    fn at(&self) -> &Arc<Allocation>;
    fn access(&self) -> Access;

    /// Returns the momentary claim that it takes, the same each time.
    fn ask(&self) -> Ask {
        momentary(self.at(), self.access())
    }

    /// Returns how that claim is marked.
    fn mark(&self) -> Mark {
        Mark::of(self.ask())
    }
}

/// An allocation that work uses, each once.
#[derive(Clone, Copy)]
pub(crate) struct Touch<'a> {
    pub(crate) at: &'a Ref,
    pub(crate) access: Access,
}

impl Use for Touch<'_> {
    fn at(&self) -> &Arc<Allocation> {
        self.at.record()
    }

    fn access(&self) -> Access {
        self.access
    }
}

/// What prepared work does to a fixed buffer's memory, found out once; the buffer is kept beside.
pub(crate) struct Fixed {
    record: Arc<Allocation>,
    access: Access,
    ask: Ask,
    mark: Mark,
}

impl Fixed {
    pub(crate) fn new(touch: Touch<'_>) -> Self {
        let (record, access, ask) = (Arc::clone(touch.at()), touch.access, touch.ask());
        Self { record, access, ask, mark: Mark::of(ask) }
    }
}

impl Use for Fixed {
    fn at(&self) -> &Arc<Allocation> {
        &self.record
    }

    fn access(&self) -> Access {
        self.access
    }

    fn ask(&self) -> Ask {
        self.ask
    }

    fn mark(&self) -> Mark {
        self.mark
    }
}

/// The momentary claim that a touch takes. Memory that is addressed only while mapped cannot be
/// used by its device beside any access of the host (S1.9).
fn momentary(at: &Allocation, access: Access) -> Ask {
    match access {
        Access::Read if !at.is_mapped_access() => Ask::MomentaryRead,
        _ => Ask::MomentaryWrite,
    }
}

/// Merges what work uses into one touch an allocation.
pub(crate) fn merge<'a>(touches: impl IntoIterator<Item = Touch<'a>>) -> Touches<'a> {
    let mut merged = Touches::new();
    for touch in touches {
        match merged.iter_mut().find(|known| same(known.at, touch.at)) {
            Some(known) => known.access = known.access.max(touch.access),
            None => merged.push(touch),
        }
    }
    merged
}

fn same(one: &Ref, other: &Ref) -> bool {
    std::ptr::eq::<Allocation>(&**one, &**other)
}

/// Touches, natively the usual count off the heap: a browser's package has no code for that.
#[cfg(not(target_family = "wasm"))]
pub(crate) type Touches<'a> = smallvec::SmallVec<[Touch<'a>; INLINE]>;
#[cfg(target_family = "wasm")]
pub(crate) type Touches<'a> = Vec<Touch<'a>>;

/// The touches that a hand-over keeps off the heap.
pub(crate) const INLINE: usize = 32;
