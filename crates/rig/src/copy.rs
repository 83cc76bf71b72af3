//! Copies, blits and fills, by the route that facts choose (S7).
//!
//! A copy returns with the bytes in its destination. Staged ones move in pieces through the halves
//! of a slot, host and device on different halves; a loss before a leg is reached keeps all bytes
//! of that piece from the host. Any thread may copy; claims are held only while bytes move.

use crate::access::{Side as Claimed, bytes_of, claim_host};
use crate::allocation::Memory;
use crate::allocation::mapping::MapRef;
use crate::allocation::owner::Owner;
use crate::borrow;
use crate::buffer::{Buffer, On};
use crate::bytes::HostBytes;
use crate::driver::{Access, Addressed, FileError, Kind, Op, Part, Span, Work};
use crate::entry;
use crate::error::{Error, Misuse, Result, check_range};
use crate::hand::{Job, Touch, hand_over, merge};
use crate::life;
use crate::profile::{self, Event, What};
use crate::route::{Peer, Peers, Place, Route, Side, route};
use crate::staging::{self, Half, Lane};
use crate::timeline::{DeviceId, Point};
use crate::wait;
use std::sync::Arc;

/// Copies all of `src` to `dst`, which are of one length, and returns with the bytes there. The
/// host moves them where it addresses both sides; a device where it reaches both; else they pass
/// through staging. Waits for what the copy follows, and for the copy.
///
/// # Errors
///
/// In this order (S7.1): `Misuse` for a dead source, a dead destination, lengths that differ,
/// overlap, a read-only destination; `Lost` for the source's devices, the destination's; then what
/// the moves meet: `Lost`, `Misuse::Busy`, `OutOfMemory` of the host for staging, `Unsupported` on
/// a device that runs no copies.
pub async fn copy_async(src: &Buffer, dst: &Buffer) -> Result<()> {
    entry::check("copy")?;
    src.check_live("copy")?;
    dst.check_live("copy")?;
    if src.len() != dst.len() {
        let what = Misuse::LengthsDiffer { src_bytes: src.len(), dst_bytes: dst.len() };
        return what.of("copy");
    }
    if src.overlaps(dst) {
        return Misuse::Overlap.of("copy");
    }
    dst.check_writable("copy")?;
    src.check_devices()?;
    dst.check_devices()?;
    life::drain(&src.at.owner);
    if dst.at.owner.id != src.at.owner.id {
        life::drain(&dst.at.owner);
    }
    if src.is_empty() {
        return Ok(());
    }
    let (route, _peer) = choose(src, dst)?;
    run(route, src, dst).await
}

/// Copies like [`copy_async`], and blocks meanwhile.
///
/// # Errors
///
/// Those of [`copy_async`].
#[cfg(not(target_family = "wasm"))]
pub fn copy(src: &Buffer, dst: &Buffer) -> Result<()> {
    wait::block_on(copy_async(src, dst))
}

async fn run(route: Route, src: &Buffer, dst: &Buffer) -> Result<()> {
    let len = src.len();
    match route {
        Route::HostCopy => host_copy(src, dst).await,
        Route::Direct { by } => direct(by, src, dst).await,
        Route::StagedIn { .. } => staged_in(&Source::Host(src), dst).await,
        Route::StagedOut { .. } => staged_out(src, &mut Sink::Host(dst)).await,
        Route::FileToDevice { .. } => staged_in(&Source::File(src), dst).await,
        Route::DeviceToFile { .. } => staged_out(src, &mut Sink::File(dst)).await,
        Route::StagedThrough { .. } => staged_through(src, dst).await,
        Route::FileRead => file_read(src, dst).await,
        Route::FileWrite => file_write(src, dst).await,
        Route::FileToFile => file_to_file(src, dst, len).await,
        Route::WantsPeer { by } | Route::Unsupported { device: by } => {
            let device = crate::timeline::track(by).name();
            Err(Error::Unsupported { device, why: Arc::from("this device runs no copies") })
        }
    }
}

/// Chooses the route, asking for a peer mapping where a row hangs on it; the mapping is kept while
/// the copy runs.
fn choose(src: &Buffer, dst: &Buffer) -> Result<(Route, Option<MapRef>)> {
    let one_driver = src.at.owner.driver.kind() == dst.at.owner.driver.kind();
    let mut peers = if one_driver { Peers::UNASKED } else { Peers::NONE };
    let mut kept = None;
    loop {
        let chosen = route(side(src), side(dst), peers);
        let Route::WantsPeer { by } = chosen else { return Ok((chosen, kept)) };
        let (asker, other) = if by == dst.at.owner.id { (dst, src) } else { (src, dst) };
        let map = borrow::map_peer(&asker.at.owner, other.at.record())?;
        let answer = if map.is_some() { Peer::Maps } else { Peer::Cannot };
        if by == dst.at.owner.id {
            peers.dst_maps_src = answer;
        } else {
            peers.src_maps_dst = answer;
        }
        kept = kept.or(map);
    }
}

fn side(buffer: &Buffer) -> Side {
    let owner = &buffer.at.owner;
    let place = match buffer.at.memory {
        Memory::File => Place::File,
        Memory::Pool { kind: Kind::Pinned, .. } if owner.facts.addressed == Addressed::Never => {
            Place::Pinned
        }
        _ if buffer.at.is_addressed() => Place::Addressed,
        _ => Place::Unaddressed,
    };
    Side {
        place,
        device: buffer.device_owner().id,
        owner: owner.id,
        copies: owner.copy_queue.is_some(),
    }
}

async fn host_copy(src: &Buffer, dst: &Buffer) -> Result<()> {
    let sides = [
        Claimed { buffer: src, access: Access::Read },
        Claimed { buffer: dst, access: Access::Write },
    ];
    let _held = claim_host("copy", &sides).await?;
    let from = range(bytes_of(&src.at).await?, src, 0, src.len());
    let to = range(bytes_of(&dst.at).await?, dst, 0, dst.len());
    from.copy_to(to);
    Ok(())
}

fn range(bytes: HostBytes, buffer: &Buffer, offset: u64, len: u64) -> HostBytes {
    bytes.range(buffer.offset() + offset, len)
}

/// One device moves all of it, and is waited for.
async fn direct(by: DeviceId, src: &Buffer, dst: &Buffer) -> Result<()> {
    let Some(device) = life::owner_of(by) else { return Err(lost_device(by)) };
    let started = profile::now_ns();
    let from = span_on(&device, src, Access::Read);
    let to = span_on(&device, dst, Access::Write);
    let touches =
        [Touch { at: &src.at, access: Access::Read }, Touch { at: &dst.at, access: Access::Write }];
    let point = device_copy(&device, from, to, &touches).await?;
    wait::reach(&device, point.value()).await?;
    note(What::DirectCopy, by, started, src.len());
    Ok(())
}

/// Returns the range by which `device` names a buffer's bytes.
fn span_on(device: &Arc<Owner>, buffer: &Buffer, access: Access) -> Span {
    let region = if buffer.at.owner.id == device.id {
        buffer.at.region
    } else {
        match &buffer.on {
            On::Mapped(map) if map.mapping().device.id == device.id => map.mapping().region,
            _ => mapped_region(device, buffer),
        }
    };
    Span { region, offset: buffer.offset(), len: buffer.len(), access }
}

/// Returns the region of the mapping that the route asked for.
fn mapped_region(device: &Arc<Owner>, buffer: &Buffer) -> crate::driver::Region {
    let extra = buffer.at.extra.lock();
    let map = extra.maps.iter().find(|map| map.device.id == device.id);
    map.map_or(buffer.at.region, |map| map.region)
}

/// Hands one copy over to a device.
async fn device_copy(
    device: &Arc<Owner>,
    from: Span,
    to: Span,
    touches: &[Touch<'_>],
) -> Result<Point> {
    let Some(queue) = device.copy_queue else {
        let why = Arc::from("this device runs no copies");
        return Err(Error::Unsupported { device: Arc::clone(&device.name), why });
    };
    let parts = [Part { queue, after: Vec::new(), op: Op::Copy { src: 0, dst: 1 } }];
    let work = Work { prepared: None, parts: &parts, spans: &[from, to] };
    let touches = merge(touches.iter().copied());
    let job = Job { call: "copy", work, touches: &touches, waits: &[], releases: &[] };
    hand_over(device, &job).await
}

/// Where the host takes a piece from.
enum Source<'a> {
    Host(&'a Buffer),
    File(&'a Buffer),
    Slice(&'a [u8]),
}

impl Source<'_> {
    /// Moves a piece into a half.
    async fn move_into(&self, offset: u64, into: HostBytes) -> Result<()> {
        let len = into.len_bytes();
        match self {
            Self::Slice(from) => {
                into.write_slice(piece(from, offset, len));
                Ok(())
            }
            Self::Host(buffer) => {
                let side = Claimed { buffer, access: Access::Read };
                let _held = claim_host("copy", &[side]).await?;
                range(bytes_of(&buffer.at).await?, buffer, offset, len).copy_to(into);
                Ok(())
            }
            Self::File(buffer) => {
                let side = Claimed { buffer, access: Access::Read };
                let _held = claim_host("copy", &[side]).await?;
                read_file(buffer, offset, into)
            }
        }
    }
}

fn piece(bytes: &[u8], offset: u64, len: u64) -> &[u8] {
    // In range: the offsets of pieces of a slice fit its length, which is a `usize`.
    &bytes[offset as usize..(offset + len) as usize]
}

/// Where the host puts a piece.
enum Sink<'a> {
    Host(&'a Buffer),
    File(&'a Buffer),
    Slice(&'a mut [u8]),
}

impl Sink<'_> {
    /// Moves a piece out of a half.
    async fn move_from(&mut self, offset: u64, from: HostBytes) -> Result<()> {
        let len = from.len_bytes();
        match self {
            Self::Slice(into) => {
                from.read_slice(&mut into[offset as usize..(offset + len) as usize]);
                Ok(())
            }
            Self::Host(buffer) => {
                let side = Claimed { buffer, access: Access::Write };
                let _held = claim_host("copy", &[side]).await?;
                from.copy_to(range(bytes_of(&buffer.at).await?, buffer, offset, len));
                Ok(())
            }
            Self::File(buffer) => {
                let side = Claimed { buffer, access: Access::Write };
                let _held = claim_host("copy", &[side]).await?;
                write_file(buffer, offset, from)
            }
        }
    }
}

/// Waits until the host may use a half for what `access` says; the half is held.
async fn half_ready(half: &Half, access: Access) -> Result<()> {
    wait::follow(&half.at.stamps, access).await
}

/// The host moves each piece into a half, the device on from there; the last leg is waited for.
async fn staged_in(src: &Source<'_>, dst: &Buffer) -> Result<()> {
    let device = &dst.at.owner;
    let mut lane = Lane::default();
    let (mut offset, mut last) = (0, None);
    while offset < dst.len() {
        let half = staging::take(device, &mut lane).await?;
        let len = (dst.len() - offset).min(half.len()).min(staging::piece_bytes(device));
        half_ready(&half, Access::Write).await?;
        let started = profile::now_ns();
        src.move_into(offset, half.bytes(len)).await?;
        note(What::HostMove, DeviceId::HOST, started, len);
        last = Some(leg_in(device, &half, dst, offset, len).await?);
        offset += len;
    }
    match last {
        Some(point) => wait::reach(device, point.value()).await,
        None => Ok(()),
    }
}

async fn leg_in(
    device: &Arc<Owner>,
    half: &Half,
    dst: &Buffer,
    offset: u64,
    len: u64,
) -> Result<Point> {
    let started = profile::now_ns();
    let from = half.span(len, Access::Read);
    let to = part_of(dst, offset, len, Access::Write);
    let touches = [
        Touch { at: &half.at, access: Access::Read },
        Touch { at: &dst.at, access: Access::Write },
    ];
    let point = device_copy(device, from, to, &touches).await?;
    note(What::Leg, device.id, started, len);
    Ok(point)
}

/// Returns part of a buffer as its memory's own device names it.
fn part_of(buffer: &Buffer, offset: u64, len: u64, access: Access) -> Span {
    Span { region: buffer.at.region, offset: buffer.offset() + offset, len, access }
}

/// A leg outwards that is handed over: its half, where its piece lies, and its point.
struct Leg {
    half: Half,
    offset: u64,
    len: u64,
    point: Point,
}

/// The device moves each piece into a half, the host on from there; the next leg runs meanwhile.
async fn staged_out(src: &Buffer, dst: &mut Sink<'_>) -> Result<()> {
    let device = &src.at.owner;
    let mut lane = Lane::default();
    let mut offset = 0;
    let mut running: Option<Leg> = None;
    while offset < src.len() || running.is_some() {
        let next = if offset < src.len() {
            let leg = leg_out(device, src, &mut lane, offset).await?;
            offset += leg.len;
            Some(leg)
        } else {
            None
        };
        if let Some(leg) = std::mem::replace(&mut running, next) {
            wait::reach(device, leg.point.value()).await?;
            let started = profile::now_ns();
            half_ready(&leg.half, Access::Read).await?;
            dst.move_from(leg.offset, leg.half.bytes(leg.len)).await?;
            note(What::HostMove, DeviceId::HOST, started, leg.len);
        }
    }
    Ok(())
}

async fn leg_out(device: &Arc<Owner>, src: &Buffer, lane: &mut Lane, offset: u64) -> Result<Leg> {
    let half = staging::take(device, lane).await?;
    let started = profile::now_ns();
    let len = (src.len() - offset).min(half.len()).min(staging::piece_bytes(device));
    let from = part_of(src, offset, len, Access::Read);
    let to = half.span(len, Access::Write);
    let touches = [
        Touch { at: &src.at, access: Access::Read },
        Touch { at: &half.at, access: Access::Write },
    ];
    let point = device_copy(device, from, to, &touches).await?;
    note(What::Leg, device.id, started, len);
    Ok(Leg { half, offset, len, point })
}

/// One device moves each piece into a half, another on from there; the last leg is waited for.
async fn staged_through(src: &Buffer, dst: &Buffer) -> Result<()> {
    let (from, to) = (&src.at.owner, &dst.at.owner);
    let shared = match (staging::key_of(from), staging::key_of(to)) {
        (staging::Key::Host(_), staging::Key::Host(_)) => true,
        // Between halves of two kinds the host moves the piece (S7.7).
        _ => false,
    };
    let mut out = Lane::default();
    let mut inward = Lane::default();
    let (mut offset, mut last) = (0, None);
    while offset < src.len() {
        let mut leg = leg_out(from, src, &mut out, offset).await?;
        let limit = staging::piece_bytes(to);
        leg.len = leg.len.min(limit);
        let point = if shared {
            through_half(to, &leg, dst).await?
        } else {
            between_halves(from, to, leg_parts(&leg), &leg.half, dst, &mut inward).await?
        };
        offset += leg.len;
        last = Some(point);
    }
    match last {
        Some(point) => wait::reach(to, point.value()).await,
        None => Ok(()),
    }
}

#[derive(Clone, Copy)]
struct Piece {
    offset: u64,
    len: u64,
    point: Point,
}

fn leg_parts(leg: &Leg) -> Piece {
    Piece { offset: leg.offset, len: leg.len, point: leg.point }
}

async fn through_half(to: &Arc<Owner>, leg: &Leg, dst: &Buffer) -> Result<Point> {
    let started = profile::now_ns();
    let span = leg.half.span_on(to, leg.len, Access::Read)?;
    let target = part_of(dst, leg.offset, leg.len, Access::Write);
    let touches = [
        Touch { at: &leg.half.at, access: Access::Read },
        Touch { at: &dst.at, access: Access::Write },
    ];
    let point = device_copy(to, span, target, &touches).await?;
    note(What::Leg, to.id, started, leg.len);
    Ok(point)
}

async fn between_halves(
    from: &Arc<Owner>,
    to: &Arc<Owner>,
    piece: Piece,
    half: &Half,
    dst: &Buffer,
    lane: &mut Lane,
) -> Result<Point> {
    wait::reach(from, piece.point.value()).await?;
    let (mut done, mut last) = (0, piece.point);
    while done < piece.len {
        let other = staging::take(to, lane).await?;
        let len = (piece.len - done).min(other.len()).min(staging::piece_bytes(to));
        half_ready(&other, Access::Write).await?;
        let started = profile::now_ns();
        half.bytes(done + len).range(done, len).copy_to(other.bytes(len));
        note(What::HostMove, DeviceId::HOST, started, len);
        last = leg_in(to, &other, dst, piece.offset + done, len).await?;
        done += len;
    }
    Ok(last)
}

async fn file_read(src: &Buffer, dst: &Buffer) -> Result<()> {
    let sides = [
        Claimed { buffer: src, access: Access::Read },
        Claimed { buffer: dst, access: Access::Write },
    ];
    let _held = claim_host("copy", &sides).await?;
    read_file(src, 0, range(bytes_of(&dst.at).await?, dst, 0, dst.len()))
}

async fn file_write(src: &Buffer, dst: &Buffer) -> Result<()> {
    let sides = [
        Claimed { buffer: src, access: Access::Read },
        Claimed { buffer: dst, access: Access::Write },
    ];
    let _held = claim_host("copy", &sides).await?;
    write_file(dst, 0, range(bytes_of(&src.at).await?, src, 0, src.len()))
}

async fn file_to_file(src: &Buffer, dst: &Buffer, len: u64) -> Result<()> {
    let host = crate::open::host_owner();
    let mut lane = Lane::default();
    let mut offset = 0;
    while offset < len {
        let half = staging::take(host, &mut lane).await?;
        let piece = (len - offset).min(half.len());
        half_ready(&half, Access::Write).await?;
        Source::File(src).move_into(offset, half.bytes(piece)).await?;
        Sink::File(dst).move_from(offset, half.bytes(piece)).await?;
        offset += piece;
    }
    Ok(())
}

fn read_file(file: &Buffer, offset: u64, into: HostBytes) -> Result<()> {
    let owner = &file.at.owner;
    let call = life::InFlight::new(owner)?;
    let Some(io) = call.driver().file() else { return Err(lost_device(owner.id)) };
    let at = file.offset() + offset;
    let answer = into.with_mut(|into| io.read_at(file.at.region, at, into));
    answer.map_err(|error| file_error(owner, error))
}

fn write_file(file: &Buffer, offset: u64, from: HostBytes) -> Result<()> {
    let owner = &file.at.owner;
    let call = life::InFlight::new(owner)?;
    let Some(io) = call.driver().file() else { return Err(lost_device(owner.id)) };
    let at = file.offset() + offset;
    let answer = from.with(|from| io.write_at(file.at.region, at, from));
    answer.map_err(|error| file_error(owner, error))
}

/// Turns a file's failure into the error to tell; only a fault loses the device (S1.11).
pub(crate) fn file_error(owner: &Arc<Owner>, error: FileError) -> Error {
    match error {
        FileError::Failed(why) => Error::Unsupported { device: Arc::clone(&owner.name), why },
        FileError::Fault(fault) => life::fault(owner, &fault),
    }
}

fn lost_device(id: DeviceId) -> Error {
    let track = crate::timeline::track(id);
    let why = track.why().unwrap_or_else(|| Arc::from("gone"));
    Error::Lost { device: track.name(), why }
}

fn note(what: What, device: DeviceId, started_ns: u64, bytes: u64) {
    if profile::active() {
        profile::record(&Event { bytes, ..Event::since(started_ns, what, device) });
    }
}

/// What a blit or a fill checks, in the order of S0.3.
async fn begin(call: &'static str, buffer: &Buffer, access: Access) -> Result<()> {
    entry::check(call)?;
    buffer.check_live(call)?;
    if access == Access::Write {
        buffer.check_writable(call)?;
    }
    buffer.check_devices()?;
    life::drain(&buffer.at.owner);
    Ok(())
}

impl Buffer {
    /// Copies bytes out of the buffer, from `offset` on; returns with them in `out`. Reaches any
    /// buffer.
    ///
    /// # Errors
    ///
    /// `Misuse` for a range past the end, a dead buffer, a conflict (`Busy`); `Lost`;
    /// `OutOfMemory` of the host for staging; `Unsupported` on a device without copies.
    pub async fn blit_to_async(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        entry::check("blit_to")?;
        check_range("blit_to", offset, out.len() as u64, self.len())?;
        begin("blit_to", self, Access::Read).await?;
        if out.is_empty() {
            return Ok(());
        }
        let part = self.view(offset, out.len() as u64)?;
        if self.at.memory == Memory::File || self.at.is_addressed() {
            let side = Claimed { buffer: &part, access: Access::Read };
            let _held = claim_host("blit_to", &[side]).await?;
            if self.at.memory == Memory::File {
                return read_file_into(&part, out);
            }
            range(bytes_of(&part.at).await?, &part, 0, part.len()).read_slice(out);
            return Ok(());
        }
        staged_out(&part, &mut Sink::Slice(out)).await
    }

    /// Copies bytes into the buffer, from `offset` on; returns with them there. Reaches any
    /// buffer.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_to_async`]; `Misuse` for a read-only buffer.
    pub async fn blit_from_async(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        entry::check("blit_from")?;
        check_range("blit_from", offset, bytes.len() as u64, self.len())?;
        begin("blit_from", self, Access::Write).await?;
        if bytes.is_empty() {
            return Ok(());
        }
        let part = self.view(offset, bytes.len() as u64)?;
        if self.at.memory == Memory::File || self.at.is_addressed() {
            let side = Claimed { buffer: &part, access: Access::Write };
            let _held = claim_host("blit_from", &[side]).await?;
            if self.at.memory == Memory::File {
                return write_file_from(&part, 0, bytes);
            }
            range(bytes_of(&part.at).await?, &part, 0, part.len()).write_slice(bytes);
            return Ok(());
        }
        staged_in(&Source::Slice(bytes), &part).await
    }

    /// Sets every byte of the buffer; returns when it is done. Reaches any buffer.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_from_async`].
    pub async fn fill_async(&self, byte: u8) -> Result<()> {
        begin("fill", self, Access::Write).await?;
        if self.is_empty() {
            return Ok(());
        }
        if self.at.memory == Memory::File || self.at.is_addressed() {
            let side = Claimed { buffer: self, access: Access::Write };
            let _held = claim_host("fill", &[side]).await?;
            if self.at.memory == Memory::File {
                return fill_file(self, byte);
            }
            range(bytes_of(&self.at).await?, self, 0, self.len()).fill(byte);
            return Ok(());
        }
        device_fill(self, byte).await
    }

    /// Copies out like [`Buffer::blit_to_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_to_async`].
    #[cfg(not(target_family = "wasm"))]
    pub fn blit_to(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        wait::block_on(self.blit_to_async(offset, out))
    }

    /// Copies in like [`Buffer::blit_from_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::blit_from_async`].
    #[cfg(not(target_family = "wasm"))]
    pub fn blit_from(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        wait::block_on(self.blit_from_async(offset, bytes))
    }

    /// Fills like [`Buffer::fill_async`], and blocks meanwhile.
    ///
    /// # Errors
    ///
    /// Those of [`Buffer::fill_async`].
    #[cfg(not(target_family = "wasm"))]
    pub fn fill(&self, byte: u8) -> Result<()> {
        wait::block_on(self.fill_async(byte))
    }
}

fn read_file_into(file: &Buffer, into: &mut [u8]) -> Result<()> {
    let owner = &file.at.owner;
    let call = life::InFlight::new(owner)?;
    let Some(io) = call.driver().file() else { return Err(lost_device(owner.id)) };
    let answer = io.read_at(file.at.region, file.offset(), into);
    answer.map_err(|error| file_error(owner, error))
}

fn write_file_from(file: &Buffer, offset: u64, from: &[u8]) -> Result<()> {
    let owner = &file.at.owner;
    let call = life::InFlight::new(owner)?;
    let Some(io) = call.driver().file() else { return Err(lost_device(owner.id)) };
    let answer = io.write_at(file.at.region, file.offset() + offset, from);
    answer.map_err(|error| file_error(owner, error))
}

fn fill_file(file: &Buffer, byte: u8) -> Result<()> {
    let chunk = vec![byte; file.len().min(FILL_BYTES) as usize];
    let mut offset = 0;
    while offset < file.len() {
        let len = (file.len() - offset).min(FILL_BYTES);
        write_file_from(file, offset, &chunk[..len as usize])?;
        offset += len;
    }
    Ok(())
}

async fn device_fill(buffer: &Buffer, byte: u8) -> Result<()> {
    let device = &buffer.at.owner;
    let queues = &device.facts.queues;
    let fills = |at: &usize| queues.get(*at).is_some_and(|queue| queue.fills);
    let queue = device.copy_queue.filter(fills).or_else(|| (0..queues.len()).find(fills));
    let Some(queue) = queue else {
        let why = Arc::from("this device runs no fills");
        return Err(Error::Unsupported { device: Arc::clone(&device.name), why });
    };
    let parts = [Part { queue, after: Vec::new(), op: Op::Fill { dst: 0, byte } }];
    let spans = [part_of(buffer, 0, buffer.len(), Access::Write)];
    let work = Work { prepared: None, parts: &parts, spans: &spans };
    let touches = [Touch { at: &buffer.at, access: Access::Write }];
    let job = Job { call: "fill", work, touches: &touches, waits: &[], releases: &[] };
    let point = hand_over(device, &job).await?;
    wait::reach(device, point.value()).await
}

/// The bytes of a file that a fill writes at a time.
const FILL_BYTES: u64 = 1 << 20;
