//! What a creation asks for, checked and rounded: before the first try, and without a wait. The
//! caller has the heap's lock where a heap is given; any thread may call.

use crate::allocation::Memory;
use crate::allocation::heap::Heap;
use crate::allocation::owner::Owner;
use crate::bytes::page_bytes;
use crate::cache::{Class, HAS_PINNED};
use crate::drain::with_pool_payer;
use crate::driver::{Addressed, Kind};
use crate::error::{Failed, Outcome, text};
use crate::reclaim::Want;
use std::sync::Arc;

/// What is asked for, rounded.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) len: u64,
    /// The length rounded up to the grain, or to pages.
    pub(crate) grained: u64,
    pub(crate) shape: Shape,
}

#[derive(Clone, Copy)]
pub(crate) enum Shape {
    Pool(Class),
    Small,
    Half,
}

impl Plan {
    /// Returns the bytes that have to fit the budget at least.
    pub(crate) fn bytes(&self) -> u64 {
        match self.shape {
            Shape::Pool(_) => self.grained,
            Shape::Small | Shape::Half => self.len,
        }
    }

    /// Returns the class of the asked size alone.
    pub(crate) fn exact(&self) -> Class {
        Class::Exact { bytes: self.grained }
    }

    /// Whether the memory starts on a page: that of the host, which devices map, but for small.
    pub(crate) fn is_paged(&self, owner: &Owner) -> bool {
        match self.shape {
            Shape::Pool(_) => owner.is_host(),
            Shape::Small => false,
            Shape::Half => true,
        }
    }

    pub(crate) fn memory(&self, class: Class) -> Memory {
        match self.shape {
            Shape::Pool(_) => Memory::Pool { kind: self.kind, class },
            Shape::Small => Memory::Small,
            Shape::Half => Memory::Half,
        }
    }
}

pub(crate) fn payer_of<'a>(owner: &'a Arc<Owner>, plan: &Plan) -> &'a Arc<Owner> {
    owner.payer(plan.kind)
}

pub(crate) fn budget_of(owner: &Arc<Owner>, plan: &Plan) -> u64 {
    payer_of(owner, plan).heap.lock().books.budget_bytes()
}

/// Checks the arguments of a creation; answers the kind of memory that serves.
#[inline]
pub(crate) fn check(owner: &Owner, want: &Want) -> Outcome<Kind> {
    let unsupported = |why: &str| Err(Failed::unsupported(&owner.name, why));
    if owner.has_files {
        return unsupported("a device of files makes buffers of files only");
    }
    let kind = match want.kind {
        Kind::Pinned if owner.facts.addressed != Addressed::Never => Kind::Device,
        Kind::Pinned if !HAS_PINNED || !owner.facts.pinned => {
            return unsupported("this device has no Pinned memory");
        }
        kind => kind,
    };
    // Whole grains are allocated, so the largest allocation is the last multiple.
    let (len, grain) = (want.len, grain_of(owner, want.len));
    let largest = owner.facts.largest_bytes;
    let largest = if grain == 1 { largest } else { largest / grain * grain };
    if len > largest {
        return unsupported(&text!(len, " bytes asked, the largest allocation is ", largest));
    }
    Ok(kind)
}

/// Returns the multiple that an allocation of this length is made in.
#[inline]
fn grain_of(owner: &Owner, len: u64) -> u64 {
    let paged = owner.is_host() && len >= paged_bytes();
    if paged { page_bytes() } else { owner.facts.grain_bytes }
}

/// Rounds a length; answers the payer's budget too.
#[inline]
pub(crate) fn plan(heap: &mut Heap, owner: &Arc<Owner>, kind: Kind, len: u64) -> (Plan, u64) {
    let budget = with_pool_payer(heap, owner, kind, |books| books.budget_bytes());
    let largest = owner.facts.largest_bytes;
    let grain = grain_of(owner, len);
    let grained = if grain == 1 { len } else { len.next_multiple_of(grain) };
    let shape = if owner.is_host() && len < paged_bytes() {
        Shape::Small
    } else {
        let class = heap.cache.class(grained);
        let fits = class.bytes() <= budget.min(largest);
        Shape::Pool(if fits { class } else { Class::Exact { bytes: grained } })
    };
    (Plan { kind, len, grained, shape }, budget)
}

/// Returns the least length of a host buffer that starts on a page and is cached (S9.11).
fn paged_bytes() -> u64 {
    (64 << 10).max(4 * page_bytes())
}
