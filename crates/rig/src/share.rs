//! Parts of halves: what a piece of a copy passes through (S7.6).
//!
//! A piece has a half of its own, but for small copies on devices for which no thread may block.
//! There one thread asks for many copies before it waits for any. The first small one takes a half;
//! those that follow it the same way get parts of it, one behind another, with values of their own,
//! and are mapped together. Nobody joins any more once one of them is done, so that the half goes
//! back with the last. Any thread may copy; `OPEN` is a leaf lock.

use crate::allocation::Ref;
use crate::allocation::owner::Owner;
use crate::bytes::HostBytes;
use crate::driver::{Access, Span};
use crate::error::Outcome;
use crate::global::Global;
use crate::staging::{self, Half, Lane};
use crate::sync::plain::Mutex;
use crate::timeline::DeviceId;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// A piece's part of a half, which goes back with the last.
pub(crate) struct Part {
    half: Arc<Half>,
    offset: u64,
    pub(crate) len: u64,
}

/// A half that others may join.
struct Open {
    half: Arc<Half>,
    device: DeviceId,
    /// Who fills it: the host, or the device.
    by: DeviceId,
    /// Where the next part starts.
    next: u64,
}

/// Whether a copy of so many bytes joins others.
pub(crate) fn joins(device: &Owner, len: u64) -> bool {
    len <= SMALL_BYTES && !device.facts.may_block
}

/// Takes a part for at most `len` bytes of a copy, of a half that `by` fills, the host or the
/// device: of the lane's next half, or, where the lane joins others, of one that they have.
pub(crate) async fn take(
    device: &Arc<Owner>,
    lane: &mut Lane,
    by: DeviceId,
    len: u64,
) -> Outcome<Part> {
    let joins = lane.joins;
    let mut taken = pin!(staging::take(device, lane, by));
    poll_fn(|cx| {
        if joins {
            let mut open = OPEN.lock();
            let mut same = open.iter_mut().filter(|of| of.device == device.id && of.by == by);
            if let Some(part) = same.find_map(|of| of.part(len)) {
                return Poll::Ready(Ok(part));
            }
        }
        taken.as_mut().poll(cx).map_ok(|half| {
            let len = len.min(half.len()).min(staging::piece_bytes(device));
            let half = Arc::new(half);
            if joins {
                let next = len.next_multiple_of(ALIGN_BYTES);
                OPEN.lock().push(Open { half: Arc::clone(&half), device: device.id, by, next });
                // Whoever waits for a half of its own joins.
                staging::wake();
            }
            Part { half, offset: 0, len }
        })
    })
    .await
}

impl Open {
    /// Gives out a part, if there is room.
    fn part(&mut self, len: u64) -> Option<Part> {
        let offset = self.next;
        let end = offset.checked_add(len).filter(|end| *end <= self.half.len())?;
        self.next = end.next_multiple_of(ALIGN_BYTES);
        Some(Part { half: Arc::clone(&self.half), offset, len })
    }
}

impl Part {
    pub(crate) fn half(&self) -> &Half {
        &self.half
    }

    /// Returns the half's memory.
    pub(crate) fn at(&self) -> &Ref {
        &self.half().at
    }

    /// Returns the part's bytes of those of the half.
    pub(crate) fn of(&self, half: HostBytes) -> HostBytes {
        half.range(self.offset, self.len)
    }

    /// Returns the bytes as the half's device sees them.
    pub(crate) fn span(&self, access: Access) -> Span {
        Span { offset: self.offset, ..self.half().span(self.len, access) }
    }

    /// Lets nobody join any more.
    pub(crate) fn close(&self) {
        OPEN.lock().retain(|open| !Arc::ptr_eq(&open.half, &self.half));
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.close();
    }
}

const SMALL_BYTES: u64 = 64 << 10;
/// Parts are apart, so that copies of whole words touch no other.
const ALIGN_BYTES: u64 = 16;

/// Guards the halves that others may join.
static OPEN: Global<Mutex<Vec<Open>>> = Global::new(Mutex::new(Vec::new()));
