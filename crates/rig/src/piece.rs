//! Copies in pieces through staging (S7.3 to S7.8): host and device on different halves.
//!
//! A half is held for one piece; a loss before a leg is reached keeps all bytes of that piece from
//! the host. Claims are held only while bytes move. Any thread may copy.

use crate::access::{Side as Claimed, claim_host, own_bytes, part_bytes};
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
use crate::timeline::{DeviceId, Point};
use crate::wait;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// How fast host bytes are handed over to a driver that takes them as they are.
#[derive(Clone, Copy)]
pub(crate) enum Pace {
    /// A piece once an earlier one is done, so that few bytes are on the way.
    Steady,
    /// All in the first poll, up to as many as the driver takes.
    AtOnce,
}

/// Where the host takes a piece from.
pub(crate) enum Source<'a> {
    Buffer(&'a Buffer, Pace),
    Slice(&'a [u8]),
}

impl Source<'_> {
    /// Moves a piece into a half.
    async fn move_into(&self, offset: u64, into: HostBytes) -> Outcome<()> {
        let len = into.len_bytes();
        match self {
            Self::Slice(from) => {
                into.write_slice_near(piece(from, offset, len));
                Ok(())
            }
            Self::Buffer(buffer, _) => {
                let side = Claimed { buffer, access: Access::Read };
                let _held = claim_host("copy", &[side]).await?;
                if buffer.at.is_file() {
                    return into.with_mut(|into| read_file(buffer, offset, into));
                }
                part_bytes(buffer, offset, len)?.copy_near_to(into);
                Ok(())
            }
        }
    }
}

fn piece(bytes: &[u8], offset: u64, len: u64) -> &[u8] {
    // In range: the offsets of pieces of a slice fit its length, which is a `usize`.
    &bytes[offset as usize..(offset + len) as usize]
}

/// Where the host puts a piece.
pub(crate) enum Sink<'a> {
    Buffer(&'a Buffer),
    Slice(&'a mut [u8]),
}

impl Sink<'_> {
    /// Moves a piece out of a half.
    async fn move_from(&mut self, offset: u64, from: HostBytes) -> Outcome<()> {
        let len = from.len_bytes();
        match self {
            Self::Slice(into) => {
                from.read_slice(&mut into[offset as usize..(offset + len) as usize]);
                Ok(())
            }
            Self::Buffer(buffer) => {
                let side = Claimed { buffer, access: Access::Write };
                let _held = claim_host("copy", &[side]).await?;
                if buffer.at.is_file() {
                    return from.with(|from| write_file(buffer, offset, from));
                }
                from.copy_to(part_bytes(buffer, offset, len)?);
                Ok(())
            }
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

/// Returns the first `len` bytes of a half, for the host to do as it says.
async fn half_bytes(half: &Half, len: u64, access: Access) -> Outcome<HostBytes> {
    Ok(own_bytes(&half.at, access).await?.range(0, len))
}

/// The host moves each piece into a half, the device on from there; the last leg is waited for.
/// A driver that takes host bytes as they are gets them without a half.
pub(crate) async fn staged_in(src: &Source<'_>, dst: &Buffer) -> Outcome<()> {
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
        if let Some(from) = taken(src, dst) {
            let len = write_len(src, dst, offset);
            let leg = pin!(leg_written(from, dst, offset, len));
            if let Poll::Ready(point) = leg.poll(&mut Context::from_waker(Waker::noop())) {
                running[RUNNING - 1] = Some(point?);
                offset += len;
                continue;
            }
        }
        let half = take_half(device, &mut lane, DeviceId::HOST).await?;
        let len = (dst.len() - offset).min(half.len()).min(staging::piece_bytes(device));
        let started = profile::begin();
        let into = half_bytes(&half, len, Access::Write).await?;
        src.move_into(offset, into).await?;
        note(started, What::HostMove, DeviceId::HOST, len);
        running[RUNNING - 1] = Some(leg_in(device, &half, dst, offset, len).await?);
        offset += len;
    }
}

/// Returns the host buffer whose bytes the driver takes as they are, if it does.
pub(crate) fn taken<'a>(src: &Source<'a>, dst: &Buffer) -> Option<&'a Buffer> {
    let facts = &dst.at.owner.facts;
    let whole = (dst.offset() | dst.len()).is_multiple_of(facts.grain_bytes);
    match src {
        Source::Buffer(buffer, _) if facts.write_bytes > 0 && whole && !buffer.at.is_file() => {
            Some(buffer)
        }
        _ => None,
    }
}

/// Returns the bytes of the next piece that a driver takes as it is.
fn write_len(src: &Source<'_>, dst: &Buffer, offset: u64) -> u64 {
    let len_max = match src {
        Source::Buffer(_, Pace::AtOnce) if dst.len() <= dst.at.owner.facts.write_bytes => dst.len(),
        _ => staging::piece_bytes(&dst.at.owner),
    };
    len_max.min(dst.len() - offset)
}

/// Hands a piece of a host buffer over as it is. Dropped while it waits, it did nothing.
async fn leg_written(from: &Buffer, dst: &Buffer, offset: u64, len: u64) -> Outcome<Point> {
    let started = profile::begin();
    let side = Claimed { buffer: from, access: Access::Read };
    let _held = claim_host("copy", &[side]).await?;
    let op = Op::Native(Native(Arc::new(part_bytes(from, offset, len)?)));
    let spans = [part_of(dst, offset, len, Access::Write)];
    let touches = [Touch { at: &dst.at, access: Access::Write }];
    let point = handed(&dst.at.owner, op, &spans, &touches).await?;
    note(started, What::Leg, dst.at.owner.id, len);
    Ok(point)
}

async fn leg_in(
    device: &Arc<Owner>,
    half: &Half,
    dst: &Buffer,
    offset: u64,
    len: u64,
) -> Outcome<Point> {
    let started = profile::begin();
    let from = half.span(len, Access::Read);
    let to = part_of(dst, offset, len, Access::Write);
    let touches = [
        Touch { at: &half.at, access: Access::Read },
        Touch { at: &dst.at, access: Access::Write },
    ];
    let point = device_copy(device, from, to, &touches).await?;
    note(started, What::Leg, device.id, len);
    Ok(point)
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
pub(crate) async fn staged_out(src: &Buffer, dst: &mut Sink<'_>) -> Outcome<()> {
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
            let started = profile::begin();
            let from = half_bytes(&leg.half, leg.len, Access::Read).await?;
            dst.move_from(leg.offset, from).await?;
            note(started, What::HostMove, DeviceId::HOST, leg.len);
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
    let started = profile::begin();
    let len_max = len_max.min(half.len()).min(staging::piece_bytes(device));
    let len = len_max.min(src.len() - offset);
    let from = part_of(src, offset, len, Access::Read);
    let to = half.span(len, Access::Write);
    let touches = [
        Touch { at: &src.at, access: Access::Read },
        Touch { at: &half.at, access: Access::Write },
    ];
    let point = device_copy(device, from, to, &touches).await?;
    note(started, What::Leg, device.id, len);
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
            Some((span, _map)) => through_half(to, &leg, span, dst).await?,
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

async fn through_half(to: &Arc<Owner>, leg: &Leg, span: Span, dst: &Buffer) -> Outcome<Point> {
    let started = profile::begin();
    let target = part_of(dst, leg.offset, leg.len, Access::Write);
    let touches = [
        Touch { at: &leg.half.at, access: Access::Read },
        Touch { at: &dst.at, access: Access::Write },
    ];
    let point = device_copy(to, span, target, &touches).await?;
    note(started, What::Leg, to.id, leg.len);
    Ok(point)
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
        let into = half_bytes(&half, len, Access::Write).await?;
        let piece = half_bytes(&leg.half, leg.len, Access::Read).await?.range(done, len);
        let started = profile::begin();
        piece.copy_to(into);
        note(started, What::HostMove, DeviceId::HOST, len);
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
        let piece = half_bytes(&half, piece_len, Access::Write).await?;
        Source::Buffer(src, Pace::Steady).move_into(offset, piece).await?;
        Sink::Buffer(dst).move_from(offset, piece).await?;
        offset += piece_len;
    }
    Ok(())
}

/// Hands one copy over to a device.
pub(crate) async fn device_copy(
    device: &Arc<Owner>,
    from: Span,
    to: Span,
    touches: &[Touch<'_>],
) -> Outcome<Point> {
    handed(device, Op::Copy { src: 0, dst: 1 }, &[from, to], touches).await
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
