//! Copies in pieces through staging (S7.3 to S7.8): host and device on different halves.
//!
//! A half is held for one piece; a loss before a leg is reached keeps all bytes of that piece from
//! the host. Claims are held only while bytes move. Any thread may copy.

use crate::access::{Claim, Side as Claimed, Sides, claim_host, own_bytes, part_bytes, poll_map};
use crate::allocation::Ref;
use crate::allocation::owner::Owner;
use crate::buffer::Buffer;
use crate::bytes::HostBytes;
use crate::driver::{Access, Native, Op, Part, Span, Work};
use crate::error::{Failed, Outcome};
use crate::files::{read_file, write_file};
use crate::hand::{Job, Touch, hand_over, merge};
use crate::open::host_owner;
use crate::profile::{self, Event, What};
use crate::staging::{self, Half, Lane};
use crate::sync::await_native;
use crate::timeline::{DeviceId, Point};
use crate::wait;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Where the host takes pieces from, or puts them.
pub(crate) enum End<'a> {
    Buffer(&'a Buffer),
    /// Bytes of the caller, which need no claim.
    Bytes(HostBytes),
}

impl End<'_> {
    /// Returns the bytes of a piece under their claim, which for a file is all there is.
    pub(crate) async fn piece(
        &self,
        offset: u64,
        len: u64,
        access: Access,
    ) -> Outcome<(Option<Sides<Claim>>, HostBytes)> {
        match self {
            Self::Bytes(bytes) => Ok((None, bytes.range(offset, len))),
            Self::Buffer(buffer) => {
                let held = claim_host("copy", &[Claimed { buffer, access }]).await?;
                Ok((Some(held), part_bytes(buffer, offset, len)?))
            }
        }
    }

    /// Returns the file that it is, if it is one.
    pub(crate) fn file(&self) -> Option<&Buffer> {
        match self {
            Self::Buffer(buffer) if buffer.at.is_file() => Some(buffer),
            _ => None,
        }
    }
}

/// Takes the lane's next half once `by`, which fills it, may: the host, or the device itself. The
/// host waits for what others left on it, so that no other device's loss reaches this copy: a half
/// that meets one is replaced (S7.9).
pub(crate) async fn take_half(device: &Arc<Owner>, lane: &mut Lane, by: DeviceId) -> Outcome<Half> {
    // What the device fills is read by the host.
    let host = if by == DeviceId::HOST { Access::Write } else { Access::Read };
    loop {
        let half = staging::take(device, lane, host).await?;
        match wait::follow_by(&half.at.stamps, Access::Write, by).await {
            Err(failed) if failed.is_lost() && half.is_spoiled() => {}
            ready => return ready.map(|()| half),
        }
    }
}

/// Where a piece is in a half.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) half: &'a Half,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl<'a> Piece<'a> {
    /// Returns the first bytes of a half.
    fn first(half: &'a Half, len: u64) -> Self {
        Self { half, offset: 0, len }
    }

    /// Returns the bytes as the half's device sees them.
    pub(crate) fn span(&self, access: Access) -> Span {
        Span { offset: self.offset, ..self.half.span(self.len, access) }
    }

    /// The host moves the bytes to or from an end: in for a write of the half. It has a map of the
    /// half while it looks alone, so whoever had to wait looks again.
    pub(crate) async fn host_moves(
        self,
        end: &End<'_>,
        offset: u64,
        access: Access,
    ) -> Outcome<()> {
        let started = profile::begin();
        loop {
            let (held, own) = end.piece(offset, self.len, other(access)).await?;
            if let Poll::Ready(half) = self.mapped(access)? {
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
            drop(held);
            own_bytes(&self.half.at, access).await?;
        }
        note(started, What::HostMove, DeviceId::HOST, self.len);
        Ok(())
    }

    /// Returns the bytes if they are mapped, which wakes nobody; they are the caller's until it
    /// waits.
    fn mapped(&self, access: Access) -> Outcome<Poll<HostBytes>> {
        let half = &self.half.at;
        let all = half.bytes.map_or_else(|| poll_map(half, access), |all| Ok(Poll::Ready(all)));
        Ok(all?.map(|all| all.range(self.offset, self.len)))
    }
}

/// What the other side of a move is for.
pub(crate) fn other(access: Access) -> Access {
    if access == Access::Read { Access::Write } else { Access::Read }
}

/// The host moves each piece into a half, the device on from there; the last leg is waited for.
/// A driver that takes host bytes as they are gets them without a half.
pub(crate) async fn staged_in(src: &End<'_>, dst: &Buffer) -> Outcome<()> {
    let device = &dst.at.owner;
    let mut lane = Lane::default();
    let (mut offset, mut running) = (0, [None::<Point>; RUNNING]);
    loop {
        let is_over = offset >= dst.len();
        if let Some(point) = running[if is_over { RUNNING - 1 } else { 0 }] {
            wait::finish(device, point.value(), "copy").await?;
        }
        if is_over {
            return Ok(());
        }
        running.rotate_left(1);
        if is_taken(src, dst) {
            let len = write_len(src, dst, offset);
            let leg = pin!(leg_written(src, dst, offset, len));
            if let Poll::Ready(point) = leg.poll(&mut Context::from_waker(Waker::noop())) {
                running[RUNNING - 1] = Some(point?);
                offset += len;
                continue;
            }
        }
        let half = take_half(device, &mut lane, DeviceId::HOST).await?;
        let len = (dst.len() - offset).min(half.len()).min(staging::piece_bytes(device));
        Piece::first(&half, len).host_moves(src, offset, Access::Write).await?;
        running[RUNNING - 1] = Some(leg_in(device, &half, dst, offset, len).await?);
        offset += len;
    }
}

/// Whether the driver takes the host's bytes as they are.
pub(crate) fn is_taken(src: &End<'_>, dst: &Buffer) -> bool {
    dst.at.owner.facts.write_bytes > 0 && src.file().is_none()
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

/// Hands a piece of host bytes over as it is. Dropped while it waits, it did nothing.
async fn leg_written(src: &End<'_>, dst: &Buffer, offset: u64, len: u64) -> Outcome<Point> {
    let started = profile::begin();
    let (_held, from) = src.piece(offset, len, Access::Read).await?;
    let op = Op::Native(Native(Arc::new(from)));
    let spans = [part_of(dst, offset, len, Access::Write)];
    let touches = [Touch { at: &dst.at, access: Access::Write }];
    let point = handed(&dst.at.owner, op, &spans, &touches).await?;
    note(started, What::Leg, dst.at.owner.id, len);
    Ok(point)
}

/// The device moves a piece from a half into a buffer.
fn leg_in<'a>(
    device: &'a Arc<Owner>,
    half: &'a Half,
    dst: &'a Buffer,
    offset: u64,
    len: u64,
) -> impl Future<Output = Outcome<Point>> {
    let from = half.span(len, Access::Read);
    leg(device, (&half.at, from), (&dst.at, part_of(dst, offset, len, Access::Write)))
}

/// Returns part of a buffer as its memory's own device names it.
pub(crate) fn part_of(buffer: &Buffer, offset: u64, len: u64, access: Access) -> Span {
    let offset = buffer.offset() + offset;
    Span { region: buffer.at.region, offset, len, access, is_last: false }
}

/// A leg outwards that is handed over: its half, where its piece lies, and its point.
struct Leg {
    half: Half,
    offset: u64,
    len: u64,
    point: Point,
}

/// The device moves each piece into a half, the host on from there; the next leg runs meanwhile.
pub(crate) async fn staged_out(src: &Buffer, dst: &End<'_>) -> Outcome<()> {
    let device = &src.at.owner;
    let mut lane = Lane::default();
    let mut offset = 0;
    let mut running: Option<Leg> = None;
    while offset < src.len() || running.is_some() {
        let next = if offset < src.len() {
            let leg = leg_out(device, src, &mut lane, offset, u64::MAX).await?;
            offset += leg.len;
            Some(leg)
        } else {
            None
        };
        if let Some(leg) = std::mem::replace(&mut running, next) {
            wait::finish(device, leg.point.value(), "copy").await?;
            Piece::first(&leg.half, leg.len).host_moves(dst, leg.offset, Access::Read).await?;
        }
    }
    Ok(())
}

async fn leg_out(
    device: &Arc<Owner>,
    src: &Buffer,
    lane: &mut Lane,
    offset: u64,
    len_max: u64,
) -> Outcome<Leg> {
    let half = take_half(device, lane, device.id).await?;
    let len_max = len_max.min(half.len()).min(staging::piece_bytes(device));
    let len = len_max.min(src.len() - offset);
    let from = part_of(src, offset, len, Access::Read);
    let to = half.span(len, Access::Write);
    let point = leg(device, (&src.at, from), (&half.at, to)).await?;
    Ok(Leg { half, offset, len, point })
}

/// One device moves each piece into a half, another on from there; the last leg is waited for.
pub(crate) async fn staged_through(src: &Buffer, dst: &Buffer) -> Outcome<()> {
    let (from, to) = (&src.at.owner, &dst.at.owner);
    let (mut out, mut inward) = (Lane::default(), Lane::default());
    let (mut offset, mut last) = (0, None);
    while offset < src.len() {
        let leg = leg_out(from, src, &mut out, offset, staging::piece_bytes(to)).await?;
        let point = match leg.half.span_on(to, leg.len, Access::Read)? {
            Some((span, _map)) => {
                let target = part_of(dst, leg.offset, leg.len, Access::Write);
                await_native!(self::leg(to, (&leg.half.at, span), (&dst.at, target)))?
            }
            // Between halves of two kinds the host moves the piece (S7.7).
            None => between_halves(from, to, &leg, dst, &mut inward).await?,
        };
        offset += leg.len;
        last = Some(point);
    }
    match last {
        Some(point) => wait::finish(to, point.value(), "copy").await,
        None => Ok(()),
    }
}

/// The host moves a piece from the half of one device to those of another.
async fn between_halves(
    from: &Arc<Owner>,
    to: &Arc<Owner>,
    leg: &Leg,
    dst: &Buffer,
    lane: &mut Lane,
) -> Outcome<Point> {
    wait::finish(from, leg.point.value(), "copy").await?;
    let (mut done, mut last) = (0, leg.point);
    while done < leg.len {
        let half = take_half(to, lane, DeviceId::HOST).await?;
        let len = (leg.len - done).min(half.len());
        let from = End::Bytes(own_bytes(&leg.half.at, Access::Read).await?);
        Piece::first(&half, len).host_moves(&from, done, Access::Write).await?;
        last = leg_in(to, &half, dst, leg.offset + done, len).await?;
        done += len;
    }
    Ok(last)
}

/// The host reads each piece into a half, and writes it from there.
pub(crate) async fn file_to_file(src: &Buffer, dst: &Buffer) -> Outcome<()> {
    let host = host_owner();
    let mut lane = Lane::default();
    let mut offset = 0;
    while offset < src.len() {
        let half = take_half(host, &mut lane, DeviceId::HOST).await?;
        let piece_len = (src.len() - offset).min(half.len());
        let piece = Piece::first(&half, piece_len);
        piece.host_moves(&End::Buffer(src), offset, Access::Write).await?;
        piece.host_moves(&End::Buffer(dst), offset, Access::Read).await?;
        offset += piece_len;
    }
    Ok(())
}

/// A device moves one piece of a copy.
pub(crate) async fn leg(
    device: &Arc<Owner>,
    from: (&Ref, Span),
    to: (&Ref, Span),
) -> Outcome<Point> {
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
    let touches = [Touch { at: src, access: from.access }, Touch { at: dst, access: to.access }];
    handed(device, Op::Copy { src: 0, dst: 1 }, &[from, to], &touches).await
}

/// Hands one part over to a device's copy queue.
async fn handed(
    device: &Arc<Owner>,
    op: Op,
    spans: &[Span],
    touches: &[Touch<'_>],
) -> Outcome<Point> {
    let Some(queue) = device.copy_queue else {
        return Err(Failed::unsupported(&device.name, "this device runs no copies"));
    };
    let parts = [Part { queue, after: Vec::new(), op }];
    let work = Work { prepared: None, parts: &parts, spans };
    let touches = merge(touches.iter().copied());
    let job = Job::of("copy", work, &touches);
    hand_over(device, &job).await
}

/// Tells a profile of a move of bytes.
pub(crate) fn note(begun: Option<u64>, what: What, device: DeviceId, bytes: u64) {
    profile::end(begun, what, device, |event| Event { bytes, ..event });
}

/// How many pieces a device has that are not done, at most. One piece of all bytes was 2 to 7 times
/// slower from 16 to 256 MiB, in Node and Chromium, where the engine had no memory at hand
/// (benchmark of 2026-11-30).
const RUNNING: usize = 4;
