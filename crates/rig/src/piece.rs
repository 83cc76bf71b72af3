//! Copies in pieces through staging (S7.3 to S7.8): host and device on different halves.
//!
//! A half is held for one piece, or what shares it; a loss before a leg is reached keeps all bytes
//! of that piece from the host. Claims are held only while bytes move. A part of a half is the
//! host's only while it looks: whoever had to wait looks again, since another's work may have ended
//! the map. Any thread may copy.

use crate::access::{
    Moving, Side as Claimed, claim_host, claim_now, own_bytes, part_bytes, poll_map,
};
use crate::allocation::Ref;
use crate::allocation::owner::Owner;
use crate::buffer::Buffer;
use crate::bytes::HostBytes;
use crate::driver::{self, Access, Native, Op, Span, Work};
use crate::error::{Failed, Outcome};
use crate::files::{read_file, write_file};
use crate::hand::{Job, Touch, hand_over, hand_over_now};
use crate::open::host_owner;
use crate::profile::{self, Event, What};
use crate::share::{self, Part};
use crate::staging::{self, Lane, MAPS_HOST};
use crate::sync::BoxFuture;
use crate::timeline::{DeviceId, Point};
use crate::wait;
use std::sync::Arc;
use std::task::Poll;

/// Where the host takes pieces from, or puts them.
pub(crate) enum End<'a> {
    Buffer(&'a Buffer),
    /// Bytes of the caller, which need no claim.
    Bytes(HostBytes),
    /// Memory of another device, which the host reaches through halves of that one (S7.7). Pieces
    /// only go there.
    Device(&'a Buffer),
}

impl End<'_> {
    /// Returns the buffer that it is, if it is one.
    fn buffer(&self) -> Option<&Buffer> {
        match self {
            Self::Bytes(_) => None,
            Self::Buffer(buffer) | Self::Device(buffer) => Some(buffer),
        }
    }

    /// Returns the bytes of a piece, whose buffer is claimed; for a file there are none.
    fn bytes(&self, offset: u64, len: u64) -> Outcome<HostBytes> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.range(offset, len)),
            Self::Buffer(buffer) | Self::Device(buffer) => part_bytes(buffer, offset, len),
        }
    }

    /// Returns the bytes of a piece to be read, unless that waits, or it is of a file.
    fn piece_now(&self, offset: u64, len: u64) -> Outcome<Option<(Option<Moving<'_>>, HostBytes)>> {
        let bytes = match self {
            _ if self.file().is_some() => None,
            Self::Bytes(bytes) => Some((None, *bytes)),
            Self::Buffer(buffer) | Self::Device(buffer) => {
                let found = claim_now("copy", Claimed { buffer, access: Access::Read })?;
                found.map(|(held, bytes)| (Some(held), bytes))
            }
        };
        Ok(bytes.map(|(held, bytes)| (held, bytes.range(offset, len))))
    }

    /// Returns the most bytes of a piece that goes there.
    fn piece_bytes(&self) -> u64 {
        match self {
            Self::Device(buffer) if MAPS_HOST => staging::piece_bytes(&buffer.at.owner),
            _ => u64::MAX,
        }
    }

    /// Returns the file that it is, if it is one.
    fn file(&self) -> Option<&Buffer> {
        match self {
            Self::Buffer(buffer) if buffer.at.is_file() => Some(buffer),
            _ => None,
        }
    }
}

/// A piece that a device moves.
struct Leg {
    /// Its part of a half: outwards, and where others may join it.
    part: Option<Part>,
    /// Where it lies in the buffer.
    offset: u64,
    point: Point,
}

/// The pieces of a copy on their way.
#[derive(Default)]
struct Pieces {
    lane: Lane,
    /// Legs that are handed over and were not waited for.
    running: Vec<Leg>,
}

/// Moves all bytes of a buffer that the host does not address, piece by piece: out of it to the end
/// for a read, else in from there. The host moves one piece while the device moves others. A driver
/// that takes host bytes as they are gets them without a half.
pub(crate) async fn staged(buffer: &Buffer, end: &End<'_>, access: Access) -> Outcome<()> {
    let is_alone = end.file().is_some() || matches!(end, End::Device(_));
    let mut pieces = Pieces::default();
    pieces.lane.joins = !is_alone && share::joins(&buffer.at.owner, buffer.len());
    moved(buffer, end, access, &mut pieces, 0).await
}

/// Hands all pieces over, and waits until so few of their legs are `left`.
async fn moved(
    buffer: &Buffer,
    end: &End<'_>,
    access: Access,
    pieces: &mut Pieces,
    left: usize,
) -> Outcome<()> {
    let mut device = &buffer.at.owner;
    let is_in = access == Access::Write;
    let (by, running_max) = if is_in { (DeviceId::HOST, IN_MAX) } else { (device.id, OUT_MAX) };
    let Pieces { lane, running } = pieces;
    let (mut offset, mut inward) = (0, Pieces::default());
    loop {
        if offset < buffer.len() && running.len() < running_max {
            if is_in && let Some((point, len)) = written(end, buffer, offset)? {
                running.push(Leg { part: None, offset, point });
                offset += len;
                continue;
            }
            let len = end.piece_bytes().min(buffer.len() - offset);
            let part = share::take(device, lane, by, len).await?;
            if is_in {
                host_moves(&part, end, offset, Access::Write).await?;
            }
            let half = (part.at(), part.span(other(access)));
            let own = (&buffer.at, part_of(buffer, offset, part.len, access));
            let (from, to) = if is_in { (half, own) } else { (own, half) };
            let started = profile::begin();
            let point = device_copy(device, from, to).await?;
            let len = part.len;
            note(started, What::Leg, device.id, len);
            let part = (lane.joins || !is_in).then_some(part);
            running.push(Leg { part, offset, point });
            offset += len;
        } else if offset < buffer.len() || running.len() > left {
            let leg = running.remove(0);
            wait::finish(device, leg.point.value(), "copy").await?;
            let Some(part) = leg.part else { continue };
            part.close();
            match end {
                _ if is_in => {}
                End::Device(other) => pass_on(&part, other, leg.offset, &mut inward).await?,
                _ => host_moves(&part, end, leg.offset, Access::Read).await?,
            }
        } else if let End::Device(other) = end
            && device.id == buffer.at.owner.id
        {
            // Only the other device's legs are left.
            device = &other.at.owner;
            *running = std::mem::take(&mut inward.running);
        } else {
            return Ok(());
        }
    }
}

/// The host moves a piece's bytes to or from an end: in for a write of the half.
async fn host_moves(part: &Part, end: &End<'_>, offset: u64, access: Access) -> Outcome<()> {
    let started = profile::begin();
    loop {
        {
            let _held = match end.buffer() {
                Some(buffer) => {
                    let side = Claimed { buffer, access: other(access) };
                    Some(claim_host("copy", &[side]).await?)
                }
                None => None,
            };
            let own = end.bytes(offset, part.len)?;
            if let Poll::Ready(half) = mapped(part, access)? {
                match (end.file(), access) {
                    (Some(file), Access::Read) => {
                        half.with(|half| write_file(file, offset, half))?
                    }
                    (Some(file), Access::Write) => {
                        half.with_mut(|half| read_file(file, offset, half))?;
                    }
                    (None, Access::Read) => half.copy_to(own),
                    (None, Access::Write) => own.copy_near_to(half),
                }
                break;
            }
        }
        own_bytes(part.at(), access).await?;
    }
    note(started, What::HostMove, DeviceId::HOST, part.len);
    Ok(())
}

/// Returns a part's bytes if they are mapped, which wakes nobody; they are the caller's until it
/// waits.
fn mapped(part: &Part, access: Access) -> Outcome<Poll<HostBytes>> {
    let at = part.at();
    let all = at.bytes.map_or_else(|| poll_map(at, access), |all| Ok(Poll::Ready(all)));
    Ok(all?.map(|all| part.of(all)))
}

/// The host moves a piece on to another device, from a half that is nobody else's and is free once
/// the legs there are handed over.
async fn pass_on(part: &Part, dst: &Buffer, offset: u64, inward: &mut Pieces) -> Outcome<()> {
    let end = End::Bytes(part.of(own_bytes(part.at(), Access::Read).await?));
    boxed(&dst.part(offset, part.len), &end, inward).await
}

/// Moves bytes in like [`moved`], of which this is part.
#[inline] // Else the package has all that it calls twice: here, and in the program that calls.
fn boxed<'a>(
    buffer: &'a Buffer,
    end: &'a End<'_>,
    inward: &'a mut Pieces,
) -> BoxFuture<'a, Outcome<()>> {
    Box::pin(moved(buffer, end, Access::Write, inward, IN_MAX))
}

/// What the other side of a move is for.
fn other(access: Access) -> Access {
    if access == Access::Read { Access::Write } else { Access::Read }
}

/// Hands a piece of host bytes over as it is, if the driver takes it and nothing has to be waited
/// for; answers its point and length.
fn written(src: &End<'_>, dst: &Buffer, offset: u64) -> Outcome<Option<(Point, u64)>> {
    let device = &dst.at.owner;
    let Some(queue) = device.copy_queue.filter(|_| device.facts.write_bytes > 0) else {
        return Ok(None);
    };
    let started = profile::begin();
    let len = write_len(src, dst, offset);
    let Some((_held, from)) = src.piece_now(offset, len)? else { return Ok(None) };
    let op = Op::Native(Native(Arc::new(from)));
    let parts = [driver::Part { queue, after: Vec::new(), op }];
    let spans = [part_of(dst, offset, len, Access::Write)];
    let work = Work { prepared: None, parts: &parts, spans: &spans };
    let touches = [Touch { at: &dst.at, access: Access::Write }];
    let point = hand_over_now(device, &Job::of("copy", work, &touches))?;
    note(started, What::Leg, device.id, len);
    Ok(point.map(|point| (point, len)))
}

/// Returns the bytes of the next piece that a driver takes as it is.
fn write_len(src: &End<'_>, dst: &Buffer, offset: u64) -> u64 {
    let facts = &dst.at.owner.facts;
    let is_whole = (dst.offset() | dst.len()).is_multiple_of(facts.grain_bytes);
    let len_max = match src {
        // They need not be kept then.
        End::Bytes(_) if is_whole && dst.len() <= facts.write_bytes => dst.len(),
        _ => staging::piece_bytes(&dst.at.owner),
    };
    len_max.min(dst.len() - offset)
}

/// Returns part of a buffer as its memory's own device names it.
pub(crate) fn part_of(buffer: &Buffer, offset: u64, len: u64, access: Access) -> Span {
    let offset = buffer.offset() + offset;
    Span { region: buffer.at.region, offset, len, access, is_last: false }
}

/// One device moves each piece into a half that another maps too, which moves it on from there; the
/// last leg is waited for.
pub(crate) async fn staged_through(src: &Buffer, dst: &Buffer) -> Outcome<()> {
    let (from, to) = (&src.at.owner, &dst.at.owner);
    let (mut lane, mut offset, mut last) = (Lane::default(), 0, None);
    let mut inward = Pieces::default();
    while offset < src.len() {
        let len = (src.len() - offset).min(staging::piece_bytes(to));
        let part = share::take(from, &mut lane, from.id, len).await?;
        let own = (&src.at, part_of(src, offset, part.len, Access::Read));
        let point = leg(from, own, (part.at(), part.span(Access::Write))).await?;
        last = match part.half().span_on(to, part.len, Access::Read)? {
            Some((span, _map)) => {
                let target = part_of(dst, offset, part.len, Access::Write);
                Some(leg(to, (part.at(), span), (&dst.at, target)).await?)
            }
            // One of them did not map the half.
            None => {
                wait::finish(from, point.value(), "copy").await?;
                pass_on(&part, dst, offset, &mut inward).await?;
                last
            }
        };
        offset += part.len;
    }
    for point in last.into_iter().chain(inward.running.iter().map(|leg| leg.point)) {
        wait::finish(to, point.value(), "copy").await?;
    }
    Ok(())
}

/// The host reads each piece into a half, and writes it from there.
pub(crate) async fn file_to_file(src: &Buffer, dst: &Buffer) -> Outcome<()> {
    let host = host_owner();
    let (mut lane, mut offset) = (Lane::default(), 0);
    while offset < src.len() {
        let part = share::take(host, &mut lane, DeviceId::HOST, src.len() - offset).await?;
        host_moves(&part, &End::Buffer(src), offset, Access::Write).await?;
        host_moves(&part, &End::Buffer(dst), offset, Access::Read).await?;
        offset += part.len;
    }
    Ok(())
}

/// A device moves one piece of a copy.
async fn leg(device: &Arc<Owner>, from: (&Ref, Span), to: (&Ref, Span)) -> Outcome<Point> {
    let started = profile::begin();
    let point = device_copy(device, from, to).await?;
    note(started, What::Leg, device.id, from.1.len);
    Ok(point)
}

/// Hands one copy over to a device: of which memory, and where that finds the bytes.
pub(crate) async fn device_copy(
    device: &Arc<Owner>,
    (src, from): (&Ref, Span),
    (dst, to): (&Ref, Span),
) -> Outcome<Point> {
    let Some(queue) = device.copy_queue else {
        return Err(Failed::unsupported(&device.name, "this device runs no copies"));
    };
    let parts = [driver::Part { queue, after: Vec::new(), op: Op::Copy { src: 0, dst: 1 } }];
    let work = Work { prepared: None, parts: &parts, spans: &[from, to] };
    let touches = [Touch { at: src, access: from.access }, Touch { at: dst, access: to.access }];
    // Each allocation once: what is written may be read.
    let is_one = Arc::ptr_eq(src.record(), dst.record());
    hand_over(device, &Job::of("copy", work, &touches[usize::from(is_one)..])).await
}

/// Tells a profile of a move of bytes.
pub(crate) fn note(begun: Option<u64>, what: What, device: DeviceId, bytes: u64) {
    profile::end(begun, what, device, |event| Event { bytes, ..event });
}

/// How many pieces a device has inwards that are not done, at most. One piece of all bytes was 2 to
/// 7 times slower from 16 to 256 MiB, in Node and Chromium, where the engine had no memory at hand
/// (benchmark of 2026-11-30).
const IN_MAX: usize = 4;
/// The same outwards, where each has a half of the slot.
const OUT_MAX: usize = 2;
