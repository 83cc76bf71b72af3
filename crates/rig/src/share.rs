//! Halves that small copies share, on devices for which no thread may block (S7.6).
//!
//! There one thread asks for many copies before it waits for any. The first small one takes a half;
//! those that follow it the same way get parts of it, one behind another, with values of their own,
//! and are mapped together. Nobody joins any more once one of them is done, so that the half goes
//! back with the last. A part is the host's only while it looks: whoever had to wait looks again,
//! since another's work may have ended the map. Any thread may copy; `OPEN` is a leaf lock.

use crate::access::{Side as Claimed, claim_host, own_bytes, part_bytes, poll_map};
use crate::allocation::owner::Owner;
use crate::buffer::Buffer;
use crate::bytes::HostBytes;
use crate::driver::{Access, Span};
use crate::error::Outcome;
use crate::global::Global;
use crate::hand::Touch;
use crate::piece::{
    Sink, Source, device_copy, note, part_of, staged_in, staged_out, take_half, taken,
};
use crate::profile::{self, What};
use crate::staging::{self, Half, Lane};
use crate::sync::plain::Mutex;
use crate::timeline::DeviceId;
use crate::wait;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

/// Copies out like [`staged_out`]; small copies share a half.
pub(crate) async fn shared_out(src: &Buffer, dst: &mut Sink<'_>) -> Outcome<()> {
    let device = &src.at.owner;
    if !is_small(device, src.len()) || matches!(dst, Sink::Buffer(dst) if dst.at.is_file()) {
        return staged_out(src, dst).await;
    }
    let part = join(device, src.len(), device.id).await?;
    let started = profile::begin();
    let from = part_of(src, 0, part.len, Access::Read);
    let touches = [
        Touch { at: &src.at, access: Access::Read },
        Touch { at: &part.shared.half.at, access: Access::Write },
    ];
    let point = device_copy(device, from, part.span(Access::Write), &touches).await?;
    note(started, What::Leg, device.id, part.len);
    wait::finish(device, point.value(), "copy").await?;
    part.shared.close();
    let started = profile::begin();
    match dst {
        Sink::Slice(into) => part.bytes(Access::Read).await?.read_slice(into),
        Sink::Buffer(buffer) => {
            let side = Claimed { buffer, access: Access::Write };
            part.with_claimed(side, Access::Read, |from, into| from.copy_to(into)).await?;
        }
    }
    note(started, What::HostMove, DeviceId::HOST, part.len);
    Ok(())
}

/// Copies in like [`staged_in`]; small copies that need halves share one.
pub(crate) async fn shared_in(src: &Source<'_>, dst: &Buffer) -> Outcome<()> {
    let device = &dst.at.owner;
    let is_alone =
        matches!(src, Source::Buffer(src, _) if src.at.is_file()) || taken(src, dst).is_some();
    if !is_small(device, dst.len()) || is_alone {
        return staged_in(src, dst).await;
    }
    let part = join(device, dst.len(), DeviceId::HOST).await?;
    let started = profile::begin();
    match src {
        Source::Slice(from) => part.bytes(Access::Write).await?.write_slice(from),
        Source::Buffer(buffer, _) => {
            let side = Claimed { buffer, access: Access::Read };
            part.with_claimed(side, Access::Write, |into, from| from.copy_to(into)).await?;
        }
    }
    note(started, What::HostMove, DeviceId::HOST, part.len);
    let started = profile::begin();
    let to = part_of(dst, 0, part.len, Access::Write);
    let touches = [
        Touch { at: &part.shared.half.at, access: Access::Read },
        Touch { at: &dst.at, access: Access::Write },
    ];
    let point = device_copy(device, part.span(Access::Read), to, &touches).await?;
    note(started, What::Leg, device.id, part.len);
    wait::finish(device, point.value(), "copy").await?;
    part.shared.close();
    Ok(())
}

/// A half with what was given out of it.
struct Shared {
    half: Half,
    device: DeviceId,
    /// Who fills it: the host, or the device.
    by: DeviceId,
    /// Guards where the next part starts; past the end once nobody joins. A leaf lock.
    next: Mutex<u64>,
}

impl Shared {
    /// Gives out a part, if there is room.
    fn part(self: Arc<Self>, len: u64) -> Option<Part> {
        let mut next = self.next.lock();
        let offset = *next;
        let end = offset.checked_add(len)?.checked_next_multiple_of(ALIGN_BYTES)?;
        if end > self.half.len() {
            return None;
        }
        *next = end;
        drop(next);
        Some(Part { shared: self, offset, len })
    }

    fn close(&self) {
        *self.next.lock() = u64::MAX;
    }
}

/// One copy's part of a half that is shared.
struct Part {
    shared: Arc<Shared>,
    offset: u64,
    len: u64,
}

impl Part {
    fn span(&self, access: Access) -> Span {
        Span { offset: self.offset, ..self.shared.half.span(self.len, access) }
    }

    /// Returns the bytes, which are the caller's until it waits.
    async fn bytes(&self, access: Access) -> Outcome<HostBytes> {
        let bytes = match self.mapped(access)? {
            Poll::Ready(bytes) => bytes,
            Poll::Pending => own_bytes(&self.shared.half.at, access).await?,
        };
        Ok(bytes.range(self.offset, self.len))
    }

    /// Returns the bytes of the whole half if they are mapped, which wakes nobody.
    fn mapped(&self, access: Access) -> Outcome<Poll<HostBytes>> {
        let half = &self.shared.half.at;
        half.bytes.map_or_else(|| poll_map(half, access), |bytes| Ok(Poll::Ready(bytes)))
    }

    /// Gives `f` the bytes and those of a host buffer, under its claim.
    async fn with_claimed(
        &self,
        side: Claimed<'_>,
        access: Access,
        f: impl Fn(HostBytes, HostBytes),
    ) -> Outcome<()> {
        loop {
            let held = claim_host("copy", &[side]).await?;
            if let Poll::Ready(bytes) = self.mapped(access)? {
                f(bytes.range(self.offset, self.len), part_bytes(side.buffer, 0, self.len)?);
                return Ok(());
            }
            drop(held);
            self.bytes(access).await?;
        }
    }
}

fn is_small(device: &Owner, len: u64) -> bool {
    len <= SMALL_BYTES && !device.facts.may_block
}

/// Joins those whose half has room, or takes a half for those that follow.
async fn join(device: &Arc<Owner>, len: u64, by: DeviceId) -> Outcome<Part> {
    let mut lane = Lane::default();
    let mut taken = pin!(take_half(device, &mut lane, by));
    poll_fn(|cx| {
        let open = OPEN.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        let mut same = open.into_iter().filter(|of| of.device == device.id && of.by == by);
        if let Some(part) = same.find_map(|shared| shared.part(len)) {
            return Poll::Ready(Ok(part));
        }
        taken.as_mut().poll(cx).map_ok(|half| {
            let shared = Shared { half, device: device.id, by, next: Mutex::new(0) };
            let shared = Arc::new(shared);
            let mut open = OPEN.lock();
            open.retain(|other| other.strong_count() > 0);
            open.push(Arc::downgrade(&shared));
            drop(open);
            // Whoever waits for a half of its own joins.
            staging::wake();
            shared.part(len).expect("a half has room for a small copy")
        })
    })
    .await
}

const SMALL_BYTES: u64 = 64 << 10;
/// Parts are apart, so that copies of whole words touch no other.
const ALIGN_BYTES: u64 = 16;

/// Guards which halves are shared; each goes with the last of its parts.
static OPEN: Global<Mutex<Vec<Weak<Shared>>>> = Global::new(Mutex::new(Vec::new()));
