//! Halves that small copies share, on devices for which no thread may block (S7.6).
//!
//! There one thread asks for many copies before it waits for any. The first small one takes a half;
//! those that follow it the same way get parts of it, one behind another, with values of their own,
//! and are mapped together. Nobody joins any more once one of them is done, so that the half goes
//! back with the last. A part is the host's only while it looks: whoever had to wait looks again,
//! since another's work may have ended the map. Any thread may copy; `OPEN` is a leaf lock.

use crate::allocation::owner::Owner;
use crate::buffer::Buffer;
use crate::driver::Access;
use crate::error::Outcome;
use crate::global::Global;
use crate::piece::{End, Piece, is_taken, leg, other, part_of, staged_in, staged_out, take_half};
use crate::staging::{self, Half, Lane};
use crate::sync::plain::Mutex;
use crate::timeline::DeviceId;
use crate::wait;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

/// Copies to or from where the host has the bytes: out of a buffer for a read of it, like
/// [`staged_out`], else in, like [`staged_in`]. Small copies that need halves share one.
pub(crate) async fn shared(buffer: &Buffer, host: &End<'_>, access: Access) -> Outcome<()> {
    let device = &buffer.at.owner;
    let is_in = access == Access::Write;
    let is_alone = host.file().is_some() || is_in && is_taken(host, buffer);
    if !is_small(device, buffer.len()) || is_alone {
        return match access {
            Access::Read => staged_out(buffer, host).await,
            Access::Write => staged_in(host, buffer).await,
        };
    }
    let by = if is_in { DeviceId::HOST } else { device.id };
    let part = join(device, buffer.len(), by).await?;
    if is_in {
        part.piece().host_moves(host, 0, Access::Write).await?;
    }
    part.device_moves(buffer, access).await?;
    part.shared.close();
    if !is_in {
        part.piece().host_moves(host, 0, Access::Read).await?;
    }
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
    fn piece(&self) -> Piece<'_> {
        Piece { half: &self.shared.half, offset: self.offset, len: self.len }
    }

    /// The device moves the bytes, out of the buffer for a read of that; waits for it.
    async fn device_moves(&self, buffer: &Buffer, access: Access) -> Outcome<()> {
        let device = &buffer.at.owner;
        let own = (&buffer.at, part_of(buffer, 0, self.len, access));
        let part = (&self.shared.half.at, self.piece().span(other(access)));
        let (from, to) = if access == Access::Read { (own, part) } else { (part, own) };
        let point = leg(device, from, to).await?;
        wait::finish(device, point.value(), "copy").await
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
