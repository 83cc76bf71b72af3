//! The usual creation, natively: Device memory out of the asked bin, for a buffer without a tag.
//!
//! It comes to what the whole way would come to, and where it does not serve it has only drained.
//! Any thread may call it; it takes the heap's lock.

use crate::allocation::Ref;
use crate::allocation::owner::Owner;
use crate::drain::kind_index;
use crate::driver::Kind;
use crate::life;
use crate::reclaim::goes_live;
use crate::report::Served;
use crate::tick;
use std::sync::Arc;

/// Makes a buffer's memory, if the asked bin serves.
#[inline]
pub(crate) fn quick(owner: &Arc<Owner>, len: u64) -> Option<Ref> {
    // Small host memory has no bin.
    if owner.is_host() || len == 0 {
        return None;
    }
    life::drain(owner);
    if owner.track.is_lost() {
        return None;
    }
    let mut heap = owner.heap.lock();
    let grain = owner.facts.grain_bytes;
    let grained = if grain == 1 { len } else { len.checked_next_multiple_of(grain)? };
    let class = heap.cache.class(grained);
    if class.bytes() > heap.books.budget_bytes() {
        return None;
    }
    let record = heap.cache.take(kind_index(Kind::Device), class)?;
    heap.counters.requested(len);
    goes_live(&mut heap, owner, Kind::Device, class, Served::Cache);
    drop(heap);
    record.serve_plain(len);
    tick::arm(owner);
    Some(Ref::from_cache(record))
}
